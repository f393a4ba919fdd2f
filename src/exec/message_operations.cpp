#include "exec/message_operations.hpp"

#include <algorithm>
#include <string>

#include "base/log.hpp"

namespace ho {

MessageOperations::MessageOperations(const MessageContext& context)
    : context_(context), messages_(options()) {}

PointToPoint::Options MessageOperations::options() {
  PointToPoint::Options options;
  options.self = context_.self;
  options.world_size = context_.world_size;
  options.communicator = context_.communicator;
  options.has_network = context_.network != nullptr;
  options.link = [this](GlobalRank peer, bool mine) { return link_to(peer, mine); };
  options.callers = [this] { return callers(); };
  return options;
}

Result<Link*> MessageOperations::link_to(GlobalRank peer, bool mine) {
  const std::optional<RailIndex> rail = context_.owner->rail_to(peer);
  if (!rail) {
    return context_.shm->link({peer, RailIndex(0), context_.communicator, kMessageChannel});
  }
  if (context_.network == nullptr) {
    return Status(StatusCode::kInternal,
                  "no network for the link to rank " + std::to_string(peer.value()));
  }
  const bool of_lower = mine == (context_.self < peer);
  return context_.network->link(
      {peer, *rail, context_.communicator, of_lower ? kMessageChannel : kHigherMessageChannel});
}

std::vector<GlobalRank> MessageOperations::callers() const {
  std::vector<GlobalRank> callers;
  for (const LinkKey& key : context_.shm->unrequested_links()) {
    callers.push_back(key.peer);
  }
  if (context_.network != nullptr) {
    for (const LinkKey& key : context_.network->unrequested_links()) {
      callers.push_back(key.peer);
    }
  }
  return callers;
}

Result<std::shared_ptr<Operation>> MessageOperations::submit(Transfer transfer,
                                                             bool background,
                                                             const std::optional<Status>& cause,
                                                             const LeaveNotices& notices) {
  if (cause) {
    return cause->with_context(transfer.name());
  }
  if (transfer.sends && transfer.peer) {
    if (const PeerLeaveNotice* notice = notices.of(*transfer.peer)) {
      return LeaveNotices::no_messages(*notice).with_context(transfer.name());
    }
  }
  auto shared = std::make_shared<Transfer>(std::move(transfer));
  HORING_TRY(messages_.submit(shared));
  auto operation = std::make_shared<Operation>(background);
  OperationRecord& record = operation->record();
  record.made.channel = kMessageChannel;
  record.made.frame.collective = kMessage;
  record.made.frame.communicator = context_.communicator;
  record.made.frame.dtype = static_cast<uint8_t>(shared->dtype);
  record.made.frame.sequence = static_cast<uint32_t>(shared->order);
  record.made.frame.count = shared->count;
  record.bytes = shared->bytes();
  record.entered_ns = now_ns();
  record.progress.state = OperationProgress::State::kRunning;
  record.progress.wait.kind =
      shared->sends ? OperationWait::Kind::kSend : OperationWait::Kind::kReceive;
  record.progress.wait.any_peer = !shared->peer;
  record.progress.wait.peer = shared->peer.value_or(GlobalRank());
  record.progress.wait.since_ns = record.entered_ns;
  context_.recorder->begin(record);
  operations_.emplace(shared->order, operation);
  return operation;
}

// Blocks are not in the way of messages, nor the other way round.
bool MessageOperations::step(const LeaveNotices& notices,
                             bool idle,
                             std::optional<RunError>& error) {
  bool any = false;
  error = messages_.make_progress(notices, idle, &any);
  end_those_over();
  return any && !error;
}

void MessageOperations::end_those_over() {
  for (const auto& transfer : messages_.take_ended()) {
    if (!transfer->outcome->ok()) {
      log_error("{}", transfer->outcome->message());
    }
    end(*transfer, *transfer->outcome);
  }
}

void MessageOperations::end(const Transfer& transfer, const Status& status) {
  const auto found = operations_.find(transfer.order);
  found->second->end(status, {});
  context_.recorder->end(
      found->second->record(),
      status.ok() ? OperationProgress::State::kCompleted : OperationProgress::State::kFailed,
      now_ns());
  operations_.erase(found);
  woken_ = true;
}

void MessageOperations::end_all(const Status& cause) {
  for (const auto& [order, transfer] : messages_.transfers()) {
    const bool named = cause.message().starts_with(transfer->name());
    end(*transfer, named ? cause : cause.with_context(transfer->name()));
  }
  messages_ = PointToPoint(options());
}

EndedByLeave MessageOperations::end_of_left(const LeaveNotices& notices) {
  const size_t before = operations_.size();
  bool lent = false;
  messages_.end_of_left(notices, &lent);
  end_those_over();
  EndedByLeave ended;
  ended.any = operations_.size() != before;
  if (lent) {
    ended.abandoned = notices.any();
  }
  return ended;
}

// A receive for which no message has come is nobody's affair but this rank's, which leaves: the
// communicator of the others goes on.
bool MessageOperations::end_in_vain(Deadline now) {
  const size_t before = operations_.size();
  messages_.end_in_vain(now);
  end_those_over();
  return operations_.size() != before;
}

bool MessageOperations::any_background() const {
  return std::ranges::any_of(operations_,
                             [](const auto& operation) { return operation.second->background(); });
}

RunWait MessageOperations::waits(Deadline* earliest) const {
  for (const auto& [order, transfer] : messages_.transfers()) {
    *earliest = std::min(*earliest, transfer->deadline);
  }
  return messages_.wait_state();
}

std::optional<RunError> MessageOperations::late() const {
  for (const auto& [order, transfer] : messages_.transfers()) {
    if (passed(transfer->deadline)) {
      return RunError{transfer->late(), std::nullopt};
    }
  }
  return std::nullopt;
}

std::optional<ChannelState> MessageOperations::state() const {
  if (messages_.submitted() == 0) {
    return std::nullopt;
  }
  const bool held = std::ranges::any_of(
      operations_, [](const auto& operation) { return operation.second->held(); });
  return ChannelState{kMessageChannel,
                      messages_.submitted(),
                      messages_.completed(),
                      messages_.active() ? "send/recv" : "",
                      messages_.waiting_text(),
                      held ? messages_.submitted() : 0};
}

}  // namespace ho
