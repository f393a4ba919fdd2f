#include "nccl_host/job_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "nccl_host/error.hpp"
#include "nccl_host/worker.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

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

}  // namespace

JobMemory::JobMemory(const JobLayout& layout, int fd)
    : layout_(layout), bytes_(layout.communicators * CommMemory::bytes_for(layout)) {
  if (layout.shape.world() > CommMemory::kMostRanks) {
    throw HostError("at most " + std::to_string(CommMemory::kMostRanks) + " ranks");
  }
  const int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* const base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) {
    fail_with("mmap of the job's " + std::to_string(bytes_) + " bytes");
  }
  base_ = static_cast<std::byte*>(base);
}

JobMemory::JobMemory(JobMemory&& other) noexcept
    : layout_(other.layout_),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

JobMemory::~JobMemory() {
  if (base_ != nullptr) {
    ::munmap(base_, bytes_);
  }
}

JobMemory JobMemory::anonymous(const JobLayout& layout) {
  return {layout, -1};
}

JobMemory JobMemory::create(const std::string& name, const JobLayout& layout) {
  const Fd fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
  const size_t bytes = layout.communicators * CommMemory::bytes_for(layout);
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    fail_with("shm_open " + name);
  }
  return {layout, fd.get()};
}

JobMemory JobMemory::open(const std::string& name, const JobLayout& layout) {
  const Fd fd(::shm_open(name.c_str(), O_RDWR, 0));
  if (!fd.valid()) {
    fail_with("shm_open " + name + " (the ranks must be on one machine)");
  }
  return {layout, fd.get()};
}

void JobMemory::remove(const std::string& name) {
  ::shm_unlink(name.c_str());
}

CommMemory JobMemory::comm(uint32_t index, uint32_t rank, std::chrono::milliseconds timeout) {
  return {layout_, base_ + index * CommMemory::bytes_for(layout_), rank, timeout};
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
  Backoff backoff;
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
