#include "exec/point_to_point.hpp"

#include <algorithm>

namespace ho {

Result<MessagePeer*> PointToPoint::peer(GlobalRank rank) {
  auto& found = peers_[rank];
  if (found == nullptr) {
    Link* mine = nullptr;
    Link* theirs = nullptr;
    if (rank != options_.self) {
      HORING_ASSIGN(mine, options_.link(rank, true));
      HORING_ASSIGN(theirs, options_.link(rank, false));
    }
    found = std::make_unique<MessagePeer>(
        MessagePeer::Identity{options_.self, rank, options_.communicator}, mine, theirs);
  }
  return found.get();
}

Status PointToPoint::submit(std::shared_ptr<Transfer> transfer) {
  if (transfer->sends) {
    if (!transfer->peer) {
      return {StatusCode::kInternal, "a message to nobody"};
    }
    HORING_ASSIGN(MessagePeer * receiver, peer(*transfer->peer));
    transfer->order = ++submitted_;
    receiver->send(*transfer);
  } else {
    if (transfer->peer) {
      HORING_TRY(peer(*transfer->peer).status());
    }
    transfer->order = ++submitted_;
    receives_.post(*transfer);
  }
  const uint64_t order = transfer->order;
  active_.emplace(order, std::move(transfer));
  return {};
}

std::optional<RunError> PointToPoint::make_progress(const LeaveNotices& notices,
                                                    bool idle,
                                                    bool* moved) {
  if ((idle || active()) && options_.callers) {
    for (const GlobalRank caller : options_.callers()) {
      if (const auto made = peer(caller); !made.ok()) {
        return RunError{made.status(), caller};
      }
    }
  }
  if (peers_.empty() && !active()) {
    return std::nullopt;
  }
  if (auto error = step_peers(moved)) {
    return error;
  }
  if (!notices.none() && active()) {
    bool lent = false;
    end_of_left(notices, &lent);
    *moved = *moved || !ended_.empty();
  }
  return lost_peer();
}

std::optional<RunError> PointToPoint::step_peers(bool* moved) {
  std::vector<Transfer*> ended;
  std::optional<RunError> error;
  std::optional<GlobalRank> served;
  auto next = peers_.upper_bound(served_last_);
  for (size_t i = 0; i < peers_.size() && !error; ++i) {
    next = next == peers_.end() ? peers_.begin() : next;
    error = next->second->make_progress(receives_, &ended, moved);
    if (next->second->served_any_source()) {
      served = next->first;
    }
    ++next;
  }
  served_last_ = served.value_or(served_last_);
  retire(ended);
  return error;
}

void PointToPoint::retire(const std::vector<Transfer*>& ended) {
  for (const Transfer* transfer : ended) {
    const auto found = active_.find(transfer->order);
    ended_.push_back(std::move(found->second));
    active_.erase(found);
    ++completed_;
  }
}

std::optional<RunError> PointToPoint::lost_peer() const {
  for (const auto& [order, transfer] : active_) {
    const auto rank = transfer->from ? transfer->from : transfer->peer;
    if (!rank) {
      continue;
    }
    if (Status lost = peers_.at(*rank)->lost_for(*transfer); !lost.ok()) {
      return RunError{lost.with_context(transfer->name()), *rank};
    }
  }
  return std::nullopt;
}

bool PointToPoint::dry(const PeerLeaveNotice& notice, int32_t tag) const {
  const auto found = peers_.find(notice.rank);
  if (found == peers_.end()) {
    return notice.sent_here == 0;
  }
  return notice.sent_here <= found->second->arrived() && !found->second->holds(tag);
}

std::optional<Status> PointToPoint::all_left(const LeaveNotices& notices, int32_t tag) const {
  const auto own = peers_.find(options_.self);
  if (own != peers_.end() && own->second->holds(tag)) {
    return std::nullopt;
  }
  std::optional<Status> last;
  for (uint32_t rank = 0; rank < options_.world_size; ++rank) {
    if (GlobalRank(rank) == options_.self) {
      continue;
    }
    const PeerLeaveNotice* notice = notices.of(GlobalRank(rank));
    if (notice == nullptr || !dry(*notice, tag)) {
      return std::nullopt;
    }
    last = LeaveNotices::no_messages(*notice);
  }
  return last;
}

std::optional<Status> PointToPoint::peer_left(const Transfer& transfer,
                                              const LeaveNotices& notices) const {
  if (!transfer.sends && transfer.from) {
    return std::nullopt;  // on its way, in full
  }
  if (!transfer.peer) {
    return all_left(notices, transfer.tag);
  }
  const PeerLeaveNotice* notice = notices.of(*transfer.peer);
  if (notice == nullptr) {
    return std::nullopt;
  }
  const bool goes_on = transfer.sends ? transfer.lent && transfer.number <= notice->received_here
                                      : !dry(*notice, transfer.tag);
  return goes_on ? std::nullopt : std::optional(LeaveNotices::no_messages(*notice));
}

void PointToPoint::end_of_left(const LeaveNotices& notices, bool* lent) {
  std::vector<Transfer*> ended;
  for (const auto& [order, transfer] : active_) {
    const auto why = peer_left(*transfer, notices);
    if (!why) {
      continue;
    }
    *lent |= transfer->lent;
    transfer->outcome = why->with_context(transfer->name());
    receives_.remove(*transfer);
    if (transfer->peer) {
      peers_.at(*transfer->peer)->forget(*transfer);
    }
    ended.push_back(transfer.get());
  }
  retire(ended);
}

void PointToPoint::end_in_vain(Deadline now) {
  std::vector<Transfer*> ended;
  for (const auto& [order, transfer] : active_) {
    const bool to_self =
        transfer->peer ? *transfer->peer == options_.self : options_.world_size == 1;
    const bool late = !transfer->sends && transfer->deadline <= now;
    if (transfer->from || !(to_self || late)) {
      continue;
    }
    transfer->outcome =
        to_self ? Status(StatusCode::kPeerLost,
                         transfer->name() + ": this rank has destroyed its communicator")
                : transfer->late();
    receives_.remove(*transfer);
    if (transfer->peer) {
      peers_.at(*transfer->peer)->forget(*transfer);
    }
    ended.push_back(transfer.get());
  }
  retire(ended);
}

std::vector<std::shared_ptr<Transfer>> PointToPoint::take_ended() {
  return std::exchange(ended_, {});
}

RunWait PointToPoint::wait_state() const {
  RunWait wait;
  wait.network_releases =
      std::ranges::any_of(peers_, [](const auto& peer) { return peer.second->awaits_release(); });
  for (const auto& [order, transfer] : active_) {
    const auto rank = transfer->from ? transfer->from : transfer->peer;
    const bool over_network = rank ? peers_.at(*rank)->over_network() : options_.has_network;
    wait.network |= over_network;
    if (!rank || !over_network) {
      wait.intra_arrivals = 1;
      wait.intra_releases = true;
    }
  }
  return wait;
}

std::string PointToPoint::waiting_text() const {
  constexpr size_t kMaxListed = 3;
  std::string text;
  size_t listed = 0;
  for (const auto& [order, transfer] : active_) {
    if (listed++ == kMaxListed) {
      return text + ", and " + std::to_string(active_.size() - kMaxListed) + " more";
    }
    text += (text.empty() ? "" : "; ") + transfer->name();
  }
  return text;
}

std::vector<PairProgress> PointToPoint::pairs() const {
  std::vector<PairProgress> pairs;
  for (const auto& [rank, peer] : peers_) {
    if (rank != options_.self && (peer->sent() > 0 || peer->arrived() > 0)) {
      pairs.push_back({rank, peer->sent(), peer->arrived()});
    }
  }
  return pairs;
}

uint64_t PointToPoint::largest_bytes() const {
  uint64_t largest = 0;
  for (const auto& [order, transfer] : active_) {
    largest = std::max(largest, transfer->bytes());
  }
  return largest;
}

uint64_t PointToPoint::memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [rank, peer] : peers_) {
    bytes += peer->memory_bytes();
  }
  return bytes;
}

}  // namespace ho
