#include "bench/harness/sizes.hpp"

#include "base/quantity.hpp"

namespace ho::harness {

std::optional<std::vector<SizeRun>> parse_sizes(std::string_view text, uint32_t iterations) {
  std::vector<SizeRun> runs;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const size_t colon = item.find(':');
    const auto bytes = parse_bytes(item.substr(0, colon));
    const auto count = colon == std::string_view::npos ? std::optional<uint64_t>(iterations)
                                                       : parse_bytes(item.substr(colon + 1));
    if (!bytes || !count || *count == 0 || *count > kMaxIterations) {
      return std::nullopt;
    }
    runs.push_back({*bytes, static_cast<uint32_t>(*count)});
  }
  return runs;
}

}  // namespace ho::harness
