#include "comm/job_control.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "bootstrap/control/control_client.hpp"
#include "bootstrap/failure/failure_aggregator.hpp"
#include "os/clock.hpp"

namespace ho {
namespace {

// A MadeCall in a CallQuestion: the frame, and the number among those with a label.
constexpr size_t kMadeCallBytes = kFrameBytes + sizeof(uint32_t);
static_assert(kMadeCallBytes <= wire::kMaxCallBytes);

RankState rank_state(uint16_t id, ChannelState state, uint64_t communicator_id) {
  return {id,
          state.channel,
          state.entered,
          state.completed,
          std::move(state.operation),
          std::move(state.waiting),
          communicator_id,
          state.held};
}

WatchedJob job_of_part(const ControlPlane& plane, const JobPart& part) {
  const uint32_t rank = part.rank_in_job(plane.rendezvous().rank);
  if (part.job == 0) {
    return {.job = plane.job_id(), .rank = rank, .world_size = plane.rendezvous().world_size};
  }
  return {.job = part.job, .rank = rank, .world_size = part.world_size};
}

WatchedReach reach_of_part(const ControlPlane& plane, const JobPart& part) {
  return part.job == 0 ? WatchedReach() : WatchedReach{plane.job_id(), part.ranks};
}

}  // namespace

// Who waits for an answer outlasts who gives it, or a healthy rank is taken for the cause.
static_assert(ControlClient::kAnswerTime > FailureAggregator::kAnswers);
static_assert(Failures::kLeaveNoticeTimeout > FailureAggregator::kAnswers);
static_assert(Failures::kDecisionTimeout >
              ControlClient::kAnswerTime + FailureAggregator::kAnswers);

struct JobControl::Jobs {
  std::mutex mutex;
  std::vector<JobControl*> all;
};

std::shared_ptr<JobControl::Jobs> JobControl::jobs() {
  static const auto of_process = std::make_shared<Jobs>();
  return of_process;
}

JobControl::JobControl(std::unique_ptr<ControlPlane> plane, const JobPart& part)
    : process_(::getpid()),
      status_(StatusService::of_process(), job_of_part(*plane, part), reach_of_part(*plane, part)),
      plane_(std::move(plane)) {
  plane_->answer_status({.report = [this] { return status_.report(wire::kMaxStatusBytes); },
                         .on_report =
                             [this](uint64_t question, const StatusReport& report) {
                               status_.take(question, report.rank.value(), as_text(report.report));
                             }});
  status_.ask_others_with([this](uint64_t question) { return plane_->ask_status(question); });
  const std::lock_guard lock(jobs_->mutex);
  jobs_->all.push_back(this);
}

JobControl::~JobControl() {
  status_.ask_others_with({});
  const std::lock_guard lock(jobs_->mutex);
  std::erase(jobs_->all, this);
}

void JobControl::start() {
  ControlPlane::Callbacks callbacks;
  callbacks.on_decision = [this](const FailureDecision& decision) { on_decision(decision); };
  callbacks.state_of = [this] { return states(); };
  callbacks.on_leave_notice = [this](const LeaveNotice& leave_notice) {
    on_leave_notice(leave_notice);
  };
  callbacks.on_call_question = [this](const CallQuestion& question) { on_call_question(question); };
  callbacks.on_coordinator_end = [this] { on_coordinator_end(); };
  plane_->start(std::move(callbacks));
}

void JobControl::expect(Identity identity) {
  threads_->add();
  const std::string tag_end = gather_tag({}, identity.id, identity.communicator_id);
  const Membership membership{.communicator = identity.communicator_id,
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

JobControl::Member* JobControl::find(uint64_t communicator_id) {
  const auto position = std::ranges::find_if(members_, [communicator_id](const Member& each) {
    return each.identity.communicator_id == communicator_id;
  });
  return position == members_.end() ? nullptr : &*position;
}

void JobControl::add(uint64_t communicator_id, Engine* engine, std::vector<WatchedRail> rails) {
  const std::lock_guard lock(mutex_);
  Member* member = find(communicator_id);
  if (member == nullptr) {
    return;
  }
  member->engine = engine;
  status_.add({.key = communicator_id,
               .id = member->identity.id,
               .name = member->name.text,
               .ranks = member->identity.ranks,
               .rails = std::move(rails),
               .recorder = engine->recorder(),
               .cause = member->cause ? member->cause->message() : ""});
  if (member->cause) {
    engine->fail(*member->cause);
  }
  for (PeerLeaveNotice& leave_notice : std::exchange(member->early, {})) {
    engine->peer_left(std::move(leave_notice));
  }
  if (coordinator_ended_) {
    engine->no_more_leave_notices();
  }
}

void JobControl::set_split(uint64_t communicator_id, uint32_t number) {
  threads_->add();
  const std::lock_guard lock(mutex_);
  if (Member* member = find(communicator_id)) {
    member->split = number;
  }
}

// A rank whose communicator has failed sends no leave notice: the decision that is out, or under
// way, is the cause that all others must get.
void JobControl::leave(uint64_t communicator_id) {
  const std::lock_guard lock(mutex_);
  const Member* member = find(communicator_id);
  if (member == nullptr || member->engine == nullptr || member->identity.ranks.size() < 2) {
    return;
  }
  const EngineProgress progress = member->engine->progress();
  if (progress.failed) {
    return;
  }
  LeaveNotice leave_notice;
  leave_notice.communicator = communicator_id;
  for (const ChannelProgress& channel : progress.channels) {
    leave_notice.channels.push_back({channel.entered, channel.last});
  }
  for (const PairProgress& pair : progress.pairs) {
    leave_notice.pairs.push_back(
        {member->identity.ranks.at(pair.peer.at()), pair.sent, pair.received});
  }
  const bool whole_job = member->identity.ranks.size() == plane_->rendezvous().world_size;
  if (!whole_job) {
    leave_notice.members = member->identity.ranks;
  }
  plane_->leave(leave_notice);
}

void JobControl::remove(uint64_t communicator_id) {
  const std::lock_guard lock(mutex_);
  if (const Member* member = find(communicator_id)) {
    plane_->forget_gathers(gather_tag({}, member->identity.id, communicator_id));
    plane_->release(communicator_id);
    status_.remove(communicator_id);
  }
  std::erase_if(members_, [communicator_id](const Member& member) {
    return member.identity.communicator_id == communicator_id;
  });
  ended_.notify_all();
}

void JobControl::set_name(uint64_t communicator_id, Name name) {
  const std::lock_guard lock(mutex_);
  if (Member* member = find(communicator_id)) {
    member->name = std::move(name);
    status_.set_name(communicator_id, member->name.text);
  }
}

std::string JobControl::log_prefix(uint64_t communicator_id) {
  const std::lock_guard lock(mutex_);
  const Member* member = find(communicator_id);
  return member == nullptr || member->name.text.empty() ? "" : member->name.text + ": ";
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

void JobControl::fail(uint64_t communicator_id, FailureReport report) {
  report.communicator = communicator_id;
  plane_->report(report);
}

Status JobControl::await_end(uint64_t communicator_id, const Status& own) {
  // The control plane answers earlier, also for a coordinator that does not.
  constexpr std::chrono::milliseconds kLongest = Failures::kDecisionTimeout;
  std::unique_lock lock(mutex_);
  const auto is_over = [this, communicator_id] {
    const Member* const member = find(communicator_id);
    return member == nullptr || member->cause.has_value();
  };
  if (plane_->rendezvous().world_size > 1) {
    ended_.wait_until(lock, deadline_after(kLongest), is_over);
  }
  const Member* const member = find(communicator_id);
  Status cause = member != nullptr && member->cause ? *member->cause : own;
  end_below(communicator_id, cause);
  return cause;
}

void JobControl::end_below(uint64_t communicator_id, const Status& why) {
  for (Member& member : members_) {
    if (std::ranges::find(member.above, communicator_id) != member.above.end()) {
      end(member, why);
    }
  }
}

void JobControl::end(Member& member, const Status& why) {
  if (!member.cause) {
    member.cause = why;
    status_.failed(member.identity.communicator_id, why.message());
  }
  ended_.notify_all();
  if (member.engine != nullptr) {
    member.engine->fail(*member.cause);
  }
}

// Rank 0's process may have ended because of a failure that was reported: that is the cause then.
Status JobControl::coordinator_gone_cause(const Status& gone) const {
  for (const Member& member : members_) {
    if (member.cause && member.identity.has(GlobalRank(0U))) {
      return {member.cause->code(), member.cause->message() + "; then " + gone.message()};
    }
  }
  return gone;
}

void JobControl::on_decision(const FailureDecision& decision) {
  const std::lock_guard lock(mutex_);
  if (decision.coordinator_gone) {
    const Status cause = coordinator_gone_cause(decision.cause);
    for (Member& member : members_) {
      if (member.identity.has(GlobalRank(0U))) {
        end(member, cause);
      }
    }
    return;
  }
  const bool all = decision.communicator == kWholeJob;
  job_cause_ = all ? decision.cause : job_cause_;
  // The coordinator sends decisions for splits separately, and first.
  if (decision.unanswered) {
    end_below(decision.communicator, decision.cause);
  }
  for (Member& member : members_) {
    if (all || member.identity.communicator_id == decision.communicator) {
      end(member, decision.cause);
    }
  }
}

void JobControl::on_coordinator_end() {
  const std::lock_guard lock(mutex_);
  coordinator_ended_ = true;
  for (const Member& member : members_) {
    if (member.engine != nullptr) {
      member.engine->no_more_leave_notices();
    }
  }
}

void JobControl::on_leave_notice(const LeaveNotice& leave_notice) {
  std::string tag_end;
  PeerLeaveNotice seen;
  {
    const std::lock_guard lock(mutex_);
    Member* member = find(leave_notice.communicator);
    if (member == nullptr) {
      return;  // this rank was through with it first
    }
    const auto rank = member->identity.rank_here(leave_notice.rank);
    if (!rank) {
      return;
    }
    seen.rank = *rank;
    seen.name = fmt::format("rank {}", seen.rank.value());
    seen.process = leave_notice.name;
    if (!leave_notice.name.starts_with(fmt::format("rank {} (", leave_notice.rank.value()))) {
      // The program has a name for it.
      seen.name = leave_notice.name.substr(0, leave_notice.name.rfind(" ("));
    } else if (member->identity.id != 0) {
      seen.process += " of the job";
    }
    for (size_t i = 0; i < std::min(leave_notice.channels.size(), seen.channels.size()); ++i) {
      seen.channels.at(i) = {leave_notice.channels[i].entered, leave_notice.channels[i].last};
    }
    for (const LeaveNotice::Pair& pair : leave_notice.pairs) {
      seen.sent_here = pair.sent;
      seen.received_here = pair.received;
    }
    if (member->engine != nullptr) {
      member->engine->peer_left(seen);
    } else {
      member->early.push_back(seen);
    }
    tag_end = gather_tag({}, member->identity.id, member->identity.communicator_id);
  }
  LeaveNotices leave_notices;
  leave_notices.add(std::move(seen));
  plane_->end_gathers(tag_end, leave_notices.any());
}

void JobControl::ask(uint64_t communicator_id, const MadeCall& call) {
  std::array<std::byte, kMadeCallBytes> bytes{};
  std::ranges::copy(encode(call.frame), bytes.begin());
  store_le(bytes, kFrameBytes, call.labelled);
  plane_->ask({.communicator = communicator_id,
               .rank = GlobalRank(plane_->rendezvous().rank),
               .channel = call.channel,
               .call = {bytes.begin(), bytes.end()}});
}

void JobControl::on_call_question(const CallQuestion& question) {
  if (question.call.size() != kMadeCallBytes) {
    return;
  }
  const Result<Frame> frame = decode(std::span(question.call).first<kFrameBytes>());
  if (!frame.ok()) {
    return;
  }
  const MadeCall call{
      question.channel, load_le<uint32_t>(std::span(question.call), kFrameBytes), *frame};
  FailureReport report{.code = StatusCode::kMismatch,
                       .reporter = GlobalRank(plane_->rendezvous().rank),
                       .peer = question.rank,
                       .text = {},
                       .communicator = question.communicator};
  {
    const std::lock_guard lock(mutex_);
    const Member* member = find(question.communicator);
    if (member == nullptr || member->engine == nullptr) {
      return;
    }
    const Status same = member->engine->compare_call(call);
    const auto rank = member->identity.rank_here(question.rank);
    if (same.ok() || !rank) {
      return;
    }
    report.text = fmt::format(
        "{}rank {} waits in another call: {}",
        member->identity.id == 0 ? "" : fmt::format("communicator {}: ", member->identity.id),
        rank->value(),
        same.message());
  }
  log_error("{}{}", log_prefix(question.communicator), report.text);
  plane_->report(report);
}

// The communicator id too: two threads that split different communicators at once may get one id.
std::string JobControl::gather_tag(std::string_view what, uint16_t id, uint64_t communicator_id) {
  return fmt::format("{} of communicator {} ({:016x})", what, id, communicator_id);
}

void JobControl::add_own_states(std::vector<RankState>& all) {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members_) {
    if (member.engine == nullptr) {
      continue;
    }
    for (ChannelState& state : member.engine->states()) {
      all.push_back(
          rank_state(member.identity.id, std::move(state), member.identity.communicator_id));
    }
    if (member.split > 0) {
      all.push_back({member.identity.id,
                     kCallChannel,
                     member.split,
                     member.split - 1,
                     "ho_comm_split",
                     "",
                     member.identity.communicator_id,
                     0});
    }
  }
}

void JobControl::add_states_for_other_jobs(std::vector<RankState>& all) {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members_) {
    if (member.engine == nullptr || member.name.id == 0 || member.cause) {
      continue;
    }
    for (ChannelState& state : member.engine->states()) {
      all.push_back(rank_state(0, std::move(state), member.name.id));
      all.back().other_job = member.name.text;
    }
  }
}

std::vector<RankState> JobControl::states() {
  std::vector<RankState> all;
  add_own_states(all);
  {
    const std::lock_guard lock(jobs_->mutex);
    for (JobControl* other : jobs_->all) {
      // Not those of a parent, whose locks nobody may release here.
      if (other != this && other->process_ == process_ && all.size() < wire::kMaxStates / 2) {
        other->add_states_for_other_jobs(all);
      }
    }
  }
  if (!threads_->all_wait()) {
    std::ranges::for_each(all, [](RankState& state) { state.held = 0; });
  }
  return all;
}

}  // namespace ho
