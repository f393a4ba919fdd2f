#include "topo/binding.hpp"

#include <algorithm>
#include <set>

#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr uint32_t kMaxCpus = 65536;

Status bad_list(std::string_view text) {
  return invalid("CPU list '" + std::string(text) + "': write numbers and ranges, such as 4-7,9");
}

bool parse_cpu(std::string_view text, uint32_t& cpu) {
  cpu = whole_number<uint32_t>(text).value_or(kMaxCpus);
  return cpu < kMaxCpus;
}

}  // namespace

Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text) {
  std::set<uint32_t> cpus;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view range = rest.substr(0, comma);
    const size_t dash = range.find('-');
    uint32_t first = 0;
    uint32_t last = 0;
    if (!parse_cpu(range.substr(0, dash), first)) {
      return bad_list(text);
    }
    last = first;
    if (dash != std::string_view::npos &&
        (!parse_cpu(range.substr(dash + 1), last) || last < first)) {
      return bad_list(text);
    }
    for (uint32_t cpu = first; cpu <= last; ++cpu) {
      cpus.insert(cpu);
    }
    if (comma == std::string_view::npos) {
      return std::vector<uint32_t>(cpus.begin(), cpus.end());
    }
    rest.remove_prefix(comma + 1);
  }
}

Result<std::vector<uint32_t>> progress_cpus(std::string_view setting,
                                            std::span<const NumaNode> nodes,
                                            int32_t nic_numa_node,
                                            std::span<const uint32_t> allowed) {
  std::vector<uint32_t> cpus;
  if (setting.empty() || setting == "none") {
    return cpus;
  }
  const std::set<uint32_t> permitted(allowed.begin(), allowed.end());
  if (setting == "auto") {
    for (const NumaNode& node : nodes) {
      if (nodes.size() > 1 && nic_numa_node >= 0 &&
          node.os_index == static_cast<uint32_t>(nic_numa_node)) {
        std::ranges::copy_if(
            node.cpus, std::back_inserter(cpus), [&](uint32_t c) { return permitted.contains(c); });
      }
    }
    return cpus;
  }
  auto listed = parse_cpu_list(setting);
  if (!listed.ok()) {
    return listed.status().with_context("HORING_PROGRESS_CPU");
  }
  std::ranges::copy_if(
      *listed, std::back_inserter(cpus), [&](uint32_t c) { return !permitted.contains(c); });
  if (!cpus.empty()) {
    return invalid("HORING_PROGRESS_CPU=" + std::string(setting) +
                   ": this process may not use CPU " + ranges_text(cpus) + ", only " +
                   ranges_text(allowed) + "; take some of those, auto or none");
  }
  return listed;
}

}  // namespace ho
