// The text format of a job-key file, separate from reading it.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.hpp"

namespace ho {

inline constexpr size_t kMinSecretBytes = 16;
inline constexpr size_t kMaxSecretBytes = 4096;

// The secret in a key file's contents: its first line without blanks at either end. The rest of
// the file is ignored. The view points into `contents`.
[[nodiscard]] Result<std::string_view> secret_in_key_file(std::string_view contents);

}  // namespace ho
