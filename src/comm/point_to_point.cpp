// Sends and receives: their arguments are checked here, and the engine matches them.
#include <spdlog/fmt/fmt.h>

#include "comm/communicator.hpp"

namespace ho {
namespace {

constexpr uint64_t kMaxTransferBytes = uint64_t{1} << 46;

}  // namespace

std::optional<RailIndex> Communicator::rail_to(GlobalRank peer) const {
  const GroupMap& map = placement_.map;
  if (map.group_of(self_) == map.group_of(peer) && placement_.same_host(self_, peer)) {
    return std::nullopt;
  }
  return map.rail_of(std::min(self_, peer)).value_or(RailIndex(0));
}

Result<std::shared_ptr<Operation>> Communicator::start(const PointToPointCall& requested,
                                                       bool background) {
  Transfer transfer;
  transfer.sends = requested.sends;
  transfer.peer = requested.peer;
  transfer.tag = requested.tag;
  transfer.dtype = requested.dtype;
  transfer.count = requested.count;
  transfer.data = static_cast<const std::byte*>(requested.data);
  transfer.into = static_cast<std::byte*>(requested.into);
  transfer.source = requested.source;
  transfer.timeout = requested.options.timeout.value_or(settings_.timeout);
  transfer.deadline = deadline_after(transfer.timeout);
  const uint32_t world = placement_.map.world_size();
  if (requested.peer && requested.peer->value() >= world) {
    return invalid(fmt::format("{}: there are {} ranks", transfer.name(), world));
  }
  const void* buffer = requested.sends ? requested.data : requested.into;
  if (requested.count > kMaxTransferBytes / size_bytes(requested.dtype) ||
      (buffer == nullptr && requested.count > 0)) {
    return invalid(fmt::format("{}: a null buffer, or a count beyond 64 TiB; is it negative?",
                               transfer.name()));
  }
  if (work_ != nullptr && requested.count > 0) {
    HORING_ASSIGN(const bool on_device,
                  is_device_memory(transfer.name(), buffer, transfer.bytes()));
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
