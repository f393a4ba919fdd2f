#include "bootstrap/control/passed_on.hpp"

#include <algorithm>
#include <utility>

#include "bootstrap/messages/wire.hpp"

namespace ho {

void PassedOn::leave(LeaveNotice leave_notice, Deadline now) {
  constexpr std::chrono::milliseconds kPause{5};
  if (failures_.leaves(leave_notice.rank.value(), leave_notice.communicator)) {
    leave_notices_.push_back(std::move(leave_notice));
    due_ = std::min(due_, now + kPause);
  }
}

// Whoever is through with this communicator hears nothing of it any more; who has said that it
// leaves still waits for its own requests, perhaps for what this rank will not send. Where a
// decision is due, that is the news: all shall hear the first cause, not who left because of it.
void PassedOn::spread(LeaveNotice leave_notice) {
  const uint64_t communicator = leave_notice.communicator;
  if (!failures_.knows(communicator) || failures_.has_cause(communicator)) {
    return;
  }
  std::map<uint32_t, LeaveNotice::Pair> pair_with;
  for (const LeaveNotice::Pair& pair : std::exchange(leave_notice.pairs, {})) {
    pair_with.emplace(pair.peer.value(), pair);
  }
  std::vector<bool> wanted(peers_.world_size(), leave_notice.members.empty());
  for (const GlobalRank member : std::exchange(leave_notice.members, {})) {
    if (member.at() < wanted.size()) {
      wanted[member.at()] = true;
    }
  }
  wanted[leave_notice.rank.at()] = false;
  const auto to_most = ControlConnection::body_of(leave_notice);
  for (uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (!wanted[rank] || failures_.is_outside(rank, communicator) || !peers_.has(rank)) {
      continue;
    }
    ControlConnection::Body body = to_most;
    if (const auto pair = pair_with.find(rank); pair != pair_with.end()) {
      leave_notice.pairs = {pair->second};
      body = ControlConnection::body_of(leave_notice);
    }
    peers_.queue(rank, wire::Type::kLeaveNotice, 0, std::move(body));
  }
}

void PassedOn::send_leave_notices(Deadline now) {
  if (due_ > now) {
    return;
  }
  due_ = Deadline::max();
  for (LeaveNotice& leave_notice : std::exchange(leave_notices_, {})) {
    spread(std::move(leave_notice));
  }
  peers_.flush_all();
}

void PassedOn::ask(const CallQuestion& question) {
  constexpr size_t kMaxKept = 1024;  // more than wait at a time; then some are asked twice
  const std::vector<uint32_t> members = failures_.members(question.communicator);
  const uint32_t asking = question.rank.value();
  if (std::ranges::find(members, asking) == members.end() ||
      failures_.has_cause(question.communicator)) {
    return;
  }
  if (first_to_ask_.size() >= kMaxKept) {
    first_to_ask_.clear();
  }
  const auto first = first_to_ask_.try_emplace(
      {question.communicator, question.channel, question.call}, question.rank);
  if (first.first->second != question.rank) {
    return;
  }
  const auto body = ControlConnection::body_of(question);
  for (const uint32_t member : members) {
    if (member != asking) {
      peers_.send_if_read(member, wire::Type::kCallQuestion, 0, body);
    }
  }
}

}  // namespace ho
