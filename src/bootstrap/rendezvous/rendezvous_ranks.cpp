#include "bootstrap/rendezvous/rendezvous_ranks.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/messages/messages.hpp"
#include "bootstrap/messages/rank_names.hpp"
#include "bootstrap/rendezvous/job_identity.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kSecondThought{500};
// One by one; then one a minute.
constexpr uint32_t kMaxRefusalsLogged = 32;

}  // namespace

RendezvousRanks::RendezvousRanks(Setup setup)
    : setup_(std::move(setup)),
      ranks_(setup_.world_size),
      key_refusals_(setup_.world_size),
      key_refusals_logged_(kMaxRefusalsLogged) {}

std::string RendezvousRanks::to_string(const wire::RankClaim& who) {
  return rank_at_host(who.rank, who.host, who.pid, who.called);
}

std::vector<std::string> RendezvousRanks::names() const {
  std::vector<std::string> names;
  names.reserve(ranks_.size());
  for (const Rank& rank : ranks_) {
    names.push_back(to_string(rank.who));
  }
  return names;
}

void RendezvousRanks::enter(const wire::RankClaim& who, Deadline now) {
  Rank& rank = ranks_[who.rank];
  rank = Rank();
  rank.here = true;
  rank.who = who;
  rank.deadline = now + std::chrono::milliseconds(who.timeout_ms);
  ++here_count_;
}

void RendezvousRanks::leave(uint32_t rank) {
  ranks_[rank].here = false;
  ranks_[rank].deadline = Deadline::max();
  --here_count_;
}

void RendezvousRanks::note_lost(uint32_t rank) {
  ranks_[rank].lost = true;
  log_warn("rendezvous: {} had come and is gone: its control connection closed without a goodbye",
           to_string(rank));
}

// Where a rank cannot take part, all are told once the others are here, lest one that comes later
// finds nobody who knows why.
std::optional<Status> RendezvousRanks::complete() const {
  const auto gave_up =
      std::ranges::find_if(ranks_, [](const Rank& rank) { return !rank.gave_up.ok(); });
  const auto gone = std::ranges::count_if(
      ranks_, [](const Rank& rank) { return !rank.here && !rank.gave_up.ok(); });
  if (here_count_ + static_cast<uint32_t>(gone) < setup_.world_size) {
    return std::nullopt;
  }
  return gave_up == ranks_.end() ? Status() : gave_up->gave_up;
}

Deadline RendezvousRanks::next_deadline() const {
  Deadline next = std::min(setup_.deadline, all_refused_due_);
  for (const Rank& rank : ranks_) {
    next = std::min(next, rank.deadline);
  }
  return next;
}

Status RendezvousRanks::late(Deadline now, const std::vector<std::string>& troubles) const {
  const bool own_over = setup_.deadline <= now || ranks_[setup_.own.rank].deadline <= now;
  const auto impatient = std::ranges::find_if(
      ranks_, [now](const Rank& rank) { return rank.here && rank.deadline <= now; });
  if (!own_over && impatient == ranks_.end()) {
    return {};
  }
  const auto rank = own_over ? std::nullopt : std::optional(impatient->who.rank);
  return {missing_for_keys() ? StatusCode::kUnauthenticated : StatusCode::kTimeout,
          missing_text(rank, troubles)};
}

Status RendezvousRanks::all_refused(Deadline now) {
  if (!nobody_left_to_come()) {
    all_refused_due_ = Deadline::max();
  } else if (all_refused_due_ <= now) {
    return all_refused_error();
  } else {
    all_refused_due_ = std::min(all_refused_due_, now + kSecondThought);
  }
  return {};
}

std::string RendezvousRanks::arrived_text() const {
  return std::to_string(here_count_) + " of " + std::to_string(setup_.world_size) +
         " ranks arrived at " + setup_.address;
}

Status RendezvousRanks::stuck(const Status& why) const {
  return {why.code(),
          to_string(setup_.own) + ": " + why.message() + "; " + arrived_text() +
              "; missing: " + rank_list(missing_ranks())};
}

// A file is where several jobs may come by mistake, since each can reach it. Nothing is known of
// the job of somebody who has the key and no identity, or another kind of it.
bool RendezvousRanks::may_be_of_another_job(const wire::RankClaim& who) const {
  const JobComparison jobs = compare_jobs(setup_.own.job, who.job);
  const bool at_file = setup_.address.starts_with("file://");
  return !jobs.difference.empty() || (at_file && !jobs.same);
}

Status RendezvousRanks::judge(const wire::RankClaim& who) {
  Status decision = judge_rank(who);
  if (!decision.ok()) {
    note_unsuited(who, decision);
  }
  return decision;
}

// Of this job it is not expected again, and what is missing now may be missing for ever. Who may be
// of another job changes nothing for those who wait.
void RendezvousRanks::note_unsuited(const wire::RankClaim& who, const Status& why) {
  if (may_be_of_another_job(who)) {
    if (const auto left_out = strangers_logged_.take(now_ns())) {
      log_warn("rendezvous: {}; the rendezvous of the others goes on{}",
               why.message(),
               LogQuota::note(*left_out));
    }
    return;
  }
  if (who.world_size == setup_.world_size && doubles_.size() < setup_.world_size) {
    doubles_.emplace(to_string(who), why);
  }
  if (who.world_size != setup_.world_size && who.rank < setup_.world_size &&
      !ranks_[who.rank].here) {
    ranks_[who.rank].refused = why;
  }
}

