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
  shares_ = std::move(shares);
  own_ = own;
  decided_ = false;
  tried_from_ = only_home() || away() ? 0 : tried_from_;
  shares_anew_ = shares_anew_ && only_home();
  rate_.restart();
  suspicion_.restart();
  if (!only_home() && !compares()) {
    suspicion_.on_left();
  }
  std::erase_if(suspects_, [this](const Path& path) {
    return std::ranges::find(shares_, path, &Share::path) != shares_.end();
  });
  if (!away()) {
    home_since_ns_ = away_since_ns_ == 0 ? home_since_ns_ : now_ns;
    away_since_ns_ = 0;
    widen_at_ns_ = 0;
    suspects_.clear();               // they may be well when the own rail becomes slow
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
  shares_anew_ = own_ && !only_home() && !away() && !compares() && failed != options_.home;
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
  rate_.look(looks.own, !only_home());
  if (only_home()) {
    suspicion_.look(looks.own);
  } else if (compares()) {
    suspicion_.look_at_other(looks.others.front());
  }
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
    return share(shared_at_rate_, had_rate_, now_ns);
  }
  const size_t more = options_.opens ? 0 : kOtherEndSamples;
  if (rate_.samples() >= RailRate::kSamples + more && rate_.slow(rate_.best())) {
    suspected_ = false;
    return share(*rate_.now(), std::max(rate_.best(), suspicion_.usual()), now_ns);
  }
  if (suspicion_.confirmed() && suspicion_.raised(now_ns, 0)) {
    suspected_ = true;
    return share(suspicion_.rate(), suspicion_.usual(), now_ns);
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
  const double times = suspected_ ? kFasterWithPauses : kFaster;
  const bool well = rate_.well(had_rate_);
  const bool better = well || rate_.now().value_or(0) >= times * shared_at_rate_;
  if (tried_from_ != 0) {
    return after_trial(well, now_ns);
  }
  const size_t enough =
      std::max(back_after_samples_, suspected_ ? kWellSamplesWithPauses : size_t{0});
  const auto try_after_ns = static_cast<int64_t>(back_after_samples_) * kTryAfterNs;
  if ((rate_.samples() >= enough && better) || now_ns - flows_since_ns_ >= try_after_ns) {
    return more(false, now_ns);
  }
  return carries_too_little() ? share(*rate_.at_most(), had_rate_, now_ns) : std::nullopt;
}

bool PathChoice::carries_too_little() const {
  return suspected_ ? rate_.slow(kSlowerWithPauses * shared_at_rate_)
                    : rate_.slow_with_queue(shared_at_rate_);
}

// A rail that seems well gets twice as much first: if it is not, that costs less.
std::optional<PathChoice::Better> PathChoice::more(bool well, int64_t now_ns) {
  const double rate = 2 * shared_at_rate_;
  if (well || rate >= RailRate::kSlow * had_rate_) {
    back_since_ns_ = now_ns;
    return Better{over({options_.home}), ""};
  }
  tried_from_ = tried_from_ == 0 ? shared_at_rate_ : tried_from_;
  return without_news(share(rate, had_rate_, now_ns));
}

std::optional<PathChoice::Better> PathChoice::after_trial(bool well, int64_t now_ns) {
  const bool carries = well || rate_.well(shared_at_rate_);
  const bool seen = rate_.samples() >= kTrialSamples;
  const bool too_few = !seen && now_ns - flows_since_ns_ >= kTrialNs;
  if (too_few || (seen && carries)) {
    return more(well || too_few, now_ns);
  }
  if (!seen && !rate_.slow(kSlowerInTrial * shared_at_rate_)) {
    return std::nullopt;
  }
  back_after_samples_ = std::min(kMuchLater * back_after_samples_, kMaxSamples);
  return without_news(share(std::exchange(tried_from_, 0), had_rate_, now_ns));
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

std::optional<PathChoice::Better> PathChoice::share(double rate, double had, int64_t now_ns) {
  std::vector<Path> paths = others();
  const RailWeights weights = weights_of_slow_rail(rate / had, paths.size());
  if (weights.other == 0) {
    return std::nullopt;
  }
  if (only_home()) {
    // A rail that comes and goes gets its messages back ever later.
    const int64_t had_for_ns = now_ns - back_since_ns_;
    const bool again = back_since_ns_ != 0 && had_for_ns < kLongestProbeNs;
    const size_t times = had_for_ns < kAtOnceNs ? kMuchLater : kLater;
    back_after_samples_ =
        again ? std::min(times * back_after_samples_, kMaxSamples) : RailRate::kSamples;
  }
  shared_at_rate_ = rate;
  had_rate_ = had;
  paths.insert(paths.begin(), options_.home);
  std::vector<Share> shares = over(paths);
  for (Share& share : shares) {
    share.weight = share.path == options_.home ? weights.own : weights.other;
  }
  return Better{std::move(shares),
                "the rail is slow, " + bytes_text(rate) + " a second, where " + bytes_text(had) +
                    " is usual"};
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
  if (tried_from_ != 0) {
    shared_at_rate_ = std::exchange(tried_from_, 0);
  }
  widen_at_ns_ = now_ns + (only_home() ? kLongestProbeNs : kFirstProbeNs);
  rate_.restart();
  suspicion_.restart();
  on_not_reached(blamed);
}

}  // namespace ho::tcp
