// How busy this machine's processors were: where they have no time left, what is measured is they.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paro::bench {

// Of all processors since the machine started, in the clock ticks of proc(5).
struct ProcessorTime {
  uint64_t busy = 0;
  uint64_t all = 0;
};

// The text of /proc/stat; nothing where that is not what it should be.
[[nodiscard]] std::optional<ProcessorTime> parse_processor_time(std::string_view stat);
// Nothing where the system does not report it.
[[nodiscard]] std::optional<ProcessorTime> processor_time();
// Between two such times, 0 to 1. Nothing where one is not known, or too little time has passed.
[[nodiscard]] std::optional<double> busy_share(const std::optional<ProcessorTime>& before,
                                               const std::optional<ProcessorTime>& after);

}  // namespace paro::bench
