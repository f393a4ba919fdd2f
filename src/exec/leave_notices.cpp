#include "exec/leave_notices.hpp"

#include <spdlog/fmt/fmt.h>

namespace ho {
namespace {

Status left(const PeerLeaveNotice& leave_notice, const std::string& when) {
  return {StatusCode::kPeerLost,
          fmt::format("{} has left (it destroyed its communicator{}); all ranks must make the "
                      "same calls before they destroy it: check the program and the output of {} "
                      "for a call that it skips, a loop that ends early, or an exception",
                      leave_notice.name,
                      when,
                      leave_notice.process)};
}

std::string after(const ChannelProgress& channel) {
  return channel.entered == 0 || channel.last.empty()
             ? " before any such operation"
             : fmt::format(" after {} #{}", channel.last, channel.entered);
}

}  // namespace

std::optional<Status> LeaveNotices::against(const OperationPosition& position) const {
  for (const PeerLeaveNotice& leave_notice : leave_notices_) {
    const ChannelProgress& channel = leave_notice.channels.at(position.channel);
    if (position.number > channel.entered) {
      return left(leave_notice, after(channel));
    }
  }
  return std::nullopt;
}

const PeerLeaveNotice* LeaveNotices::of(GlobalRank rank) const {
  for (const PeerLeaveNotice& leave_notice : leave_notices_) {
    if (leave_notice.rank == rank) {
      return &leave_notice;
    }
  }
  return nullptr;
}

Status LeaveNotices::no_messages(const PeerLeaveNotice& leave_notice) {
  return left(leave_notice,
              fmt::format(" after {} messages to this rank and {} from it",
                          leave_notice.sent_here,
                          leave_notice.received_here));
}

Status LeaveNotices::any() const {
  return leave_notices_.empty() ? Status() : left(leave_notices_.front(), "");
}

}  // namespace ho
