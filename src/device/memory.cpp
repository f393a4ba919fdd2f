#include <cstring>

#include "device/address.hpp"
#include "device/device.hpp"

namespace ho::device {
namespace {

std::string amount(size_t bytes) {
  return " of " + std::to_string(bytes) + " bytes";
}

Result<unsigned> unsigned_attribute(const Device& device, int attribute, DeviceAddress address) {
  unsigned value = 0;  // some attributes are written as one byte, some as four
  HORING_TRY(device.check("cuPointerGetAttribute",
                          device.driver().pointer_attribute(&value, attribute, address)));
  return value;
}

}  // namespace

Result<PinnedMemory> PinnedMemory::create(const Device& device, size_t bytes) {
  if (bytes == 0) {
    return PinnedMemory();
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  void* memory = nullptr;
  HORING_TRY(device.check(
      "cuMemHostAlloc" + amount(bytes),
      device.driver().host_allocate(&memory, bytes, kHostAllocPortable | kHostAllocMapped)));
  std::memset(memory, 0, bytes);
  return PinnedMemory(
      Resource{device.shared_from_this(), {static_cast<std::byte*>(memory), bytes}});
}

void PinnedMemory::Resource::release() const noexcept {
  if (device->leaves(bytes.size())) {
    return;
  }
  const auto current = CurrentContext::enter(*device);
  if (current.ok()) {
    log_failure(device->check("cuMemFreeHost", device->driver().host_free(bytes.data())));
  }
}

Result<DeviceMemory> DeviceMemory::create(const Device& device, size_t bytes) {
  if (bytes == 0) {
    return DeviceMemory();
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  DeviceAddress address = 0;
  HORING_TRY(
      device.check("cuMemAlloc" + amount(bytes), device.driver().memory_allocate(&address, bytes)));
  return DeviceMemory(Resource{device.shared_from_this(), address, bytes});
}

void* DeviceMemory::pointer() const {
  return pointer_to(address());
}

void DeviceMemory::Resource::release() const noexcept {
  if (device->leaves(size)) {
    return;
  }
  const auto current = CurrentContext::enter(*device);
  if (current.ok()) {
    log_failure(device->check("cuMemFree", device->driver().memory_free(address)));
  }
}

Result<PointerFacts> facts_of(const Device& device, const void* pointer) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  const Driver& driver = device.driver();
  const DeviceAddress address = address_of(pointer);
  PointerFacts facts;
  unsigned type = 0;
  const DriverResult result = driver.pointer_attribute(&type, kPointerMemoryType, address);
  if (result == kInvalidValue) {
    return facts;
  }
  HORING_TRY(device.check("cuPointerGetAttribute", result));
  HORING_ASSIGN(const unsigned managed, unsigned_attribute(device, kPointerIsManaged, address));
  HORING_TRY(
      device.check("cuPointerGetAttribute",
                   driver.pointer_attribute(&facts.ordinal, kPointerDeviceOrdinal, address)));
  if (managed != 0) {
    facts.kind = PointerFacts::Kind::kManaged;
  } else if (type == kMemoryHost) {
    facts.kind = PointerFacts::Kind::kPinned;
  } else {
    facts.kind = PointerFacts::Kind::kDevice;
    HORING_TRY(device.check("cuMemGetAddressRange",
                            driver.address_range(&facts.base, &facts.bytes, address)));
    HORING_ASSIGN(const unsigned of_malloc,
                  unsigned_attribute(device, kPointerIsLegacyIpcCapable, address));
    facts.mapped = of_malloc == 0;
  }
  return facts;
}

Result<size_t> bytes_from(const Device& device,
                          const void* pointer,
                          const PointerFacts& facts,
                          size_t wanted) {
  const DeviceAddress begin = address_of(pointer);
  DeviceAddress end = facts.base + facts.bytes;
  bool goes_on = facts.mapped;
  while (goes_on && end - begin < wanted) {
    HORING_ASSIGN(const PointerFacts next, facts_of(device, pointer_to(end)));
    const DeviceAddress next_end = next.base + next.bytes;
    goes_on = next.kind == PointerFacts::Kind::kDevice && next.ordinal == facts.ordinal &&
              next.mapped && next_end > end;
    end = goes_on ? next_end : end;
  }
  return end - begin;
}

Status pin(const Device& device, void* memory, size_t bytes) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  constexpr unsigned kFlags = kHostRegisterPortable | kHostRegisterMapped;
  return device.check("cuMemHostRegister", device.driver().host_register(memory, bytes, kFlags));
}

Status unpin(const Device& device, void* memory) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
  return device.check("cuMemHostUnregister", device.driver().host_unregister(memory));
}

}  // namespace ho::device
