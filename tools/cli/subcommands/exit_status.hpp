// What a program exits with.
#pragma once

namespace ho {

inline constexpr int kUsageError = 2;  // the command line is at fault

}  // namespace ho
