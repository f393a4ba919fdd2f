// What a program exits with.
#pragma once

#include <optional>

namespace ho {

inline constexpr int kUsageError = 2;  // the command line is at fault

// What the command line has, or the status to exit with (usage or an error was printed: 0 help).
template <typename Options>
struct Parsed {
  Options options;
  std::optional<int> exit_status;
};

}  // namespace ho
