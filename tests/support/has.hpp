// Whether a text or an error's message has some words; what it is instead is told with the next
// failed check.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "catch.hpp"

inline bool has(std::string_view text, std::string_view words) {
  UNSCOPED_INFO("'" << text << "' has '" << words << "'");
  return text.find(words) != std::string_view::npos;
}

inline bool has(const ho::Status& status, std::string_view words) {
  return has(status.message(), words);
}
