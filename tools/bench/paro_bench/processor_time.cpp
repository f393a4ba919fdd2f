#include "bench/paro_bench/processor_time.hpp"

#include <array>
#include <charconv>
#include <fstream>
#include <numeric>
#include <string>

namespace paro::bench {
namespace {

constexpr std::string_view kAllProcessors = "cpu ";
// user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user and nice already.
constexpr size_t kTickKinds = 8;
constexpr size_t kIdle = 3;
constexpr size_t kWaitingForDisk = 4;
// Of a hundredth of a second each, all processors together: less has no meaning.
constexpr uint64_t kFewestTicks = 20;

}  // namespace

std::optional<ProcessorTime> parse_processor_time(std::string_view stat) {
  if (!stat.starts_with(kAllProcessors)) {
    return std::nullopt;
  }
  std::array<uint64_t, kTickKinds> ticks{};
  const char* at = stat.data() + kAllProcessors.size();
  const char* const end = stat.data() + stat.size();
  for (uint64_t& field : ticks) {
    while (at != end && *at == ' ') {
      ++at;
    }
    const auto [after, error] = std::from_chars(at, end, field);
    if (error != std::errc()) {
      return std::nullopt;
    }
    at = after;
  }
  const uint64_t all = std::accumulate(ticks.begin(), ticks.end(), uint64_t{0});
  return ProcessorTime{all - ticks[kIdle] - ticks[kWaitingForDisk], all};
}

std::optional<ProcessorTime> processor_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  return std::getline(file, line) ? parse_processor_time(line) : std::nullopt;
}

std::optional<double> busy_share(const std::optional<ProcessorTime>& before,
                                 const std::optional<ProcessorTime>& after) {
  if (!before || !after || after->all < before->all + kFewestTicks || after->busy < before->busy) {
    return std::nullopt;
  }
  return static_cast<double>(after->busy - before->busy) /
         static_cast<double>(after->all - before->all);
}

}  // namespace paro::bench
