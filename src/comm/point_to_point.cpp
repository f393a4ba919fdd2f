// Sends and receives: the engine matches them.
#include "comm/communicator.hpp"

namespace ho {

std::optional<RailIndex> Communicator::rail_to(GlobalRank peer) const {
  const GroupMap& map = placement_.map;
  if (map.group_of(self_) == map.group_of(peer) && placement_.same_host(self_, peer)) {
    return std::nullopt;
  }
  return map.rail_of(std::min(self_, peer)).value_or(RailIndex(0));
}

Result<std::shared_ptr<Operation>> Communicator::start(const PointToPointCall& requested,
                                                       bool background) {
  const Transfer transfer = maker_.transfer(requested);
  HORING_TRY(shape_.check(transfer));
  const void* buffer = requested.sends ? requested.data : requested.into;
  if (device_.work() != nullptr && requested.count > 0) {
    HORING_ASSIGN(const bool on_device,
                  device_.is_device_memory(transfer.name(), buffer, transfer.bytes()));
    if (on_device) {
      return Status(StatusCode::kUnsupported,
                    transfer.name() +
                        ": device memory; sends and receives move memory of the host, copy it "
                        "there first");
    }
  }
  return engine_->submit(transfer, background);
}

}  // namespace ho
