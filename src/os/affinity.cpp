#include "os/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace ho {
namespace {

constexpr uint32_t kMaxCpus = 65536;

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeCpuSet>;

}  // namespace

Result<std::vector<uint32_t>> allowed_cpus() {
  // The kernel refuses a set that is smaller than its own: grow until it fits.
  for (uint32_t count = 1024; count <= kMaxCpus; count *= 2) {
    const CpuSet set(CPU_ALLOC(count));
    const size_t bytes = CPU_ALLOC_SIZE(count);
    if (set == nullptr) {
      return Status(StatusCode::kOutOfMemory, "a CPU set for sched_getaffinity");
    }
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) {
        continue;
      }
      return system_error("sched_getaffinity()", errno);
    }
    std::vector<uint32_t> cpus;
    for (uint32_t cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) {
        cpus.push_back(cpu);
      }
    }
    return cpus;
  }
  return system_error("sched_getaffinity() with room for 65536 CPUs", EINVAL);
}

Status bind_current_thread(std::span<const uint32_t> cpus) {
  if (cpus.empty()) {
    return {};
  }
  const uint32_t highest = *std::ranges::max_element(cpus);
  if (highest >= kMaxCpus) {
    return invalid("CPU " + std::to_string(highest) + " does not exist");
  }
  const CpuSet set(CPU_ALLOC(highest + 1));
  const size_t bytes = CPU_ALLOC_SIZE(highest + 1);
  if (set == nullptr) {
    return {StatusCode::kOutOfMemory, "a CPU set for sched_setaffinity"};
  }
  CPU_ZERO_S(bytes, set.get());
  for (const uint32_t cpu : cpus) {
    CPU_SET_S(cpu, bytes, set.get());
  }
  if (sched_setaffinity(0, bytes, set.get()) != 0) {
    return system_error("sched_setaffinity()", errno);
  }
  return {};
}

}  // namespace ho
