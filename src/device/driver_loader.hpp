// Loads a CUDA driver from a file. Apart from driver(), tests alone need it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "device/driver.hpp"
#include "os/shared_library.hpp"

namespace ho::device {

// A call of the table as the driver is asked for it.
struct DriverCall {
  const char* name;  // "cuMemAlloc"
  // The CUDA version that brought the signature which Driver declares (12040: 12.4). cuda.h renames
  // several calls to that version's (cuMemAlloc to cuMemAlloc_v2); the driver does it for whoever
  // asks for a version.
  int version;
  void (*set)(Driver& table, void* address);
};
[[nodiscard]] std::span<const DriverCall> driver_calls();

struct LoadedDriver {
  SharedLibrary library;
  Driver table;
};
// `file` as SharedLibrary::open has it. The errors are driver()'s.
[[nodiscard]] Result<std::unique_ptr<LoadedDriver>> load_driver(const std::string& file);

}  // namespace ho::device
