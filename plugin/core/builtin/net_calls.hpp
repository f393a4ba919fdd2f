// How the builtin networks take NCCL's arguments apart, and answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/recv_comm.hpp"
#include "core/driver/net_driver.hpp"
#include "core/driver/reply.hpp"

namespace ho::plugin {

// NCCL gets a number only: the log says why.
[[nodiscard]] inline Reply answer(const Status& status) {
  if (!status.ok()) {
    log_error("{}", status.message());
  }
  return reply_of(status.code());
}

[[nodiscard]] inline std::span<std::byte, kHandleBytes> handle_bytes(void* handle) {
  return std::span<std::byte, kHandleBytes>(static_cast<std::byte*>(handle), kHandleBytes);
}

// NetDriver::connections(): of `comms`, whose values have a comm and its owner.
template <typename SendComm, typename Comms, typename CommOf>
[[nodiscard]] std::vector<WatchedConnection> watched_connections(const Comms& comms,
                                                                 const CommOf& comm_of) {
  std::vector<WatchedConnection> all;
  for (const auto& [key, owned] : comms) {
    const auto& comm = *std::invoke(comm_of, owned);
    WatchedConnection& each = all.emplace_back();
    each.comm_id = owned.owner.comm_id;
    each.context = owned.owner.context;
    each.sends = dynamic_cast<const SendComm*>(&comm) != nullptr;
    comm.read_watched(each);
  }
  return all;
}

// The buffers of one irecv.
struct Buffers {
  std::array<RecvComm::Buffer, kMaxReceives> each{};
  size_t count = 0;
  [[nodiscard]] std::span<const RecvComm::Buffer> used() const { return {each.data(), count}; }
};

// Nothing: no irecv has so many.
[[nodiscard]] inline std::optional<Buffers> buffers_of(const NetDriver::Receives& receives) {
  if (receives.count < 1 || static_cast<uint32_t>(receives.count) > kMaxReceives) {
    return std::nullopt;
  }
  Buffers buffers;
  buffers.count = static_cast<size_t>(receives.count);
  for (size_t i = 0; i < buffers.count; ++i) {
    buffers.each[i] = {
        static_cast<std::byte*>(receives.data[i]), receives.bytes[i], receives.tags[i]};
  }
  return buffers;
}

}  // namespace ho::plugin