Status RendezvousRanks::judge_rank(const wire::RankClaim& who) const {
  const JobComparison jobs = compare_jobs(setup_.own.job, who.job);
  if (!jobs.difference.empty()) {
    return {StatusCode::kMismatch,
            "another job has its rendezvous at " + setup_.address + ": of " +
                to_string(setup_.own) + " and " + to_string(who) + ", " + jobs.difference +
                "; give each job a place of its own (HORING_RENDEZVOUS, or MASTER_PORT), and all "
                "ranks of a job the same HORING_JOB_ID where that is set"};
  }
  const std::string or_another =
      may_be_of_another_job(who)
          ? "; or another job uses this file: give each job a file of its own, or set "
            "HORING_JOB_ID"
          : "";
  if (who.world_size != setup_.world_size) {
    return {StatusCode::kMismatch,
            to_string(setup_.own) + " was started with a world size of " +
                std::to_string(setup_.world_size) + ", " + to_string(who) + " with " +
                std::to_string(who.world_size) + "; give all ranks the same (WORLD_SIZE)" +
                or_another};
  }
  const Rank& peer = ranks_[who.rank];
  if (peer.here) {
    return {StatusCode::kMismatch,
            "rank " + std::to_string(who.rank) + " has come twice: " + to_string(peer.who) +
                " and " + to_string(who) + "; give every process its own rank (RANK)" + or_another};
  }
  return {};
}

std::vector<uint32_t> RendezvousRanks::missing_ranks() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (!ranks_[rank].here) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::string RendezvousRanks::missing_text(std::optional<uint32_t> impatient,
                                          const std::vector<std::string>& troubles) const {
  const std::vector<uint32_t> missing = missing_ranks();
  std::string text = arrived_text();
  text += impatient.has_value()
              ? " before the deadline of " + to_string(ranks_[*impatient].who) + " passed"
              : " within " + std::to_string(setup_.own.timeout_ms) + " ms";
  text += "; missing: " + rank_list(missing);
  for (const std::string& about : troubles) {
    text += about.empty() ? "" : "; " + about;
  }
  for (const Rank& peer : ranks_) {
    text += peer.gave_up.ok() ? "" : "; " + peer.gave_up.message();
  }
  constexpr size_t kMaxNames = 8;
  size_t lost = 0;
  for (const Rank& peer : ranks_) {
    if (peer.lost && !peer.here && lost++ < kMaxNames) {
      text += "; " + to_string(peer.who) +
              " had come and is gone: its control connection closed without a goodbye (killed or "
              "crashed)";
    }
  }
  text += lost > kMaxNames ? "; " + std::to_string(lost - kMaxNames) + " more are gone" : "";
  for (const std::string& refusal : key_refusals_.texts(missing)) {
    text += "; " + refusal;
  }
  return text + "; see the output of the missing ranks, or give more time to join: " +
         "the call's timeout, or HORING_CONNECT_TIMEOUT_MS";
}

void RendezvousRanks::note_gave_up(uint32_t rank, const wire::Message& report) {
  Rank& peer = ranks_[rank];
  const auto why = wire::decode<FailureReport>(report.body);
  peer.gave_up = why.ok()
                     ? Status(why->code, why->text + " (reported by " + to_string(peer.who) + ")")
                     : why.status().with_context(to_string(peer.who));
}

bool RendezvousRanks::note_key_refused(wire::View claim,
                                       const std::string& host,
                                       const Status& why) {
  const auto who = wire::decode<wire::RankClaim>(claim);
  if (why.code() != StatusCode::kUnauthenticated || !who.ok()) {
    return false;
  }
  const std::string text =
      to_string(*who) + " from " + host + " was refused for the job key: " + why.message();
  const KeyRefusals::Kind kind = key_refusals_.note(*who, text);
  if (kind == KeyRefusals::Kind::kAgain) {
    return true;
  }
  // Who floods rank 0 with names that are nobody's shall not silence what is told of the others.
  LogQuota& reported = kind == KeyRefusals::Kind::kNew ? key_refusals_logged_ : strangers_logged_;
  if (const auto left_out = reported.take(now_ns())) {
    log_warn(
        "rendezvous: {}; the rendezvous of the others goes on{}", text, LogQuota::note(*left_out));
  }
  return true;
}

// Whether somebody was refused as each of the ranks that are missing: the likeliest cause then.
bool RendezvousRanks::missing_for_keys() const {
  const std::vector<uint32_t> missing = missing_ranks();
  return std::ranges::all_of(missing,
                             [this](uint32_t rank) { return key_refusals_.was_refused(rank); });
}

// A process that came as a rank that is here was meant to be one of those that are missing.
bool RendezvousRanks::nobody_left_to_come() const {
  const auto expected = std::ranges::count_if(
      ranks_, [](const Rank& peer) { return !peer.here && peer.refused.ok(); });
  return static_cast<size_t>(expected) <= doubles_.size();
}

Status RendezvousRanks::all_refused_error() const {
  std::vector<uint32_t> missing;
  Status mismatch = doubles_.empty() ? Status() : doubles_.begin()->second;
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    const Rank& peer = ranks_[rank];
    if (peer.here) {
      continue;
    }
    missing.push_back(rank);
    if (!peer.refused.ok() && mismatch.ok()) {
      mismatch = peer.refused;
    }
  }
  return {StatusCode::kMismatch,
          arrived_text() + ", whose server is " + to_string(setup_.own) +
              "; missing: " + rank_list(missing) + "; " + mismatch.message()};
}

}  // namespace ho
