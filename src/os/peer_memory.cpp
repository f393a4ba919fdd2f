#include "os/peer_memory.hpp"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <string>

namespace ho {
namespace {

// Ranges of one side that are still to be copied.
class Remaining {
 public:
  void add(uint64_t address, uint64_t bytes) {
    if (bytes > 0) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
      ranges_.at(count_++) = {reinterpret_cast<void*>(address), bytes};
      total_ += bytes;
    }
  }
  void advance(size_t bytes) {
    total_ -= bytes;
    while (bytes > 0) {
      iovec& head = ranges_.at(first_);
      const size_t step = bytes < head.iov_len ? bytes : head.iov_len;
      head.iov_base = static_cast<std::byte*>(head.iov_base) + step;
      head.iov_len -= step;
      bytes -= step;
      first_ += head.iov_len == 0 ? 1 : 0;
    }
  }
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] const iovec* data() const { return ranges_.data() + first_; }
  [[nodiscard]] size_t count() const { return count_ - first_; }

 private:
  std::array<iovec, kMaxPeerRanges> ranges_{};
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Status read_peer_memory(pid_t pid,
                        std::span<const RemoteRange> from,
                        std::span<const std::span<std::byte>> into) {
  if (from.size() > kMaxPeerRanges || into.size() > kMaxPeerRanges) {
    return invalid("read_peer_memory: more than 64 ranges");
  }
  Remaining remote;
  Remaining local;
  for (const RemoteRange& range : from) {
    remote.add(range.address, range.bytes);
  }
  for (const std::span<std::byte>& range : into) {
    local.add(reinterpret_cast<uintptr_t>(range.data()), range.size());
  }
  if (remote.total() != local.total()) {
    return invalid("read_peer_memory: the two sides differ in size");
  }
  while (remote.total() > 0) {
    const ssize_t got =
        ::process_vm_readv(pid, local.data(), local.count(), remote.data(), remote.count(), 0);
    if (got < 0) {
      return system_error("process_vm_readv of process " + std::to_string(pid), errno);
    }
    if (got == 0) {
      return {StatusCode::kSystem,
              "process_vm_readv of process " + std::to_string(pid) + " stopped early"};
    }
    remote.advance(static_cast<size_t>(got));
    local.advance(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace ho
