#include "comm/job_control.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "os/clock.hpp"

namespace ho {

JobControl::JobControl(std::unique_ptr<ControlPlane> plane) : plane_(std::move(plane)) {}

JobControl::~JobControl() = default;

void JobControl::start() {
  ControlPlane::Callbacks callbacks;
  callbacks.on_verdict = [this](const Verdict& verdict) { on_verdict(verdict); };
  callbacks.describe_state = [this] { return states(); };
  callbacks.on_departure = [this](const Departure& departure) { on_departure(departure); };
  plane_->start(std::move(callbacks));
}

void JobControl::expect(Identity identity) {
  const std::string tag_end = gather_tag({}, identity.id, identity.lineage);
  const Membership membership{.communicator = identity.lineage,
                              .parent = identity.parent,
                              .member_count = static_cast<uint32_t>(identity.ranks.size())};
  {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> above{identity.parent};
    if (const Member* parent = find(identity.parent)) {
      above.insert(above.end(), parent->above.begin(), parent->above.end());
    }
    members_.push_back({std::move(identity), std::move(above), nullptr, {}, 0, job_cause_});
  }
  plane_->join(membership, tag_end);
}

JobControl::Member* JobControl::find(uint64_t lineage) {
  const auto place = std::find_if(members_.begin(), members_.end(), [lineage](const Member& each) {
    return each.identity.lineage == lineage;
  });
  return place == members_.end() ? nullptr : &*place;
}

void JobControl::add(uint64_t lineage, Engine* engine) {
  const std::lock_guard lock(mutex_);
  Member* member = find(lineage);
  if (member == nullptr) {
    return;
  }
  member->engine = engine;
  if (member->cause) {
    engine->fail(*member->cause);
  }
  for (PeerDeparture& departure : std::exchange(member->early, {})) {
    engine->peer_left(std::move(departure));
  }
}

void JobControl::began_split(uint64_t lineage, uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (Member* member = find(lineage)) {
    member->split = number;
  }
}

void JobControl::ended_split(uint64_t lineage) {
  began_split(lineage, 0);
}

// A rank whose communicator has failed says nothing: the verdict that is out, or on its way, is the
// cause that all others shall hear.
void JobControl::leave(uint64_t lineage) {
  const std::lock_guard lock(mutex_);
  const Member* member = find(lineage);
  if (member == nullptr || member->engine == nullptr || member->identity.ranks.size() < 2) {
    return;
  }
  const EngineProgress progress = member->engine->progress();
  if (progress.failed) {
    return;
  }
  Departure departure;
  departure.communicator = lineage;
  for (const ChannelProgress& channel : progress.channels) {
    departure.channels.push_back({channel.entered, channel.last});
  }
  for (const PairProgress& pair : progress.pairs) {
    departure.pairs.push_back(
        {member->identity.ranks.at(pair.peer.at()), pair.sent, pair.received});
  }
  const bool whole_job = member->identity.ranks.size() == plane_->rendezvous().world_size;
  if (!whole_job) {
    departure.members = member->identity.ranks;
  }
  plane_->leave(departure);
}

void JobControl::remove(uint64_t lineage) {
  const std::lock_guard lock(mutex_);
  if (const Member* member = find(lineage)) {
    plane_->forget_gathers(gather_tag({}, member->identity.id, lineage));
    plane_->release(lineage);
  }
  std::erase_if(members_,
                [lineage](const Member& member) { return member.identity.lineage == lineage; });
  ended_.notify_all();
}

Result<uint16_t> JobControl::next_id() {
  const std::lock_guard lock(mutex_);
  if (last_id_ == UINT16_MAX) {
    return Status(StatusCode::kUnsupported,
                  "this job has split off 65535 communicators, and there can be no more: keep and "
                  "use those there are, or create a new one from the environment");
  }
  return ++last_id_;
}

void JobControl::used_id(uint16_t id) {
  const std::lock_guard lock(mutex_);
  last_id_ = std::max(last_id_, id);
}

void JobControl::fail(uint64_t lineage, FailureReport report) {
  report.communicator = lineage;
  plane_->report(report);
}

Status JobControl::await_end(uint64_t lineage, const Status& own) {
  constexpr std::chrono::seconds kLongest{3};  // the control plane answers earlier
  std::unique_lock lock(mutex_);
  const auto is_over = [this, lineage] {
    const Member* const member = find(lineage);
    return member == nullptr || member->cause.has_value();
  };
  if (plane_->rendezvous().world_size > 1) {
    ended_.wait_until(lock, deadline_after(kLongest), is_over);
  }
  const Member* const member = find(lineage);
  Status cause = member != nullptr && member->cause ? *member->cause : own;
  end_below(lineage, cause);
  return cause;
}

void JobControl::end_below(uint64_t lineage, const Status& why) {
  for (Member& member : members_) {
    if (std::find(member.above.begin(), member.above.end(), lineage) != member.above.end()) {
      end(member, why);
    }
  }
}

void JobControl::end(Member& member, const Status& why) {
  if (!member.cause) {
    member.cause = why;
  }
  ended_.notify_all();
  if (member.engine != nullptr) {
    member.engine->fail(*member.cause);
  }
}

// Rank 0's process may have ended because of a failure that was told: that is the cause then.
Status JobControl::coordinator_gone_cause(const Status& gone) const {
  for (const Member& member : members_) {
    if (member.cause && member.identity.has(GlobalRank(0U))) {
      return {member.cause->code(), member.cause->message() + "; then " + gone.message()};
    }
  }
  return gone;
}

void JobControl::on_verdict(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  if (verdict.coordinator_gone) {
    const Status cause = coordinator_gone_cause(verdict.cause);
    for (Member& member : members_) {
      if (member.identity.has(GlobalRank(0U))) {
        end(member, cause);
      }
    }
    return;
  }
  const bool all = verdict.communicator == kWholeJob;
  job_cause_ = all ? verdict.cause : job_cause_;
  // The coordinator tells splits by themselves, and first.
  if (verdict.unanswered) {
    end_below(verdict.communicator, verdict.cause);
  }
  for (Member& member : members_) {
    if (all || member.identity.lineage == verdict.communicator) {
      end(member, verdict.cause);
    }
  }
}

void JobControl::on_departure(const Departure& departure) {
  std::string tag_end;
  PeerDeparture seen;
  {
    const std::lock_guard lock(mutex_);
    Member* member = find(departure.communicator);
    if (member == nullptr) {
      return;  // this rank was through with it first
    }
    const auto& ranks = member->identity.ranks;
    const auto place = std::find(ranks.begin(), ranks.end(), departure.rank);
    if (place == ranks.end()) {
      return;
    }
    seen.rank = GlobalRank(static_cast<uint32_t>(place - ranks.begin()));
    seen.process = departure.name + (member->identity.id == 0 ? "" : " of the job");
    for (size_t i = 0; i < std::min(departure.channels.size(), seen.channels.size()); ++i) {
      seen.channels.at(i) = {departure.channels[i].entered, departure.channels[i].last};
    }
    for (const Departure::Pair& pair : departure.pairs) {
      seen.sent_here = pair.sent;
      seen.received_here = pair.received;
    }
    if (member->engine != nullptr) {
      member->engine->peer_left(seen);
    } else {
      member->early.push_back(seen);
    }
    tag_end = gather_tag({}, member->identity.id, member->identity.lineage);
  }
  Departures departures;
  departures.add(std::move(seen));
  plane_->end_gathers(tag_end, departures.any());
}

// The lineage too: two threads that split different communicators at once may get one id.
std::string JobControl::gather_tag(std::string_view what, uint16_t id, uint64_t lineage) {
  return fmt::format("{} of communicator {} ({:016x})", what, id, lineage);
}

std::vector<RankState> JobControl::states() {
  const std::lock_guard lock(mutex_);
  std::vector<RankState> all;
  for (const Member& member : members_) {
    if (member.engine == nullptr) {
      continue;
    }
    for (ChannelState& state : member.engine->states()) {
      all.push_back({member.identity.id,
                     state.channel,
                     state.entered,
                     state.completed,
                     std::move(state.operation),
                     std::move(state.waiting),
                     member.identity.lineage});
    }
    if (member.split > 0) {
      all.push_back({member.identity.id,
                     kCallChannel,
                     member.split,
                     member.split - 1,
                     "ho_comm_split",
                     "",
                     member.identity.lineage});
    }
  }
  return all;
}

}  // namespace ho
