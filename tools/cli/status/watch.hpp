// What is looked at again and again: drawn in its place on a terminal, else block after block.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace ho {

// The lines of a screen of so many that the text has room for; the last one says how many it lacks.
// Pure.
[[nodiscard]] std::string cut_to_screen(const std::string& text, size_t rows);

// Until SIGINT or SIGTERM, both blocked for the rest of this process, or until `look` has nothing
// any more.
void watch(std::chrono::milliseconds every,
           const std::function<std::optional<std::string>()>& look);

}  // namespace ho
