#include "transport/tcp/failover.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kMs = 1'000'000;
// A path that has not taken a connection by then is left for the next one. The first connections of
// a link may have to leave their interface, which takes Connector a while to see.
constexpr std::chrono::milliseconds kFirstReachWithin{4000};
constexpr std::chrono::milliseconds kReachWithin{1500};
constexpr std::chrono::milliseconds kMinReachWithin{250};
// After all paths have been tried.
constexpr int64_t kRoundPauseNs = 200 * kMs;
// The end that opens the link begins; the other one, if nothing has come by then.
constexpr int64_t kOtherEndNs = 100 * kMs;
// The same after an idle close: both use the link soon, and one attempt is enough.
constexpr int64_t kRestNs = 1000 * kMs;
// An attempt that is older when the connections in use are lost leads nowhere.
constexpr int64_t kStaleNs = 150 * kMs;
// Between two looks at what has arrived, of a caller that waits for that and gets no copy.
constexpr int64_t kLookAgainNs = kMs;
// Between the loss and the word that no path has reached the peer, where there are many.
constexpr int64_t kWarnAfterNs = 3000 * kMs;
// Between two looks at what has arrived: messages, and bytes of copies (CopyMemory).
constexpr uint32_t kLookEvery = 32;
constexpr uint64_t kLookEveryBytes = 32768;

}  // namespace

Failover::Failover(Context& context, const LinkKey& key, bool& event)
    : context_(context),
      key_(key),
      event_(event),
      opens_(opens(context.options.self, key.peer, key.channel)),
      home_{key.rail, key.rail},
      paths_(context, key),
      choice_(choice_options()),
      unopened_(context, key, event),
      epochs_(opens_),
      replay_(context.replay),
      own_rail_(context.rail_use.at(key.rail.at())) {}

LinkConnections& Failover::connections() {
  return sources_.empty() ? unopened_ : *sources_.back().connections;
}

const LinkConnections& Failover::connections() const {
  return sources_.empty() ? unopened_ : *sources_.back().connections;
}

PathChoice::Options Failover::choice_options() {
  return {.home = home_,
          .opens = opens_,
          .connections_per_link = context_.options.connections_per_link,
          .look_ns = context_.tick_ns(),
          .all = [this] { return paths_.all(); },
          .usable = [this](const Path& path) { return paths_.usable(path); }};
}

bool Failover::flows() const {
  return !lost_ && !ended_ && resume_ && resume_->complete() && send_again_from_ == replay_.next();
}

Status Failover::advance(const Link& link) {
  if (ended_) {
    return {};
  }
  if (flows()) {
    if (const Status broken = connections().ended(); !broken.ok()) {
      lose(broken, link.closing && broken.code() == StatusCode::kPeerLost);
    } else if (attempt_ == nullptr) {
      return {};
    }
  }
  if (!lost_ && resume_ && !flows()) {
    Status agreed = agree(link.received);
    if (!agreed.ok() && !loses(agreed)) {
      return agreed;
    }
    if (!agreed.ok()) {
      connections().note_failed(0);  // over which the ends agree
      lose(agreed);
    }
  }
  return flows() && attempt_ == nullptr ? Status() : dial(link.wanted || !replay_.empty());
}

bool Failover::loses(const Status& cause) const {
  return cause.code() == StatusCode::kConnection || cause.code() == StatusCode::kPeerLost;
}

void Failover::lose(const Status& cause, bool closing) {
  if (lost_ || ended_ || sources_.empty()) {
    return;
  }
  collect_acknowledged();
  lost_ = true;
  tried_all_ = false;
  own_rail_.on_none(false);
  const int64_t now = now_ns();
  // Two attempts met: the peer may have left these for the newer one, which is this end's.
  const bool crossed = attempt_ != nullptr && resume_ && !resume_->complete();
  const bool left = crossed || closing;
  loss_.note(left ? Status() : connections().with_path(cause), connections().path(), now);
  if (!left) {
    choice_.on_lost(connections().way().shares, connections().failed_path(), now);
    skip_lost(now);
    if (cause.code() == StatusCode::kConnection) {
      paths_.note_lost({connections().failed_path()}, now);
    }
  }
  reached_at_ns_ = now;
  dial_at_ns_ = now + (opens_ ? 0 : kOtherEndNs);
  const bool compares = attempt_ != nullptr && !attempt_->way().news;
  if (!crossed && (compares || now - attempt_began_ns_ >= kStaleNs)) {
    attempt_.reset();
  }
  log_debug("link lost its connections: {}", cause.message());
  event_ = true;
  wake_at(dial_at_ns_);
}

