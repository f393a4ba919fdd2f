// The all-gathers of a rank: a call queues its contribution and waits for the thread that reads to
// hand over the parts, or the reason why there will be none. And what `horing status` asks.
#include <algorithm>
#include <span>
#include <utility>

#include "bootstrap/control/control_client.hpp"

namespace ho {

void ControlClient::take_part(Gather& gather, const wire::Message& message) {
  if (gather.ended.has_value()) {
    return;  // by a decision: the first cause stands
  }
  if (message.header.type == wire::Type::kGatherFailed) {
    const auto outcome = wire::decode<wire::Outcome>(message.body);
    gather.ended = outcome.ok() ? Status(outcome->code, outcome->text) : outcome.status();
    changed_.notify_all();
    return;
  }
  auto part = wire::decode<wire::GatheredPart>(message.body);
  if (!part.ok() || part->first > gather.blobs.size() ||
      part->blobs.size() > gather.blobs.size() - part->first) {
    gather.ended =
        part.ok() ? Status(StatusCode::kProtocol, "rank 0 sent blobs of no member") : part.status();
    changed_.notify_all();
    return;
  }
  for (size_t i = 0; i < part->blobs.size(); ++i) {
    auto& blob = gather.blobs[part->first + i];
    gather.arrived += blob.has_value() ? 0U : 1U;
    blob = std::move(part->blobs[i]);
  }
  if (gather.arrived == gather.blobs.size()) {
    gather.ended = Status();
    changed_.notify_all();
  }
}

void ControlClient::end_all_gathers(const Status& why) {
  for (auto& [id, gather] : gathers_) {
    if (!gather.ended.has_value()) {
      gather.ended = why;
    }
  }
  changed_.notify_all();
}

// Not by the clock alone: an answer that lies in the socket of a process that was stopped counts,
// or this rank would say no where all others heard yes.
void ControlClient::end_overdue_gathers(Deadline looked) {
  const Lock lock(mutex_);
  for (auto& [id, gather] : gathers_) {
    if (gather.due <= looked && !gather.ended.has_value()) {
      gather.ended =
          Status(StatusCode::kTimeout,
                 "all_gather \"" + gather.tag + "\": coordinator " + welcome_.coordinator +
                     " did not answer before the deadline; it may be stopped");
      changed_.notify_all();
    }
  }
}

void ControlClient::end_gathers(std::string_view tag_end, const Status& why) {
  const Lock lock(mutex_);
  ended_tags_.emplace(tag_end, why);
  end_gathers_now(tag_end, why);
}

void ControlClient::end_gathers_now(std::string_view tag_end, const Status& why) {
  for (auto& [id, gather] : gathers_) {
    if (!gather.ended.has_value() && gather.tag.ends_with(tag_end)) {
      gather.ended = why.with_context("all_gather \"" + gather.tag + "\"");
    }
  }
  changed_.notify_all();
}

void ControlClient::forget_gathers(std::string_view tag_end) {
  const Lock lock(mutex_);
  ended_tags_.erase(std::string(tag_end));
}

Status ControlClient::why_over_locked(std::string_view tag) const {
  if (job_decision_.has_value()) {
    return *job_decision_;
  }
  // Rank 0 may have left because of these.
  for (const auto& [communicator, joined] : joined_) {
    if (joined.cause.has_value() && tag.ends_with(joined.tag_end)) {
      return *joined.cause;
    }
  }
  for (const auto& [tag_end, why] : ended_tags_) {
    if (tag.ends_with(tag_end)) {
      return why;
    }
  }
  return connected_ ? Status() : Status(StatusCode::kPeerLost, coordinator_end_);
}

Status ControlClient::why_over(std::string_view tag_end) {
  const Lock lock(mutex_);
  return why_over_locked(tag_end);
}

Result<std::vector<std::vector<std::byte>>> ControlClient::all_gather(
    std::string_view tag,
    std::span<const std::byte> mine,
    std::span<const GlobalRank> members,
    Deadline deadline) {
  const std::string what = "all_gather \"" + std::string(tag) + "\"";
  if (mine.size() > wire::kMaxBlobBytes || tag.size() > wire::kMaxTagBytes) {
    return invalid(what +
                   ": at most 1 MiB may be gathered per rank, with a tag of at most 256 "
                   "characters");
  }
  wire::Contribution contribution{
      .tag = std::string(tag), .timeout_ms = 0, .members = {}, .blob = {mine.begin(), mine.end()}};
  contribution.timeout_ms = static_cast<uint32_t>(std::min<int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(left(bounded(deadline))).count(),
      UINT32_MAX));
  for (const GlobalRank member : members) {
    contribution.members.push_back(member.value());
  }
  Lock lock(mutex_);
  if (const Status over = why_over_locked(tag); !over.ok()) {
    return over.with_context(what);
  }
  const uint64_t id = next_id_++;
  Gather& gather = gathers_[id];
  gather.tag = contribution.tag;
  gather.due = bounded(deadline) + kAnswerGrace;
  gather.blobs.resize(members.empty() ? rendezvous_.world_size : members.size());
  tell(wire::Type::kContribution, id, ControlConnection::body_of(contribution));
  wake();  // there may be more to send, and there is a deadline to keep
  // The thread that reads keeps it: end_overdue_gathers().
  changed_.wait(lock, [&gather] { return gather.ended.has_value(); });
  Gather result = std::move(gather);
  gathers_.erase(id);
  HORING_TRY(*result.ended);
  std::vector<std::vector<std::byte>> blobs;
  blobs.reserve(result.blobs.size());
  for (auto& blob : result.blobs) {
    blobs.push_back(std::move(*blob));
  }
  return blobs;
}

// Rank 0 asks a rank once until it answers: a question that has come before is answered now.
void ControlClient::answer_status(StatusCallbacks callbacks) {
  const auto report = callbacks.report;
  bool requested = false;
  {
    const Lock lock(mutex_);
    status_callbacks_ = std::move(callbacks);
    requested = std::exchange(status_requested_, false);
  }
  if (requested) {
    tell_status(report);
    wake();
  }
}

bool ControlClient::ask_status(uint64_t number) {
  {
    const Lock lock(mutex_);
    if (!connected_ || coordinator_left_) {
      return false;
    }
    tell(wire::Type::kStatusQuestion, number);
  }
  wake();
  return true;
}

// What is malformed is no answer: nothing but `horing status` wants it.
void ControlClient::handle_status(const wire::Message& message) {
  StatusCallbacks callbacks;
  {
    const Lock lock(mutex_);
    callbacks = status_callbacks_;
    status_requested_ = status_requested_ ||
                        (!callbacks.report && message.header.type == wire::Type::kStatusQuestion);
  }
  if (!callbacks.report) {
    return;
  }
  if (message.header.type == wire::Type::kStatusReport) {
    if (const auto report = wire::decode<StatusReport>(message.body); report.ok()) {
      callbacks.on_report(message.header.id, *report);
    }
    return;
  }
  tell_status(callbacks.report);
}

void ControlClient::tell_status(const std::function<std::string()>& report) {
  const std::string text = report();
  const auto bytes = std::as_bytes(std::span(text));
  const Lock lock(mutex_);
  tell(wire::Type::kStatusReport,
       0,
       ControlConnection::body_of(
           StatusReport{GlobalRank(rendezvous_.rank), {bytes.begin(), bytes.end()}}));
}

}  // namespace ho
