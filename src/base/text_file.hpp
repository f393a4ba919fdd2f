// Reads a file that a user named: a group file, a cluster file.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace ho {

// The whole of a regular file of at most `most_bytes`. Refused are a pipe, for which opening could
// wait for ever, a device, which need not end, and a folder. The error has the reason without the
// path: callers add the path and what the file is for.
[[nodiscard]] Result<std::string> read_text_file(const std::string& path, size_t most_bytes);

}  // namespace ho