bool Failover::can_rest() const {
  return flows() && attempt_ == nullptr && sources_.size() == 1;
}

void Failover::rest(uint64_t received) {
  static_cast<void>(replay_.on_counted(replay_.next()));
  static_cast<void>(drain(sources_.size(), received));
  attempt_.reset();
  arriving_.reset();
  lost_ = true;
  rests_ = true;
  tells_ = false;
  tried_all_ = false;
  own_rail_.on_none(false);
}

void Failover::use() {
  dial_at_ns_ = rests_ ? now_ns() + (opens_ ? 0 : kRestNs) : dial_at_ns_;
  wake_at(dial_at_ns_);
}

// What ended well is lost if it cannot be had again.
void Failover::end_rest(const Status& why) {
  if (std::exchange(rests_, false)) {
    loss_.note(connections().with_path(why.with_context("it had no connection while idle")),
               connections().path(),
               attempt_began_ns_);
    loss_.note_wanted(attempt_began_ns_);
    reached_at_ns_ = attempt_began_ns_;
  } else if (lost_) {  // where two attempts met nothing has said why
    loss_.note(connections().with_path(why), connections().path(), attempt_began_ns_);
  }
}

bool Failover::can_arrive(const LinkClaim& claim) const {
  const size_t peer_rails = context_.peers.at(key_.peer.at()).rail_addresses.size();
  if (ended_ || !epochs_.newer(claim.epoch) || claim.from_rail.at() >= peer_rails) {
    return false;
  }
  if (arriving_ == nullptr || claim.epoch > arriving_->way().epoch) {
    return true;
  }
  return claim.epoch == arriving_->way().epoch && arriving_->can_attach(claim);
}

void Failover::arrive(const LinkClaim& claim, std::unique_ptr<Socket> socket) {
  if (arriving_ == nullptr || arriving_->way().epoch != claim.epoch) {
    arriving_ = std::make_unique<LinkConnections>(
        context_,
        key_,
        event_,
        Way{.shares = std::vector<Share>(claim.connection_count), .epoch = claim.epoch});
    epochs_.saw(claim.epoch);
  }
  arriving_->attach(claim, std::move(socket));
  if (arriving_->open()) {
    adopt(std::move(arriving_), {});
  }
}

void Failover::adopt(std::unique_ptr<LinkConnections> connections, const Status& reason) {
  const bool first_failed = sources_.empty() && !last_failure_.ok();
  const bool rested = std::exchange(rests_, false);
  loss_.note(first_failed ? this->connections().with_path(last_failure_) : reason,
             this->connections().path(),
             first_failed ? first_try_at_ns_ : now_ns());
  if (!reason.ok()) {
    loss_.set_cause(reason);  // for which these were opened
  }
  replaces_ = replaces_ || (!sources_.empty() && !rested) || !last_failure_.ok();
  if (resume_ && !resume_->stated()) {
    sources_.pop_back();  // the peer has sent nothing over it
  }
  replay_.on_connections_lost();
  const uint32_t epoch = connections->way().epoch;
  epochs_.adopt(epoch);
  sources_.push_back({.connections = std::move(connections)});
  resume_.emplace(epoch, key_.communicator);
  again_ = {};
  lost_ = false;
  tells_ = false;
  if (attempt_ != nullptr && !epochs_.newer(attempt_->way().epoch)) {
    attempt_.reset();
  }
  if (arriving_ != nullptr && !epochs_.newer(arriving_->way().epoch)) {
    arriving_.reset();
  }
  event_ = true;
  wake_at(now_ns());
}

