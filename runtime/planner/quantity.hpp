// Quantities as people read them, to three digits. Pure.
#pragma once

#include <string>

namespace paro {

[[nodiscard]] std::string bytes_text(double bytes);      // "63.4 GB"
[[nodiscard]] std::string count_text(double count);      // "7 billion"
[[nodiscard]] std::string seconds_text(double seconds);  // "1.24 s", "12.1 ms"

}  // namespace paro
