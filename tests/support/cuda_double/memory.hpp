// Memory as the double has it. A device's lies in a memfd that is mapped twice: where the caller
// sees it nothing may be touched; the alias is what work uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "clock.hpp"
#include "device/driver.hpp"

namespace ho::cuda_double {

enum class MemoryKind : uint8_t { kDevice, kPinned, kManaged, kOpened };

struct Region {
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  // Work that is under way is done. The caller's addresses stay reserved and untouchable, so that
  // what uses them afterwards is found out.
  void end(uint64_t by_call);
  [[nodiscard]] bool ended() const { return freed_by != 0; }
  // Of opened memory: whether the process that exported it has freed it.
  [[nodiscard]] bool exporter_freed() const;
  [[nodiscard]] bool is_device() const {
    return kind == MemoryKind::kDevice || kind == MemoryKind::kOpened;
  }

  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  uintptr_t begin = 0;
  size_t bytes = 0;
  size_t segment_bytes = 0;  // kDevice: as the driver tells it; 0: it is one allocation
  std::byte* alias = nullptr;
  int fd = -1;            // kDevice
  uint64_t freed_by = 0;  // number of the call; 0: it lives
  size_t opened = 0;      // kOpened: how often
  AccessHistory history;

 private:
  friend struct RegionMaker;
  struct Header {
    std::atomic<uint32_t> freed;
  };
  size_t mapped_ = 0;          // bytes at begin
  std::byte* file_ = nullptr;  // header page and alias
  size_t file_bytes_ = 0;
};

// What an IpcMemory of the double holds.
struct IpcFile {
  char magic[8];
  int32_t pid;
  int32_t fd;
  uint64_t inode;
  uint64_t bytes;
  int64_t device;
};
static_assert(sizeof(IpcFile) <= sizeof(device::IpcMemory));

// Null where the system has no memory left. Filled with what no test takes for a result, or zeros
// that take up no memory.
[[nodiscard]] std::shared_ptr<Region> make_device_region(size_t bytes, bool filled);
[[nodiscard]] std::shared_ptr<Region> make_host_region(size_t bytes);
[[nodiscard]] device::IpcMemory export_region(const Region& region);
[[nodiscard]] std::optional<IpcFile> read_ipc(const device::IpcMemory& memory);
// Null where the exporter is gone or has freed it.
[[nodiscard]] std::shared_ptr<Region> open_region(const IpcFile& file);

// All memory that lives or lived, by address.
class Regions {
 public:
  void add(const std::shared_ptr<Region>& region) { by_begin_[region->begin] = region; }
  // Registered memory is the caller's own: nothing of it is remembered.
  void remove(uintptr_t begin) { by_begin_.erase(begin); }
  // The one that holds the address, freed or not; null: ordinary memory.
  [[nodiscard]] std::shared_ptr<Region> find(uintptr_t address) const;
  [[nodiscard]] size_t living(MemoryKind kind) const;
  [[nodiscard]] size_t living_bytes(int device) const;
  [[nodiscard]] std::shared_ptr<Region> find_opened(const IpcFile& file) const;
  void note_opened(const IpcFile& file, const std::shared_ptr<Region>& region);
  void clear();

 private:
  std::map<uintptr_t, std::shared_ptr<Region>> by_begin_;
  std::map<std::pair<int32_t, uint64_t>, std::shared_ptr<Region>> opened_;  // by process and inode
};

}  // namespace ho::cuda_double