void Failover::begin_attempt(std::vector<Share> shares, bool news) {
  attempt_reason_ = Status();
  const uint32_t epoch = epochs_.begin();
  auto reach_within = sources_.empty() ? kFirstReachWithin : kReachWithin;
  if (lost_) {  // all paths in the time that there is
    const auto each = context_.options.failover.timeout / static_cast<int64_t>(paths_.all().size());
    reach_within = std::clamp(each, kMinReachWithin, kReachWithin);
  }
  attempt_ = std::make_unique<LinkConnections>(context_,
                                               key_,
                                               event_,
                                               Way{.shares = std::move(shares),
                                                   .epoch = epoch,
                                                   .dials = true,
                                                   .news = news,
                                                   .reach_within = reach_within,
                                                   .keeps_interface = !sources_.empty(),
                                                   .leaves_interface = leaves_interface_});
  attempt_began_ns_ = now_ns();
  attempt_until_ns_ = attempt_began_ns_ + ns_of(reach_within + context_.options.failover.answer);
  down_ = attempt_->check_interfaces();
}

Status Failover::dial(bool wanted) {
  const int64_t now = now_ns();
  if (lost_) {
    own_rail_.on_none(wanted && !rests_);
  }
  if (wanted) {
    note_wanted(now);
  }
  if (attempt_ == nullptr) {
    const bool begins = sources_.empty() ? opens_ : lost_;
    if (!begins || (!wanted && !tells_)) {
      return {};
    }
    if (now < dial_at_ns_) {
      wake_at(dial_at_ns_);
      return {};
    }
    const std::optional<Path> next = choice_.next();
    if (!next) {
      choice_.begin_round();
    }
    begin_attempt(choice_.over({next.value_or(home_)}));
  }
  return go_on_dialling(now, wanted);
}

Status Failover::go_on_dialling(int64_t now, bool wanted) {
  const Status dialled = down_.ok() ? attempt_->dial() : down_;
  if (attempt_->open()) {
    adopt(std::move(attempt_), attempt_reason_);
    return {};
  }
  // Where no message has come from there, another host may have that address.
  const bool refused = lost_ && std::ranges::any_of(attempt_->refused(), [this](const Path& path) {
                         return std::ranges::count(carried_, path) > 0;
                       });
  if (refused) {
    end_rest({StatusCode::kPeerLost, "it cannot be opened again"});
    attempt_.reset();
    return give_up("its host says that nobody listens at its port any more");
  }
  if (!dialled.ok() || now >= attempt_until_ns_) {
    reached_at_ns_ = dialled.ok() ? now : reached_at_ns_;  // it was taken, and waited in vain
    attempt_failed(dialled, now);
    const bool first = sources_.empty();
    const auto limit = first ? context_.options.connect_timeout : context_.options.failover.timeout;
    const int64_t since = std::max(first ? first_try_at_ns_ : loss_.wanted_ns(), reached_at_ns_);
    if ((lost_ || first) && wanted && now - since >= ns_of(limit) && tried_all_) {
      return give_up("no rail has reached it for " + std::to_string((now - since) / kMs) + " ms");
    }
  }
  wake_at(attempt_ == nullptr ? dial_at_ns_ : attempt_until_ns_);
  return {};
}

void Failover::attempt_failed(const Status& why, int64_t now) {
  last_failure_ = why.ok()
                      ? Status(StatusCode::kTimeout,
                               attempt_->path() + ": it took the connection and did not answer")
                      : why;
  end_rest(last_failure_);
  log_debug("link tries another way: {}", last_failure_.message());
  const std::vector<Share> tried = attempt_->way().shares;
  const std::vector<Path> missing = attempt_->missing();
  paths_.note_lost(attempt_->unanswered_paths(), now);
  attempt_.reset();
  if (flows()) {
    // A peer that answers on none of them may be busy, whatever the path.
    const bool blames = !why.ok() || missing.size() < paths_of(tried).size();
    choice_.on_not_had(tried, blames ? missing : std::vector<Path>(), now);
    return;
  }
  choice_.on_not_reached(missing);
  if (!choice_.next()) {
    tried_all_ |= !std::exchange(skipped_, false);
    tells_ &= !tried_all_;
  }
  const int64_t since = now - loss_.began_ns();
  if (lost_ && wanted_lately(now) && since >= (choice_.next() ? kWarnAfterNs : kRoundPauseNs)) {
    loss_.warn_of_waiting(now, context_.options.failover.timeout, why.ok());
  }
  dial_at_ns_ = choice_.next() ? now : now + kRoundPauseNs;
}

