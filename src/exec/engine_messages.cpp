// The engine's part of sends and receives: which links they take, and how they end.
#include <algorithm>

#include "base/log.hpp"
#include "exec/engine.hpp"

namespace ho {

PointToPoint::Options Engine::message_options() {
  PointToPoint::Options options;
  options.self = options_.self;
  options.world_size = options_.world_size;
  options.communicator = options_.communicator;
  options.has_network = network_ != nullptr;
  options.link = [this](GlobalRank peer, bool mine) { return message_link(peer, mine); };
  options.callers = [this] { return message_callers(); };
  return options;
}

Result<Link*> Engine::message_link(GlobalRank peer, bool mine) {
  const GlobalRank self = options_.self;
  const std::optional<RailIndex> rail = owner_.rail_to(peer);
  if (!rail) {
    return shm_->link({peer, RailIndex(0), options_.communicator, kMessageChannel});
  }
  if (network_ == nullptr) {
    return Status(StatusCode::kInternal,
                  "no network for the link to rank " + std::to_string(peer.value()));
  }
  const bool of_lower = mine == (self < peer);
  return network_->link(
      {peer, *rail, options_.communicator, of_lower ? kMessageChannel : kHigherMessageChannel});
}

std::vector<GlobalRank> Engine::message_callers() const {
  std::vector<GlobalRank> callers;
  for (const LinkKey& key : shm_->unrequested_links()) {
    callers.push_back(key.peer);
  }
  if (network_ != nullptr) {
    for (const LinkKey& key : network_->unrequested_links()) {
      callers.push_back(key.peer);
    }
  }
  return callers;
}

Result<std::shared_ptr<Operation>> Engine::submit(Transfer transfer, bool background) {
  note_call();
  Lock lock(mutex_);
  if (broken_) {
    return broken_->with_context(transfer.name());
  }
  if (transfer.sends && transfer.peer) {
    if (const PeerLeaveNotice* notice = leave_notices_.of(*transfer.peer)) {
      return LeaveNotices::no_messages(*notice).with_context(transfer.name());
    }
  }
  auto shared = std::make_shared<Transfer>(std::move(transfer));
  HORING_TRY(messages_.submit(shared));
  auto operation = std::make_shared<Operation>();
  operation->background_ = background;
  message_operations_.emplace(shared->order, operation);
  if (background) {
    if (!driving_) {
      (void)turn(lock);
    }
    ensure_progress_thread();
    changed_.notify_all();
  }
  if (driving_) {
    shm_->wake();
  }
  return operation;
}

// Blocks are not in the way of messages, nor the other way round.
bool Engine::step_messages(bool moved, std::optional<RunError>& error) {
  bool any = false;
  error = messages_.make_progress(leave_notices_, !moved, &any);
  end_messages();
  return any && !error;
}

void Engine::end_messages() {
  for (const auto& transfer : messages_.take_ended()) {
    if (!transfer->outcome->ok()) {
      log_error("{}", transfer->outcome->message());
    }
    end_message(*transfer, *transfer->outcome);
  }
}

void Engine::end_message(const Transfer& transfer, const Status& status) {
  const auto found = message_operations_.find(transfer.order);
  found->second->status_ = status;
  found->second->ended_ = true;
  message_operations_.erase(found);
  wake_waiters();
}

void Engine::end_all_messages() {
  const std::string here = messages_.waiting_text();
  for (const auto& [order, transfer] : messages_.transfers()) {
    const bool named = broken_->message().starts_with(transfer->name());
    end_message(*transfer, named ? *broken_ : broken_->with_context(transfer->name()));
  }
  messages_ = PointToPoint(message_options());
}

bool Engine::end_departed_messages() {
  bool lent = false;
  messages_.depart(leave_notices_, &lent);
  const size_t before = message_operations_.size();
  end_messages();
  if (lent && network_ != nullptr && !network_->forgets_abandoned() && !broken_) {
    broken_ = leave_notices_.any();
  }
  return message_operations_.size() != before;
}

// A receive for which no message has come is nobody's affair but this rank's, which leaves: the
// communicator of the others goes on.
bool Engine::end_messages_in_vain() {
  const size_t before = message_operations_.size();
  messages_.end_in_vain(Clock::now());
  end_messages();
  return message_operations_.size() != before;
}

std::optional<RunError> Engine::late_message() const {
  for (const auto& [order, transfer] : messages_.transfers()) {
    if (passed(transfer->deadline)) {
      return RunError{transfer->late(), std::nullopt};
    }
  }
  return std::nullopt;
}

}  // namespace ho
