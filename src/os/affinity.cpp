#include "os/affinity.hpp"

#include <sched.h>

#include <cerrno>

namespace ho {

Result<std::vector<uint32_t>> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    return system_error("sched_getaffinity", errno);
  }
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

Status bind_current_thread(std::span<const uint32_t> cpus) {
  if (cpus.empty()) {
    return {StatusCode::kInvalidArgument, "binding a thread to no CPU at all"};
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const uint32_t cpu : cpus) {
    if (cpu >= CPU_SETSIZE) {
      return {StatusCode::kInvalidArgument, "CPU " + std::to_string(cpu) + " is out of range"};
    }
    CPU_SET(cpu, &set);
  }
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) {
    return system_error("sched_setaffinity", errno);
  }
  return {};
}

}  // namespace ho
