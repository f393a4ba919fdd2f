#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace ho::cuda_double {
namespace {

constexpr size_t kPage = 4096;
constexpr char kMagic[8] = {'h', 'o', 'd', 'o', 'u', 'b', 'l', '1'};
// New memory is not zeroed: who relies on it shall see.
constexpr int kUnwritten = 0xcd;

size_t pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// A page more than asked for, so that ranges of two allocations never touch.
void* reserve(size_t bytes) {
  void* const at_index =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at_index == MAP_FAILED ? nullptr : at_index;
}

}  // namespace

struct RegionMaker {
  // Maps the file and reserves the caller's addresses. Takes over the descriptor.
  static std::shared_ptr<Region> map(int fd, size_t bytes) {
    auto region = std::make_shared<Region>();
    region->fd = fd;
    region->bytes = bytes;
    region->file_bytes_ = kPage + pages(bytes);
    void* const file =
        ::mmap(nullptr, region->file_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
      return nullptr;
    }
    region->file_ = static_cast<std::byte*>(file);
    region->alias = region->file_ + kPage;
    region->mapped_ = pages(bytes) + kPage;
    void* const seen = reserve(region->mapped_);
    if (seen == nullptr) {
      return nullptr;
    }
    region->begin = std::bit_cast<uintptr_t>(seen);
    return region;
  }

  static std::shared_ptr<Region> host(size_t bytes) {
    auto region = std::make_shared<Region>();
    region->kind = MemoryKind::kPinned;
    region->bytes = bytes;
    region->mapped_ = pages(bytes) + kPage;
    void* const memory = reserve(region->mapped_);
    if (memory == nullptr) {
      return nullptr;
    }
    region->begin = std::bit_cast<uintptr_t>(memory);
    region->alias = static_cast<std::byte*>(memory);
    if (::mprotect(memory, pages(bytes), PROT_READ | PROT_WRITE) != 0) {
      return nullptr;
    }
    return region;
  }
};

Region::~Region() {
  if (file_ != nullptr) {
    ::munmap(file_, file_bytes_);
  }
  if (begin != 0) {
    ::munmap(std::bit_cast<void*>(begin), mapped_);
  }
  if (fd >= 0) {
    ::close(fd);
  }
}

void Region::end(uint64_t by_call) {
  freed_by = by_call;
  history = {};
  if (file_ == nullptr) {
    ::madvise(alias, pages(bytes), MADV_DONTNEED);
    ::mprotect(alias, pages(bytes), PROT_NONE);
    return;
  }
  if (kind == MemoryKind::kDevice) {
    reinterpret_cast<Header*>(file_)->freed.store(1);
  }
  ::munmap(file_, file_bytes_);
  file_ = nullptr;
  alias = nullptr;
  if (fd >= 0) {
    ::close(fd);
    fd = -1;
  }
}

bool Region::exporter_freed() const {
  return kind == MemoryKind::kOpened && file_ != nullptr &&
         reinterpret_cast<const Header*>(file_)->freed.load() != 0;
}

std::shared_ptr<Region> make_device_region(size_t bytes, bool filled) {
  const int fd = ::memfd_create("cuda_double", MFD_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  if (::ftruncate(fd, static_cast<off_t>(kPage + pages(bytes))) != 0) {
    ::close(fd);
    return nullptr;
  }
  auto region = RegionMaker::map(fd, bytes);
  if (region != nullptr && filled) {
    std::memset(region->alias, kUnwritten, bytes);
  }
  return region;
}

std::shared_ptr<Region> make_host_region(size_t bytes) {
  auto region = RegionMaker::host(bytes);
  if (region != nullptr) {
    std::memset(region->alias, kUnwritten, bytes);
  }
  return region;
}

device::IpcMemory export_region(const Region& region) {
  struct stat status {};
  ::fstat(region.fd, &status);
  IpcFile file{};
  std::memcpy(file.magic, kMagic, sizeof kMagic);
  file.pid = ::getpid();
  file.fd = region.fd;
  file.inode = status.st_ino;
  file.bytes = region.bytes;
  file.device = region.device;
  device::IpcMemory memory{};
  std::memcpy(memory.reserved, &file, sizeof file);
  return memory;
}

std::optional<IpcFile> read_ipc(const device::IpcMemory& memory) {
  IpcFile file{};
  std::memcpy(&file, memory.reserved, sizeof file);
  if (std::memcmp(file.magic, kMagic, sizeof kMagic) != 0) {
    return std::nullopt;
  }
  return file;
}

std::shared_ptr<Region> open_region(const IpcFile& file) {
  const std::string path = "/proc/" + std::to_string(file.pid) + "/fd/" + std::to_string(file.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  // The descriptor's number may be another file's by now.
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_ino != file.inode ||
      status.st_size != static_cast<off_t>(kPage + pages(file.bytes))) {
    ::close(fd);
    return nullptr;
  }
  auto region = RegionMaker::map(fd, file.bytes);
  if (region != nullptr) {
    region->kind = MemoryKind::kOpened;
    region->device = static_cast<int>(file.device);
  }
  return region;
}

std::shared_ptr<Region> Regions::find(uintptr_t address) const {
  auto next = by_begin_.upper_bound(address);
  if (next == by_begin_.begin()) {
    return nullptr;
  }
  const auto& region = std::prev(next)->second;
  return address < region->begin + region->bytes ? region : nullptr;
}

size_t Regions::living(MemoryKind kind) const {
  size_t count = 0;
  for (const auto& [begin, region] : by_begin_) {
    count += region->kind == kind && !region->ended() ? size_t{1} : 0;
  }
  return count;
}

size_t Regions::living_bytes(int device) const {
  size_t bytes = 0;
  for (const auto& [begin, region] : by_begin_) {
    const bool counts = region->kind == MemoryKind::kDevice && region->device == device;
    bytes += counts && !region->ended() ? region->bytes : 0;
  }
  return bytes;
}

std::shared_ptr<Region> Regions::find_opened(const IpcFile& file) const {
  const auto found = opened_.find({file.pid, file.inode});
  return found == opened_.end() || found->second->ended() ? nullptr : found->second;
}

void Regions::note_opened(const IpcFile& file, const std::shared_ptr<Region>& region) {
  opened_[{file.pid, file.inode}] = region;
}

void Regions::clear() {
  by_begin_.clear();
  opened_.clear();
}

}  // namespace ho::cuda_double
