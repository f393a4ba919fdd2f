#include "transport/tcp/path_choice.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/quantity.hpp"
#include "transport/tcp/striping.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kMsInNs = 1'000'000;
// Between two looks whether the link's own rail is back: at least so long, and an eighth of the
// time that it has been gone.
constexpr int64_t kFirstProbeNs = 500 * kMsInNs;
constexpr int64_t kLongestProbeNs = 64'000 * kMsInNs;
constexpr int64_t kProbeShare = 8;
// The end that did not open the link leaves it to the other one to find a slow rail first.
constexpr size_t kOtherEndSamples = 2;
// A slow rail that has become so much faster gets all messages back: with a part of them only, it
// is idle too often to show all it can.
constexpr double kFaster = 1.5;
// In a job with pauses what it shows varies more. So it is also tried with all messages, after so
// much for each sample that it would take else.
constexpr double kFasterWithPauses = 2;
constexpr double kSlowerWithPauses = 0.6;
// Nor is it well so soon: the few messages that it has then may all fit into a token bucket.
constexpr size_t kWellSamplesWithPauses = 16;
constexpr int64_t kTryAfterNs = 2000 * kMsInNs;
// After which more messages than before have shown what the rail does.
constexpr size_t kTrialSamples = 8;
constexpr int64_t kTrialNs = 8000 * kMsInNs;
constexpr double kSlowerInTrial = 0.8;
// What another rail has not shown by then is not waited for.
constexpr int64_t kComparisonNs = 3000 * kMsInNs;
constexpr size_t kMaxSamples = 256;
// Found to be slow again so soon it has not been well at all.
constexpr int64_t kAtOnceNs = 5000 * kMsInNs;
constexpr size_t kLater = 2;
constexpr size_t kMuchLater = 4;

std::optional<PathChoice::Better> without_news(std::optional<PathChoice::Better> better) {
  if (better) {
    better->reason = "";
    better->news = false;
  }
  return better;
}

}  // namespace

std::vector<Share> PathChoice::over(const std::vector<Path>& paths) const {
  const size_t each = (options_.connections_per_link + paths.size() - 1) / paths.size();
  std::vector<Share> shares;
  for (size_t i = 0; i < std::min(each * paths.size(), kMaxLinkConnections); ++i) {
    shares.push_back({.path = paths[i % paths.size()]});
  }
  return shares;
}

bool PathChoice::only_home() const {
  return std::ranges::all_of(shares_, [this](const Share& s) { return s.path == options_.home; });
}

bool PathChoice::away() const {
  return std::ranges::none_of(shares_, [this](const Share& s) { return s.path == options_.home; });
}

// Another rail carries all that the own one could.
bool PathChoice::compares() const {
  return only_open(options_.home, shares_);
}

bool PathChoice::suspect(const Path& path) const {
  return std::ranges::find(suspects_, path) != suspects_.end();
}

void PathChoice::on_not_reached(const std::vector<Path>& paths) {
  std::ranges::copy_if(
      paths, std::back_inserter(suspects_), [this](const Path& path) { return !suspect(path); });
}

void PathChoice::leave_home(int64_t now_ns) {
  away_since_ns_ = now_ns;
  // A rail that comes and goes is taken back ever later.
  const bool again = now_ns - home_since_ns_ < kProbeShare * probe_pause_ns_;
  probe_pause_ns_ = again ? std::min(2 * probe_pause_ns_, kLongestProbeNs) : kFirstProbeNs;
}

