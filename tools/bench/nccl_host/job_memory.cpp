#include "bench/nccl_host/job_memory.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/worker.hpp"
#include "os/clock.hpp"
#include "os/fd_passing.hpp"

namespace ho::nccl_host {
namespace {

constexpr size_t kPage = 4096;

size_t in_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t header_bytes() {
  return in_pages(sizeof(CommMemory::Header));
}

[[noreturn]] void fail_with(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

SharedMemory must(ho::Result<SharedMemory> memory) {
  if (!memory.ok()) {
    throw HostError(memory.status().message());
  }
  return std::move(memory).value();
}

size_t bytes_of_job(const JobLayout& layout) {
  return layout.communicators * CommMemory::bytes_for(layout);
}

constexpr std::chrono::seconds kRendezvousTime{30};

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  expect(path.size() < sizeof(address.sun_path), "the path of the job's listener is short");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* as_sockaddr(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void await_input(const Fd& fd, const std::string& path) {
  pollfd waited{fd.get(), POLLIN, 0};
  constexpr int kWaitMs = std::chrono::milliseconds(kRendezvousTime).count();
  if (::poll(&waited, 1, kWaitMs) != 1) {
    throw HostError("not all ranks found each other at " + path + " in time");
  }
}

}  // namespace

JobMemory JobMemory::create(const JobLayout& layout) {
  if (layout.shape.world() > CommMemory::kMaxRanks) {
    throw HostError("at most " + std::to_string(CommMemory::kMaxRanks) + " ranks");
  }
  return {layout, must(SharedMemory::create("horing plugin job", bytes_of_job(layout)))};
}

Fd JobMemory::listen_at(const std::string& path) {
  const sockaddr_un address = unix_address(path);
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener.valid() || ::bind(listener.get(), as_sockaddr(address), sizeof(address)) != 0 ||
      ::listen(listener.get(), CommMemory::kMaxRanks) != 0) {
    fail_with("listening at " + path);
  }
  return listener;
}

void JobMemory::hand_out(const Fd& listener, const std::string& path, uint32_t to_ranks) {
  const std::array<std::byte, 1> handshake{};
  const std::array<int, 1> fds{memory_.fd()};
  for (uint32_t i = 0; i < to_ranks; ++i) {
    await_input(listener, path);
    const Fd visitor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.valid() ||
        !send_with_fds(visitor, handshake, fds, deadline_after(kRendezvousTime)).ok()) {
      fail_with("handing out the job's memory");
    }
  }
  ::unlink(path.c_str());
}

JobMemory JobMemory::join(const std::string& path, const JobLayout& layout) {
  const sockaddr_un address = unix_address(path);
  const Fd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid() ||
      ::connect(connection.get(), as_sockaddr(address), sizeof(address)) != 0) {
    fail_with("connecting to " + path + " (the ranks must be on one machine)");
  }
  await_input(connection, path);
  std::array<std::byte, 1> handshake{};
  auto received = receive_with_fds(connection, handshake);
  if (!received.ok() || received->fds.size() != 1) {
    throw HostError("rank 0 did not hand out the job's memory at " + path);
  }
  return {layout,
          must(SharedMemory::attach(std::move(received->fds.front()), bytes_of_job(layout)))};
}

CommMemory JobMemory::comm(uint32_t index, uint32_t rank, std::chrono::milliseconds timeout) {
  return {layout_, memory_.bytes().data() + index * CommMemory::bytes_for(layout_), rank, timeout};
}

CommMemory::CommMemory(const JobLayout& layout,
                       std::byte* base,
                       uint32_t rank,
                       std::chrono::milliseconds timeout)
    : layout_(layout), base_(base), rank_(rank), timeout_(timeout) {}

size_t CommMemory::bytes_for(const JobLayout& layout) {
  const size_t each = 2 * in_pages(layout.buffer_bytes) + in_pages(layout.link_bytes);
  return header_bytes() + layout.shape.world() * each;
}

// Fresh pages are zero, which is what the header begins with.
CommMemory::Header& CommMemory::header() {
  return *reinterpret_cast<Header*>(base_);
}

std::byte* CommMemory::after_header(size_t offset) const {
  return base_ + header_bytes() + offset;
}

std::span<std::byte> CommMemory::buffer(uint32_t local, size_t which) {
  const size_t index = 2 * size_t{shape().rank_of(node(), local)} + which;
  return {after_header(index * in_pages(layout_.buffer_bytes)), layout_.buffer_bytes};
}

std::span<std::byte> CommMemory::link_from(uint32_t local) {
  const size_t buffers = 2 * size_t{shape().world()} * in_pages(layout_.buffer_bytes);
  const size_t index = shape().rank_of(node(), local);
  return {after_header(buffers + index * in_pages(layout_.link_bytes)), layout_.link_bytes};
}

void CommMemory::pass(SharedBarrier& barrier, uint64_t& rounds, uint32_t members, const char* who) {
  const uint64_t wanted = ++rounds * members;
  barrier.arrived.fetch_add(1);
  const Deadline deadline = deadline_after(timeout_);
  Backoff backoff(who, timeout_);
  while (barrier.arrived.load() < wanted) {
    if (failed()) {
      throw HostError("another rank of this communicator has failed");
    }
    if (passed(deadline)) {
      throw HostError("rank " + std::to_string(rank_) + " waited for " + who +
                      " in vain: " + std::to_string(barrier.arrived.load()) + " of " +
                      std::to_string(wanted) + " arrivals");
    }
    backoff.pause();
  }
}

}  // namespace ho::nccl_host
