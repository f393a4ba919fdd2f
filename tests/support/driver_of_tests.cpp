// driver() of programs that test: the double, with this library's kernels as functions of the host.
#include <cstdio>
#include <cstdlib>

#include "cuda_double/cuda_double.hpp"
#include "cuda_kernels_on_host.hpp"
#include "device/address.hpp"
#include "device/driver.hpp"

namespace ho::device {
namespace {

void register_kernels() {
  for (const test::HostKernel& kernel : test::host_kernels()) {
    cuda_double::register_kernel(
        kernel.name,
        {kernel.argument_bytes},
        [run = kernel.run](void** arguments, const cuda_double::Translate& translate) {
          run(arguments, [&](uint64_t address) { return translate(pointer_to(address)); });
        },
        [ranges = kernel.ranges](void** arguments) {
          std::vector<cuda_double::TouchedRange> touched;
          for (const test::TouchedRange& range : ranges(arguments)) {
            touched.push_back({pointer_to(range.address), range.bytes, range.written, range.item});
          }
          return touched;
        });
  }
}

// Called once: what the environment says is for the whole program.
Driver start() {
  register_kernels();
  if (Status status = cuda_double::start_from_environment(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::exit(2);
  }
  Driver table = cuda_double::driver();
  table.host_reads = cuda_double::host_reads;
  table.host_writes = cuda_double::host_writes;
  return table;
}

}  // namespace

Result<const Driver*> driver() {
  static const Driver kTable = start();
  return &kTable;
}

}  // namespace ho::device