void PathChoice::on_flows(std::vector<Share> shares, bool own, int64_t now_ns) {
  if (compares() && own_) {
    ++comparisons_;
    if (!decided_) {  // they were lost, or the peer has opened others
      suspicion_.on_compared(RailSuspicion::Finding::kNothing, for_baseline_, now_ns);
    }
  }
  const bool peer_left = this->shares() && own_ && !own;  // it has lost a rail that helps
  shares_ = std::move(shares);
  own_ = own;
  decided_ = false;
  shares_anew_ = only_home() && (shares_anew_ || peer_left);
  if (own_ && this->shares()) {
    shared_ = proposed_;  // also where the peer's, proposed at the same time, came between
  } else {
    end_trial();
  }
  rate_.restart();
  suspicion_.restart();
  if (away()) {
    suspicion_.on_lost();
  } else if (this->shares()) {
    suspicion_.on_shared();
  }
  std::erase_if(suspects_, [this](const Path& path) {
    return std::ranges::find(shares_, path, &Share::path) != shares_.end();
  });
  if (!away()) {
    home_since_ns_ = away_since_ns_ == 0 ? home_since_ns_ : now_ns;
    away_since_ns_ = 0;
    widen_at_ns_ = shares_anew_ ? now_ns + kLongestProbeNs : 0;
    if (!shares_anew_) {
      suspects_.clear();  // they may be well when the own rail becomes slow
    }
  } else if (away_since_ns_ == 0) {  // the peer has lost it, and left first
    widen_at_ns_ = 0;
    leave_home(now_ns);
    on_not_reached({options_.home});
  }
  flows_since_ns_ = now_ns;
  probe_at_ns_ = now_ns + std::max(probe_pause_ns_, kFirstProbeNs);
}

void PathChoice::on_lost(std::vector<Share> shares, const Path& failed, int64_t now_ns) {
  shares_ = std::move(shares);
  shares_anew_ = own_ && this->shares() && failed != options_.home;
  end_trial();
  widen_at_ns_ = 0;
  if (failed == options_.home) {
    suspects_.clear();
    leave_home(now_ns);
  }
  on_not_reached({failed});
}

