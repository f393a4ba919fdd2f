// The double does what docs/design/device.md says of CUDA: the probes for a GPU, run on it.
#include "assumptions.hpp"

#include <cstring>

#include "on_double.hpp"

namespace ho::test {
namespace {

void register_store() {
  cuda_double::register_kernel(
      "probe_store",
      {sizeof(void*), sizeof(uint32_t)},
      [](void** arguments, const cuda_double::Translate& translate) {
        void* const at_index = translate(*static_cast<void**>(arguments[0]));
        std::memcpy(at_index, arguments[1], sizeof(uint32_t));
      },
      [](void** arguments) -> std::vector<cuda_double::TouchedRange> {
        return {{*static_cast<void**>(arguments[0]), sizeof(uint32_t), true}};
      });
}

}  // namespace

TEST_CASE("The double does what every probe expects of a GPU") {
  register_store();
  std::vector<std::string> not_probed;
  for (const device_suite::Probe& probe : device_suite::probes()) {
    for (const auto& config : every_mode()) {
      // One channel is what CUDA_DEVICE_MAX_CONNECTIONS=1 does: a stream that is held holds others.
      if (config.channels != 0) {
        continue;
      }
      INFO(probe.name << ", " << to_string(config));
      const OnDouble on(config);
      device_suite::Bench bench;
      bench.device = on.device;
      bench.bytes = 5000;
      bench.second = must(device::Device::open(cuda_double::driver(), 1));
      bench.image = cuda_double::driver().kernels.data();
      bench.capture = [](device::StreamHandle stream, bool begins) {
        if (begins) {
          cuda_double::begin_capture(stream);
          return Status();
        }
        return cuda_double::end_capture(stream) ? Status() : Status(StatusCode::kSystem, "spoiled");
      };
      bench.map_segments = [](size_t segments) {
        constexpr size_t kSegmentBytes = 1024;
        const auto address = cuda_double::map_segments(segments * kSegmentBytes, kSegmentBytes);
        return Result<device_suite::Segments>(device_suite::Segments{
            kSegmentBytes, std::shared_ptr<void>(device::pointer_to(address), [](void* memory) {
              cuda_double::unmap(device::address_of(memory));
            })});
      };
      const Status status = probe.run(bench);
      CHECK(nothing_violated());
      if (status.code() == StatusCode::kUnsupported) {
        not_probed.emplace_back(probe.name);
        continue;
      }
      INFO(status.to_string());
      CHECK(status.ok());
    }
  }
  // They need another process, which the double's own tests have.
  CHECK(not_probed == std::vector<std::string>{"memory_of_another_process",
                                               "memory_of_another_process",
                                               "memory_of_another_process",
                                               "a_fault_loses_the_context",
                                               "a_fault_loses_the_context",
                                               "a_fault_loses_the_context"});
}

}  // namespace ho::test
