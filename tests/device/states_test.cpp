// Operations on states on a real GPU against the host's. Exits with 77 and one line where there is
// no GPU, or no kernels in this build.
#include <cstdio>

#include "state_cases.hpp"

namespace {

constexpr int kSkipped = 77;

int skipped(const ho::Status& status) {
  std::printf("states: %s\n", status.to_string().c_str());
  return status.code() == ho::StatusCode::kUnsupported ? kSkipped : 1;
}

}  // namespace

int main() {
  const auto driver = ho::device::driver();
  if (!driver.ok()) {
    return skipped(driver.status());
  }
  const auto device = ho::device::Device::open(**driver, 0);
  if (!device.ok()) {
    return skipped(device.status());
  }
  const auto stream = ho::device::Stream::create(**device);
  if (!stream.ok()) {
    return skipped(stream.status());
  }
  const auto memory = paro::DeviceStateMemory::create(*device, stream->handle());
  if (!memory.ok()) {
    return skipped(memory.status());
  }
  int failures = 0;
  for (const paro::device_suite::StateCase& one : paro::device_suite::state_cases()) {
    const std::string difference = one.run(**memory);
    if (!difference.empty()) {
      std::printf("FAILED: %s: %s\n", one.name, difference.c_str());
      ++failures;
    }
  }
  std::printf("states: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
