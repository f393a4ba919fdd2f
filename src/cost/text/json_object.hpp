// One JSON object from a file or a caller. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ho {

inline constexpr size_t kMaxJsonBytes = size_t{256} << 10U;
inline constexpr int kMaxJsonDepth = 32;

// An object whose keys differ, and so do those of objects in it. Of equal keys the library would
// keep the last one. Text beyond kMaxJsonBytes or kMaxJsonDepth is refused: what is deep is copied
// by recursion, what is long is watched in quadratic time. `name` stands for the source in errors,
// `keys` lists what may be in it.
[[nodiscard]] Result<nlohmann::json> parse_object(std::string_view text,
                                                  std::string_view name,
                                                  std::string_view keys);

// A value as a message repeats it: not all of a long one, and on one line.
[[nodiscard]] std::string value_text(const nlohmann::json& value);

// Rates and sizes are texts with a unit; a bare number could mean anything.
[[nodiscard]] Result<double> quantity_of(const std::string& what,
                                         const nlohmann::json& value,
                                         Result<double> (*parse)(std::string_view,
                                                                 std::string_view),
                                         std::string_view example);
// A whole number from 1 on; a number above 0.
[[nodiscard]] Result<uint32_t> whole_of(const std::string& what, const nlohmann::json& value);
[[nodiscard]] Result<double> positive_of(const std::string& what, const nlohmann::json& value);
// A number from 0 to 1.
[[nodiscard]] Result<double> share_of(const std::string& what, const nlohmann::json& value);

// In a unit that reads well, where that is read as the same number; else in plain ones.
[[nodiscard]] std::string exact_rate_text(double bytes_per_s);
[[nodiscard]] std::string exact_size_text(double bytes);
[[nodiscard]] std::string exact_time_text(double seconds);

}  // namespace ho