std::optional<Path> PathChoice::next() const {
  const std::vector<Path> all = options_.all();
  const auto found = std::ranges::find_if_not(all, [this](const Path& p) { return suspect(p); });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::vector<Path> PathChoice::others() const {
  std::vector<Path> others;
  for (const Path& path : options_.all()) {
    const bool equal = path.own == path.peer && path != options_.home;
    if (equal && !suspect(path) && options_.usable(path) &&
        others.size() < kMaxLinkConnections / 2) {
      others.push_back(path);
    }
  }
  return others;
}

std::optional<PathChoice::Better> PathChoice::better(int64_t now_ns) {
  if (shares_.empty()) {
    return std::nullopt;
  }
  if (away()) {
    return options_.opens ? better_while_away(now_ns) : std::nullopt;
  }
  return better_at_home(now_ns);
}

std::optional<PathChoice::Better> PathChoice::better_while_away(int64_t now_ns) {
  if (now_ns >= probe_at_ns_) {
    return Better{over({options_.home}), ""};
  }
  if (now_ns < widen_at_ns_) {
    return std::nullopt;
  }
  const std::vector<Path> wider = others();
  if (wider.size() > paths_of(shares_).size()) {
    return Better{over(wider), ""};
  }
  // What was not reached may be back by then.
  widen_at_ns_ = now_ns + kLongestProbeNs;
  suspects_.assign(1, options_.home);
  return std::nullopt;
}

void PathChoice::look(const RailLooks& looks) {
  // Samples of a rate are as long as ever, though looks come sooner in doubt.
  if (looks.own.time_ns - rate_looked_ns_ >= options_.look_ns * 4 / 5) {
    rate_looked_ns_ = looks.own.time_ns;
    rate_.look(looks.own, !only_home());
  }
  if (only_home()) {
    suspicion_.look(looks.own);
  } else if (compares()) {
    suspicion_.look_at_other(looks.others.front());
  }
}

bool PathChoice::in_doubt(int64_t now_ns) const {
  return !shares_.empty() &&
         (compares() || (only_home() && suspicion_.in_doubt(now_ns) && !others().empty()));
}

std::optional<PathChoice::Better> PathChoice::better_at_home(int64_t now_ns) {
  if (!only_home()) {
    return own_ ? better_than_shared(now_ns) : std::nullopt;
  }
  if (widen_at_ns_ != 0 && now_ns >= widen_at_ns_) {  // what was not reached may be back
    suspects_.clear();
    widen_at_ns_ = 0;
  }
  if (std::exchange(shares_anew_, false)) {  // a rail that helped is lost, and this one as slow
    return share(shared_);
  }
  const size_t more = options_.opens ? 0 : kOtherEndSamples;
  if (rate_.samples() >= RailRate::kSamples + more && rate_.slow(rate_.best())) {
    suspected_ = false;
    return share(for_first_time(*rate_.now(), std::max(rate_.best(), suspicion_.usual()), now_ns));
  }
  if (suspicion_.confirmed() && suspicion_.raised(now_ns, 0)) {
    suspected_ = true;
    return share(for_first_time(suspicion_.rate(), suspicion_.usual(), now_ns));
  }
  // Where the kernel is seen with bytes to send at times, that is the better measure, if it comes.
  const size_t waits = rate_.samples() > 0 && rate_.best() > 0 ? RailSuspicion::kSamples : 0;
  for_baseline_ = !suspicion_.raised(now_ns, more + waits);
  return !for_baseline_ || suspicion_.needs_baseline(now_ns, more) ? compare() : std::nullopt;
}

std::optional<PathChoice::Better> PathChoice::better_than_shared(int64_t now_ns) {
  if (now_ns < widen_at_ns_) {
    return std::nullopt;
  }
  if (compares()) {
    return after_comparison(now_ns);
  }
  if (shared_.tried_from) {
    return after_trial(now_ns);
  }
  const double times = suspected_ ? kFasterWithPauses : kFaster;
  const bool better =
      rate_.well(shared_.had_rate) || rate_.now().value_or(0) >= times * shared_.at_rate;
  const size_t enough =
      std::max(shared_.back_after_samples, suspected_ ? kWellSamplesWithPauses : size_t{0});
  const auto try_after_ns = static_cast<int64_t>(shared_.back_after_samples) * kTryAfterNs;
  if ((rate_.samples() >= enough && better) || now_ns - flows_since_ns_ >= try_after_ns) {
    return more(false, now_ns);
  }
  if (!carries_too_little()) {
    return std::nullopt;
  }
  Shared less = shared_;
  less.at_rate = *rate_.at_most();
  return share(less);
}

bool PathChoice::carries_too_little() const {
  return suspected_ ? rate_.slow(kSlowerWithPauses * shared_.at_rate)
                    : rate_.slow_with_queue(shared_.at_rate);
}

// A rail that seems well gets twice as much first: if it is not, that costs less.
std::optional<PathChoice::Better> PathChoice::more(bool well, int64_t now_ns) {
  Shared more = shared_;
  more.at_rate *= 2;
  if (well || more.at_rate >= RailRate::kSlow * shared_.had_rate) {
    back_since_ns_ = now_ns;
    return Better{over({options_.home}), ""};
  }
  more.tried_from = shared_.tried_from.value_or(shared_.at_rate);
  return without_news(share(more));
}

// What has shown too little by then, or not enough each time, gets all back: it is found again if
// that was wrong.
std::optional<PathChoice::Better> PathChoice::after_trial(int64_t now_ns) {
  const bool late = now_ns - flows_since_ns_ >= kTrialNs;
  const bool well = rate_.well(shared_.had_rate);
  // In a job that keeps its rails busy that is no chance.
  const bool sure = late || (well && !suspected_);
  const bool seen = rate_.samples() >= (sure ? RailRate::kSamples : kTrialSamples);
  if (seen && (well || rate_.well(shared_.at_rate))) {
    return more(well, now_ns);
  }
  if (!seen && !late && !rate_.slow(kSlowerInTrial * shared_.at_rate)) {
    return std::nullopt;
  }
  const bool slow = seen || !late;
  if (!slow || shared_.back_after_samples == kMaxSamples) {
    return more(true, now_ns);
  }
  Shared as_before = shared_;
  as_before.at_rate = *as_before.tried_from;
  as_before.tried_from.reset();
  as_before.back_after_samples = std::min(kMuchLater * shared_.back_after_samples, kMaxSamples);
  return without_news(share(as_before));
}

void PathChoice::end_trial() {
  if (shared_.tried_from) {
    shared_.at_rate = *std::exchange(shared_.tried_from, std::nullopt);
  }
}

// The own rail's connection stays, so the link is not one that is away.
std::optional<PathChoice::Better> PathChoice::compare() {
  const std::vector<Path> paths = others();
  if (paths.empty()) {
    return std::nullopt;
  }
  std::vector<Share> shares = over({paths[comparisons_ % paths.size()]});
  shares.resize(std::min(shares.size(), kMaxLinkConnections - 1));
  shares.push_back({.path = options_.home, .weight = 0});
  return Better{.shares = std::move(shares), .reason = "", .news = false};
}

std::optional<PathChoice::Better> PathChoice::after_comparison(int64_t now_ns) {
  if (!decided_) {
    const auto finding = suspicion_.finding(now_ns - flows_since_ns_ >= kComparisonNs);
    if (finding == RailSuspicion::Finding::kNotYet) {
      return std::nullopt;
    }
    suspicion_.on_compared(finding, for_baseline_, now_ns);
    decided_ = true;
  }
  return Better{.shares = over({options_.home}), .reason = "", .news = false};
}

// A rail that comes and goes gets its messages back ever later, as one that is lost and returns.
PathChoice::Shared PathChoice::for_first_time(double rate, double had, int64_t now_ns) const {
  const int64_t had_for_ns = now_ns - back_since_ns_;
  const int64_t each_ns = suspected_ ? kTryAfterNs : options_.look_ns;
  const int64_t waited_ns = static_cast<int64_t>(shared_.back_after_samples) * each_ns;
  const bool again = back_since_ns_ != 0 && had_for_ns < kProbeShare * waited_ns;
  const size_t times = had_for_ns < kAtOnceNs ? kMuchLater : kLater;
  Shared shared{.at_rate = rate, .had_rate = had};
  if (again) {
    shared.back_after_samples = std::min(times * shared_.back_after_samples, kMaxSamples);
  }
  return shared;
}

std::optional<PathChoice::Better> PathChoice::share(Shared as) {
  std::vector<Path> paths = others();
  const auto most = static_cast<double>(kMaxWeight * paths.size());
  as.at_rate = std::max(as.at_rate, as.had_rate / (1 + most));  // no weights say less
  const RailWeights weights = weights_of_slow_rail(as.at_rate / as.had_rate, paths.size());
  if (weights.other == 0) {
    return std::nullopt;
  }
  proposed_ = as;
  paths.insert(paths.begin(), options_.home);
  std::vector<Share> shares = over(paths);
  for (Share& share : shares) {
    share.weight = share.path == options_.home ? weights.own : weights.other;
  }
  return Better{std::move(shares),
                "the rail is slow, " + bytes_text(as.at_rate) + " a second, where " +
                    bytes_text(as.had_rate) + " is usual"};
}

void PathChoice::on_not_had(const std::vector<Share>& tried,
                            const std::vector<Path>& blamed,
                            int64_t now_ns) {
  const std::vector<Path> paths = paths_of(tried);
  if (paths.size() == 1 && paths.front() == options_.home && !away()) {
    widen_at_ns_ = now_ns + kFirstProbeNs;
    return;
  }
  if (paths.size() == 1 && paths.front() == options_.home) {
    const int64_t pause = std::max(probe_pause_ns_, (now_ns - away_since_ns_) / kProbeShare);
    probe_at_ns_ = now_ns + std::clamp(pause, kFirstProbeNs, kLongestProbeNs);
    return;
  }
  if (only_open(options_.home, tried)) {
    suspicion_.on_compared(RailSuspicion::Finding::kNothing, for_baseline_, now_ns);
  }
  const int64_t pause = shares() ? kTrialNs : kFirstProbeNs;
  widen_at_ns_ = now_ns + (only_home() ? kLongestProbeNs : pause);
  rate_.restart();
  suspicion_.restart();
  on_not_reached(blamed);
}

}  // namespace ho::tcp
