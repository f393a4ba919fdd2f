#include "mapped_memory.hpp"

#include <cstring>

#include "device/address.hpp"

namespace ho::device_suite {

template <typename Function>
bool MappedMemory::take(const char* name, Function& function) const {
  void* const address = library_.find(name);
  std::memcpy(&function, &address, sizeof function);
  return address != nullptr;
}

Result<MappedMemory> MappedMemory::find() {
  MappedMemory calls;
  HORING_ASSIGN(calls.library_, SharedLibrary::open("libcuda.so.1"));
  const bool all = calls.take("cuMemGetAllocationGranularity", calls.granularity_) &&
                   calls.take("cuMemAddressReserve", calls.reserve_) &&
                   calls.take("cuMemAddressFree", calls.release_addresses_) &&
                   calls.take("cuMemCreate", calls.create_) &&
                   calls.take("cuMemRelease", calls.release_) &&
                   calls.take("cuMemMap", calls.map_) && calls.take("cuMemUnmap", calls.unmap_) &&
                   calls.take("cuMemSetAccess", calls.set_access_);
  if (!all) {
    return Status(StatusCode::kUnsupported, "this driver maps no memory");
  }
  return calls;
}

Status MappedMemory::fill(const device::Device& device,
                          device::DeviceAddress begin,
                          size_t segment,
                          size_t count) const {
  Properties properties;
  properties.location.ordinal = device.ordinal();
  for (size_t at = 0; at < count; ++at) {
    uint64_t memory = 0;
    HORING_TRY(device.check("cuMemCreate", create_(&memory, segment, &properties, 0)));
    HORING_TRY(device.check("cuMemMap", map_(begin + at * segment, segment, 0, memory, 0)));
    HORING_TRY(device.check("cuMemRelease", release_(memory)));  // when it is unmapped
  }
  Access access;
  access.location = properties.location;
  return device.check("cuMemSetAccess", set_access_(begin, count * segment, &access, 1));
}

Result<Segments> MappedMemory::map(const device::Device& device, size_t count) const {
  Properties properties;
  properties.location.ordinal = device.ordinal();
  size_t segment = 0;
  HORING_TRY(device.check("cuMemGetAllocationGranularity", granularity_(&segment, &properties, 0)));
  const size_t bytes = count * segment;
  device::DeviceAddress begin = 0;
  HORING_TRY(device.check("cuMemAddressReserve", reserve_(&begin, bytes, 0, 0, 0)));
  HORING_TRY(fill(device, begin, segment, count));
  return Segments{segment,
                  std::shared_ptr<void>(device::pointer_to(begin), [this, bytes](void* at) {
                    static_cast<void>(unmap_(device::address_of(at), bytes));
                    static_cast<void>(release_addresses_(device::address_of(at), bytes));
                  })};
}

}  // namespace ho::device_suite