Status Failover::give_up(const std::string& why) {
  if (sources_.empty()) {
    return last_failure_;
  }
  return {loss_.cause().code(), loss_.cause().message() + "; " + why};
}

Result<bool> Failover::write_resume() {
  while (!resume_->unwritten().empty()) {
    const std::span<std::byte> bytes = resume_->unwritten();
    iovec buffer{bytes.data(), bytes.size()};
    HORING_ASSIGN(const size_t written,
                  connections().of_message(0).write(std::span(&buffer, 1), bytes.size()));
    if (written == 0) {
      return false;
    }
    resume_->wrote(written);
  }
  return true;
}

Result<bool> Failover::read_resume(uint64_t received) {
  Connection& first = connections().of_message(0);
  HORING_ASSIGN(const bool here, first.read_header(HeaderRead::kAlone, {}));
  if (!here) {
    first.await_rest(HeaderRead::kAlone, 0);
    return false;
  }
  HORING_ASSIGN(const Frame frame, decode(first.header()));
  first.next_message();
  HORING_ASSIGN(const Resume::Then then, resume_->on_frame(frame));
  if (then == Resume::Then::kState) {
    resume_->state_count(drain(sources_.size() - 1, received));
  } else {
    HORING_TRY(replay_.on_counted(resume_->peer_count()));
    sources_.back().agreed = true;
    send_again_from_ = resume_->peer_count();
    sent_again_ = replay_.next() - send_again_from_;
  }
  return true;
}

Status Failover::agree(uint64_t received) {
  if (!resume_->complete()) {
    HORING_TRY(write_resume().status());
    while (!resume_->peer_counted()) {
      HORING_ASSIGN(const bool read, read_resume(received));
      HORING_TRY(write_resume().status());
      if (!read) {
        return {};
      }
    }
    if (!resume_->complete()) {
      return {};
    }
    // An attempt of this end that is newer goes on: the peer may have taken all of it already.
    note_resumed();
  }
  return send_again();
}

uint64_t Failover::drain(size_t sources, uint64_t received) {
  uint64_t number = received;
  for (size_t i = 0; i < sources; ++i) {
    Source& source = sources_[i];
    if (!source.drained) {
      source.until = number + source.connections->drain(number);
      source.drained = true;
    }
    number = std::max(number, source.until);
  }
  on_received(received);
  return number;
}

void Failover::end(uint64_t received) {
  if (std::exchange(ended_, true)) {
    return;
  }
  own_rail_.on_none(false);
  attempt_.reset();
  arriving_.reset();
  if (resume_ && !resume_->stated()) {
    sources_.pop_back();
  }
  static_cast<void>(drain(sources_.size(), received));
  event_ = true;
}

Status Failover::send_again() {
  while (send_again_from_ < replay_.next()) {
    const Replay::Message& message = replay_.at(send_again_from_);
    if (again_.bytes == 0) {
      again_ = {message.header, 0, kFrameBytes + message.payload_bytes};
    }
    HORING_ASSIGN(const bool written,
                  connections().write(send_again_from_, again_, message.payload));
    if (!written) {
      return {};
    }
    replay_.on_sent_again(send_again_from_, written_at(send_again_from_));
    ++send_again_from_;
    again_ = {};
  }
  event_ = true;
  return {};
}

void Failover::note_resumed() {
  const int64_t now = now_ns();
  const Way& way = connections().way();
  const double part = part_over(home_, way.shares);
  const bool home = part == 1;
  // As both ends see it: neither one more path nor a comparison of rails is a failover.
  const bool was_home = away_ == 0;
  const bool compares = only_open(home_, way.shares);
  const bool compared = std::exchange(compared_, compares) && home;
  away_ = compares ? 0 : 1 - part;
  const std::vector<Path> before = std::exchange(over_, paths_of(way.shares));
  paths_.note_well(over_);
  if (std::ranges::count(over_, home_) == 0 && !way.dials) {  // the peer has found out
    paths_.note_lost({home_}, now);
  }
  std::ranges::copy_if(over_, std::back_inserter(carried_), [this](const Path& path) {
    return std::ranges::count(carried_, path) == 0;
  });
  leaves_interface_ |= way.dials && connections().left_interface();
  const bool left = std::ranges::any_of(
      before, [&](const Path& path) { return std::ranges::count(over_, path) == 0; });
  own_rail_.on_connections(away_);
  choice_.on_flows(way.shares, way.dials, now);
  event_ = true;
  last_failure_ = Status();
  const bool crossed = loss_.cause().ok() && before == over_;  // two attempts
  const bool replaced = std::exchange(replaces_, false) && !crossed;
  if (replaced && !compares && !compared && (home || was_home || left)) {
    own_rail_.count_failover();
  }
  loss_.end(now,
            replaced,
            {.link = link_text(context_, key_),
             .path = connections().path(),
             .home = home,
             .dialled = way.dials,
             .news = way.news,
             .sent_again = sent_again_});
}

