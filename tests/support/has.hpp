// Whether a text or an error's message has some words; what it is instead is told with the next
// failed check. On any thread: what ranks of threads ask is told by nobody, since Catch keeps what
// is to be told without a lock.
#pragma once

#include <string>
#include <string_view>
#include <thread>

#include "base/status.hpp"
#include "catch.hpp"

inline const std::thread::id kThreadOfChecks = std::this_thread::get_id();  // main()'s

inline bool has(std::string_view text, std::string_view words) {
  if (std::this_thread::get_id() == kThreadOfChecks) {
    UNSCOPED_INFO("'" << text << "' has '" << words << "'");
  }
  return text.find(words) != std::string_view::npos;
}

inline bool has(const ho::Status& status, std::string_view words) {
  return has(status.message(), words);
}
