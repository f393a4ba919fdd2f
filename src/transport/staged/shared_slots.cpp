#include "transport/staged/shared_slots.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
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
// another rank of this process makes slots or ends, else with the process.
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

std::optional<size_t> last_of(std::vector<size_t>& slots) {
  if (slots.empty()) {
    return std::nullopt;
  }
  const size_t taken = slots.back();
  slots.pop_back();
  return taken;
}

}  // namespace

Result<std::shared_ptr<PeerSlots>> PeerSlots::create(std::shared_ptr<const device::Device> device,
                                                     std::function<bool()> others_ended) {
  HORING_ASSIGN(auto memory, device::DeviceMemory::create(*device, kBytes));
  HORING_ASSIGN(const auto exported, device::export_memory(*device, memory));
  return std::make_shared<PeerSlots>(
      std::move(device), std::move(memory), exported, std::move(others_ended));
}

PeerSlots::PeerSlots(std::shared_ptr<const device::Device> device,
                     device::DeviceMemory memory,
                     const device::IpcMemory& exported,
                     std::function<bool()> others_ended)
    : device_(std::move(device)),
      memory_(std::move(memory)),
      exported_(exported),
      others_ended_(std::move(others_ended)) {
  for (size_t slot = 0; slot < kCount; ++slot) {
    (slot < kLinks ? unreserved_ : free_).push_back(slot);
  }
}

PeerSlots::~PeerSlots() {
  if (offers_ > 0) {
    retired_memory().add({std::move(memory_), others_ended_});
  }
}

// process (16 bytes), device (4), address (8), bytes (8), export (64)
std::vector<std::byte> PeerSlots::offer() const {
  ByteWriter writer;
  writer.append(this_process());
  writer.number(static_cast<uint32_t>(device_->ordinal()), sizeof(uint32_t));
  writer.number(memory_.address(), sizeof(uint64_t));
  writer.number(memory_.size(), sizeof(uint64_t));
  writer.append(std::as_bytes(std::span(exported_.reserved)));
  return writer.take();
}

std::optional<size_t> PeerSlots::reserve() {
  return last_of(unreserved_);
}

std::optional<size_t> PeerSlots::take() {
  return last_of(free_);
}

size_t SharedSlots::free_retired() {
  return retired_memory().free_unused();
}

SharedSlots::SharedSlots(GlobalRank self,
                         std::shared_ptr<const device::Device> device,
                         std::shared_ptr<const void> membership,
                         std::function<bool()> others_ended)
    : self_(self),
      device_(std::move(device)),
      membership_(std::move(membership)),
      others_ended_(std::move(others_ended)) {
  free_retired();
}

SharedSlots::~SharedSlots() {
  peers_.clear();
  own_.clear();
  membership_.reset();
  free_retired();
}

std::shared_ptr<PeerSlots> SharedSlots::for_peer(GlobalRank peer) {
  const auto [own, is_first] = own_.try_emplace(peer);
  if (!is_first || none_left_) {
    return own->second;
  }
  free_retired();
  auto made = PeerSlots::create(device_, others_ended_);
  if (made.ok()) {
    own->second = *std::move(made);
    return own->second;
  }
  none_left_ = true;  // so that this is tried and said once
  log_warn(
      "rank {} shares no device memory with rank {}, nor with others of its node to which it has "
      "not sent any yet, so that messages to them go through pinned memory: {}",
      self_.value(),
      peer.value(),
      made.status().message());
  return nullptr;
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

Status SharedSlots::open_memory(std::span<const std::byte> offer, Peer& peer) const {
  ByteReader reader(offer);
  const auto process = reader.bytes(kProcessIdBytes, "the process");
  const auto ordinal = reader.number<uint32_t>("the device");
  const auto address = reader.number<uint64_t>("the address");
  const auto bytes = reader.number<uint64_t>("the size");
  const auto exported = reader.bytes(sizeof(device::IpcMemory), "the export");
  if (reader.ok() && bytes == 0) {
    reader.fail("it has no bytes");
  }
  reader.finish();
  if (!reader.ok()) {
    return {StatusCode::kProtocol, reader.fault()};
  }
  device::DeviceAddress begin = address;
  if (is_this_process(process)) {
    HORING_TRY(reach(static_cast<int>(ordinal)));
  } else {
    device::IpcMemory memory{};
    std::memcpy(memory.reserved, exported.data(), exported.size());
    HORING_ASSIGN(device::OpenedMemory opened, device::OpenedMemory::open(*device_, memory));
    begin = opened.address();
    peer.opened.emplace(std::move(opened));
  }
  const auto* const first = static_cast<const std::byte*>(device::pointer_to(begin));
  HORING_ASSIGN(const device::PointerFacts facts, device::facts_of(*device_, first));
  if (facts.kind != device::PointerFacts::Kind::kDevice || facts.base != begin ||
      facts.bytes < bytes) {
    return {StatusCode::kUnsupported, "the driver does not show it here as it was offered"};
  }
  peer.bytes = {first, static_cast<size_t>(bytes)};
  return {};
}

Result<bool> SharedSlots::open(GlobalRank peer, std::span<const std::byte> offer) {
  const std::string whose = "rank " + std::to_string(peer.value()) + "'s device memory";
  if (const auto known = peers_.find(peer); known != peers_.end()) {
    if (!std::equal(
            offer.begin(), offer.end(), known->second.offer.begin(), known->second.offer.end())) {
      return Status(StatusCode::kProtocol, whose + ": offered otherwise on another channel");
    }
    return !known->second.bytes.empty();
  }
  Peer found{{offer.begin(), offer.end()}};
  const Status opened = open_memory(offer, found);
  if (opened.code() == StatusCode::kProtocol) {
    return opened.with_context(whose);
  }
  if (!opened.ok()) {
    found.opened.reset();  // before its owner hears of it, and frees it
    log_info("rank {} does not read {}, which comes through pinned memory: {}",
             self_.value(),
             whose,
             opened.message());
  }
  return !peers_.emplace(peer, std::move(found)).first->second.bytes.empty();
}

std::span<const std::byte> SharedSlots::of_peer(GlobalRank peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? std::span<const std::byte>() : found->second.bytes;
}

}  // namespace ho
