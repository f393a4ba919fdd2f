#include "exec/departures.hpp"

#include <spdlog/fmt/fmt.h>

namespace ho {
namespace {

Status left(const PeerDeparture& departure, const std::string& when) {
  const uint32_t rank = departure.rank.value();
  return {StatusCode::kPeerLost,
          fmt::format("rank {} has left (it destroyed its communicator{}); all ranks must make the "
                      "same calls before they destroy it: look in the program and the output of {} "
                      "for a call that it skips, a loop that ends early, or an exception",
                      rank,
                      when,
                      departure.process)};
}

std::string after(const ChannelProgress& channel) {
  return channel.entered == 0 || channel.last.empty()
             ? " before any such operation"
             : fmt::format(" after {} #{}", channel.last, channel.entered);
}

}  // namespace

std::optional<Status> Departures::against(const OperationPlace& place) const {
  for (const PeerDeparture& departure : departures_) {
    if (!place.point_to_point) {
      const ChannelProgress& channel = departure.channels.at(place.channel);
      if (place.number > channel.entered) {
        return left(departure, after(channel));
      }
    } else if (place.peer == departure.rank) {
      const uint32_t done = place.sends ? departure.received_here : departure.sent_here;
      if (place.number > done) {
        return left(departure,
                    fmt::format(" after {} messages to this rank and {} from it",
                                departure.sent_here,
                                departure.received_here));
      }
    }
  }
  return std::nullopt;
}

Status Departures::any() const {
  return departures_.empty() ? Status() : left(departures_.front(), "");
}

}  // namespace ho
