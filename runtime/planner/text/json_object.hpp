// One JSON object from a file or a caller. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace paro {

// An object whose keys differ. Of equal keys the library would keep the last one. `name` stands for
// the source in errors, `keys` lists what may be in it.
[[nodiscard]] ho::Result<nlohmann::json> parse_object(std::string_view text,
                                                      std::string_view name,
                                                      std::string_view keys);

// A value as a message repeats it: not all of a long one, and on one line.
[[nodiscard]] std::string to_string(const nlohmann::json& value);

}  // namespace paro
