// Reading another process's memory in place (process_vm_readv).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"

namespace ho {

// A range in the other process. Never dereferenced here.
struct RemoteRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

inline constexpr size_t kMaxPeerRanges = 64;

// Copies the remote ranges, one after the other, into the local ones; both sides must have the same
// total and at most kMaxPeerRanges ranges. A kSystem error when the kernel forbids it, the process
// is gone or a remote address is not mapped there; local memory may then be partly written.
[[nodiscard]] Status read_peer_memory(pid_t pid,
                                      std::span<const RemoteRange> from,
                                      std::span<const std::span<std::byte>> into);

}  // namespace ho
