#include "transport/staged/shared_slots.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "device/address.hpp"
#include "os/random_bytes.hpp"

namespace ho {
namespace {

constexpr size_t kProcessIdBytes = 16;
using ProcessId = std::array<std::byte, kProcessIdBytes>;

// Numbers of processes are not enough: containers have their own. A forked process is another one.
ProcessId this_process() {
  static std::mutex mutex;
  static pid_t drawn_by = 0;
  static ProcessId id{};
  const std::lock_guard lock(mutex);
  if (drawn_by != ::getpid()) {
    drawn_by = ::getpid();
    if (Status status = fill_random(id); !status.ok()) {
      log_warn("{}", status.message());
      id = {};  // as if every rank had a process of its own
    }
  }
  return id;
}

bool is_this_process(std::span<const std::byte> id) {
  const ProcessId own = this_process();
  return own != ProcessId{} && std::equal(id.begin(), id.end(), own.begin(), own.end());
}

// Memory of ranks that have ended here before others have: these may still have it open. Freed when
// another rank of this process begins or ends, else with the process.
struct Retired {
  device::DeviceMemory memory;
  std::function<bool()> others_ended;
};

class RetiredMemory {
 public:
  void add(Retired retired) {
    const std::lock_guard lock(mutex_);
    list_.push_back(std::move(retired));
  }
  size_t free_unused() {
    const std::lock_guard lock(mutex_);
    std::erase_if(list_, [](const Retired& retired) { return retired.others_ended(); });
    return list_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<Retired> list_;
};

RetiredMemory& retired_memory() {
  static auto* const memory = std::make_unique<RetiredMemory>().release();  // never ended
  return *memory;
}

}  // namespace

size_t SharedSlots::free_retired() {
  return retired_memory().free_unused();
}

SharedSlots::SharedSlots(std::shared_ptr<const device::Device> device,
                         size_t peers,
                         std::shared_ptr<const void> membership,
                         std::function<bool()> others_ended)
    : device_(std::move(device)),
      membership_(std::move(membership)),
      others_ended_(std::move(others_ended)) {
  free_retired();
  if (Status status = allocate(peers); !status.ok()) {
    why_not_ = status.message();
    memory_ = {};
  }
}

Status SharedSlots::allocate(size_t peers) {
  const size_t slots = peers * kSlotsPerPeer;
  HORING_ASSIGN(memory_, device::DeviceMemory::create(*device_, slots * kSlotBytes));
  if (slots > 0) {
    HORING_ASSIGN(exported_, device::export_memory(*device_, memory_));
  }
  for (size_t slot = 0; slot < slots; ++slot) {
    (slot < peers * kLinksPerPeer ? unreserved_ : free_).push_back(slot);
  }
  return {};
}

SharedSlots::~SharedSlots() {
  peers_.clear();
  if (memory_.size() > 0) {
    retired_memory().add({std::move(memory_), others_ended_});
  }
  membership_.reset();
  free_retired();
}

// process (16 bytes), device (4), address (8), bytes (8), export (64)
std::vector<std::byte> SharedSlots::offer() const {
  if (memory_.size() == 0) {
    return {};
  }
  ByteWriter writer;
  writer.append(this_process());
  writer.number(static_cast<uint32_t>(device_->ordinal()), sizeof(uint32_t));
  writer.number(memory_.address(), sizeof(uint64_t));
  writer.number(memory_.size(), sizeof(uint64_t));
  writer.append(std::as_bytes(std::span(exported_.reserved)));
  return writer.take();
}

Status SharedSlots::reach(int ordinal) const {
  if (ordinal == device_->ordinal()) {
    return {};
  }
  HORING_ASSIGN(const auto other, device::Device::open(device_->driver(), ordinal));
  HORING_ASSIGN(const bool reaches, device::enable_access(*device_, *other));
  return reaches ? Status()
                 : Status(StatusCode::kUnsupported,
                          "device " + std::to_string(device_->ordinal()) +
                              " does not reach device " + std::to_string(ordinal));
}

Status SharedSlots::open(GlobalRank peer, std::span<const std::byte> offer) {
  if (offer.empty()) {
    return {StatusCode::kUnsupported, "it has no device memory to share"};
  }
  ByteReader reader(offer);
  const auto process = reader.bytes(kProcessIdBytes, "the process");
  const auto ordinal = reader.number<uint32_t>("the device");
  const auto address = reader.number<uint64_t>("the address");
  const auto bytes = reader.number<uint64_t>("the size");
  const auto exported = reader.bytes(sizeof(device::IpcMemory), "the export");
  reader.finish();
  if (!reader.ok()) {
    return {StatusCode::kProtocol, "device memory of the node: " + reader.fault()};
  }
  Peer found;
  device::DeviceAddress begin = address;
  if (is_this_process(process)) {
    HORING_TRY(reach(static_cast<int>(ordinal)));
  } else {
    device::IpcMemory memory{};
    std::memcpy(memory.reserved, exported.data(), exported.size());
    HORING_ASSIGN(device::OpenedMemory opened, device::OpenedMemory::open(*device_, memory));
    found.opened.emplace(std::move(opened));
    begin = found.opened->address();
  }
  const auto* const first = static_cast<const std::byte*>(device::pointer_to(begin));
  HORING_ASSIGN(const device::PointerFacts facts, device::facts_of(*device_, first));
  if (facts.kind != device::PointerFacts::Kind::kDevice || facts.base != begin ||
      facts.bytes < bytes) {
    return {StatusCode::kUnsupported, "the driver does not show it here as it was offered"};
  }
  found.bytes = {first, static_cast<size_t>(bytes)};
  peers_.emplace(peer, std::move(found));
  return {};
}

std::span<const std::byte> SharedSlots::of_peer(GlobalRank peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? std::span<const std::byte>() : found->second.bytes;
}

namespace {

std::optional<size_t> last_of(std::vector<size_t>& slots) {
  if (slots.empty()) {
    return std::nullopt;
  }
  const size_t taken = slots.back();
  slots.pop_back();
  return taken;
}

}  // namespace

std::optional<size_t> SharedSlots::reserve() {
  return last_of(unreserved_);
}

std::optional<size_t> SharedSlots::take() {
  return last_of(free_);
}

}  // namespace ho
