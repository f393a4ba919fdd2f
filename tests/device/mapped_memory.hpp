// Memory of a GPU that is mapped in segments, by calls that the library itself does not make.
#pragma once

#include "assumptions.hpp"
#include "os/shared_library.hpp"

namespace ho::device_suite {

class MappedMemory {
 public:
  // kUnsupported: this driver has no such calls.
  static Result<MappedMemory> find();
  // As many allocations of the least size, one after the other. They must not outlive this.
  [[nodiscard]] Result<Segments> map(const device::Device& device, size_t count) const;

 private:
  // cuda.h's CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
  struct Location {
    int type = 1;  // a device
    int ordinal = 0;
  };
  struct Properties {
    int type = 1;  // pinned
    int handle_types = 0;
    Location location;
    void* meta_data = nullptr;
    unsigned char flags[8] = {};
  };
  struct Access {
    Location location;
    int flags = 3;  // read and write
  };
  static_assert(sizeof(Properties) == 32 && sizeof(Access) == 12);
  using Code = device::DriverResult;

  template <typename Function>
  [[nodiscard]] bool take(const char* name, Function& function) const;
  [[nodiscard]] Status fill(const device::Device& device,
                            device::DeviceAddress begin,
                            size_t segment,
                            size_t count) const;

  SharedLibrary library_;
  Code (*granularity_)(size_t*, const Properties*, int option) = nullptr;
  Code (*reserve_)(device::DeviceAddress*, size_t, size_t, device::DeviceAddress, uint64_t) =
      nullptr;
  Code (*release_addresses_)(device::DeviceAddress, size_t) = nullptr;
  Code (*create_)(uint64_t*, size_t, const Properties*, uint64_t) = nullptr;
  Code (*release_)(uint64_t) = nullptr;
  Code (*map_)(device::DeviceAddress, size_t, size_t, uint64_t, uint64_t) = nullptr;
  Code (*unmap_)(device::DeviceAddress, size_t) = nullptr;
  Code (*set_access_)(device::DeviceAddress, size_t, const Access*, size_t) = nullptr;
};

}  // namespace ho::device_suite