void Failover::sent(const FrameBytes& header, std::span<const ConstBytes> payload) {
  const uint64_t number = replay_.next();
  const uint64_t before = replay_.memory_bytes();
  replay_.keep(header, payload, written_at(number));
  send_again_from_ = replay_.next();
  copied_since_look_ += replay_.memory_bytes() - before;
  if (++sent_since_look_ >= kLookEvery || copied_since_look_ >= kLookEveryBytes) {
    collect_acknowledged();
  }
}

void Failover::collect_acknowledged() {
  sent_since_look_ = 0;
  copied_since_look_ = 0;
  if (!replay_.empty() && connections().open()) {
    replay_.on_acknowledged(connections().acknowledged());
  }
}

uint64_t Failover::released() {
  if (!lends()) {
    lent_since_ns_ = 0;
    return replay_.next();
  }
  collect_acknowledged();
  const int64_t now = now_ns();
  const int64_t lend = context_.options.failover.lend.count();
  const bool copies = lent_since_ns_ != 0 && now - lent_since_ns_ >= lend;
  if (copies) {
    replay_.copy_lent(lent_before_);
  }
  if (copies || lent_since_ns_ == 0 || replay_.released() >= lent_before_) {
    lent_since_ns_ = now;
    lent_before_ = replay_.next();
  }
  if (lends()) {
    wake_at(now + lend);
  }
  return replay_.released();
}

bool Failover::release_lent() {
  if (!lends()) {
    return false;
  }
  const uint64_t before = replay_.released();
  collect_acknowledged();
  replay_.copy_lent(replay_.next());
  if (lends()) {  // no event says when more has arrived
    wake_at(now_ns() + kLookAgainNs);
  }
  return replay_.released() > before;
}

Failover::From Failover::from(uint64_t number) {
  for (Source& source : sources_) {
    if (number < source.until) {
      if (!source.drained && !source.agreed) {
        return {};
      }
      return {&source.connections->of_message(number), source.connections->way().epoch};
    }
  }
  return {};
}

void Failover::on_read_failed(uint64_t number, const Status& cause) {
  if (from(number).epoch == epochs_.current()) {
    connections().note_failed(number);
    lose(cause);
  }
}

void Failover::tick(bool awaited) {
  if (ended_ || sources_.empty()) {
    return;
  }
  if (!lost_) {
    Status alive = connections().check_interfaces();
    tells_ = !alive.ok();
    alive = alive.ok() ? connections().look(awaited) : alive;
    if (!alive.ok()) {
      lose(alive);
    }
  }
}

void Failover::look_at_rails() {
  doubts_at_ns_ = 0;
  if (!flows() || attempt_ != nullptr) {
    return;
  }
  if (choice_.watches_home()) {
    if (const auto looks = connections().look_at_rails(home_, replay_.next())) {
      choice_.look(*looks);
    }
  }
  const int64_t now = now_ns();
  auto better = choice_.better(now);
  if (choice_.in_doubt(now)) {
    doubts_at_ns_ = now + context_.doubt_ns();
    wake_at(doubts_at_ns_);
  }
  if (!better) {
    return;
  }
  begin_attempt(std::move(better->shares), better->news);
  if (!better->reason.empty()) {
    attempt_reason_ = connections().with_path({StatusCode::kTimeout, std::move(better->reason)});
  }
  wake_at(now);
}

std::string Failover::state() const {
  if (ended_ || !lost_) {
    return {};
  }
  const std::string state = connections().path() + (rests_ ? ", closed while idle" : ", lost");
  return state + (attempt_ == nullptr ? "" : ", tries " + attempt_->path());
}

}  // namespace ho::tcp
