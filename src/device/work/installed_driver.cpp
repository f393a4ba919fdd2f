// The driver of the machine. In a library of its own: programs that test have another one.
#include "device/driver_loader.hpp"
#include "device/kernels/image.hpp"

namespace ho::device {

Result<const Driver*> driver() {
  // Kept to the end of the process: other libraries' destructors may still use the driver.
  static const auto* const loaded_driver = [] {
    auto loaded =
        std::make_unique<Result<std::unique_ptr<LoadedDriver>>>(load_driver("libcuda.so.1"));
    if (loaded->ok()) {
      loaded->value()->table.kernels = embedded_kernels();
    }
    return loaded.release();
  }();
  if (!loaded_driver->ok()) {
    return loaded_driver->status();
  }
  return &loaded_driver->value()->table;
}

}  // namespace ho::device
