#include "device/kernels/image.hpp"

#ifdef HORING_EMBEDDED_KERNELS
// Of the file that compile_kernels.py writes.
extern "C" {
extern const std::byte horing_kernels_begin[];
extern const std::byte horing_kernels_end[];
}
#endif

namespace ho::device {

std::span<const std::byte> embedded_kernels() {
#ifdef HORING_EMBEDDED_KERNELS
  return {horing_kernels_begin, horing_kernels_end};
#else
  return {};
#endif
}

}  // namespace ho::device
