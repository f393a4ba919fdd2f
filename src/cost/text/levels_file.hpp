// A cluster of levels as a file, which the planner, the tuner, `horing doctor` and `paro plan
// --measure` share. Pure, but for reading the file.
//
//   {"levels": [{"name": "node", "size": 8, "rate": "450GB", "network": "nvlink"},
//               {"name": "pod", "size": 16, "rate": "400Gbit", "nics": 8, "network":
//               "infiniband"}],
//    "memory": "80GB"}
//
// from the innermost level outwards. A network's name fills in latency, start and shares of the
// rate; what stands beside it counts instead.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "cost/cluster.hpp"

namespace ho::cost {

struct LevelsFile {
  Cluster levels;                      // that check() accepts
  std::optional<double> memory_bytes;  // of a rank
  // Of collectives that computation hides, the share of their seconds that comes back.
  std::optional<double> slowdown;
};

// `name` stands for the file in errors.
[[nodiscard]] Result<LevelsFile> levels_of(const nlohmann::json& json, std::string_view name);
[[nodiscard]] Result<LevelsFile> parse_levels(std::string_view text, std::string_view name);
// `what` begins the error of a file that cannot be read: "--cluster".
[[nodiscard]] Result<LevelsFile> read_levels_file(std::string_view what, const std::string& path);

// What parse_levels() reads as the same levels, to the last bit. A rate without limit is left out.
[[nodiscard]] std::string levels_text(const LevelsFile& file);

// All that decisions go by, for those who must decide the same to compare: a text for each kind of
// value, with that of every level ("rates": "450GB, 50GB"), exact, on one line and at most
// kMaxComparedBytes long. Long tables are told by their digest.
struct ComparedField {
  std::string name;
  std::string value;
};
inline constexpr size_t kMaxComparedBytes = 120;
[[nodiscard]] std::vector<ComparedField> compared_fields(const Cluster& levels);

inline constexpr size_t kMaxLevelsFileBytes = size_t{1} << 20U;

}  // namespace ho::cost
