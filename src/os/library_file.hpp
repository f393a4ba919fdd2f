// The file of a library before it is loaded. The loader opens and reads whatever it is given: with
// a named pipe or a terminal it waits for ever. It maps a library without comparing it with its
// file's length: what lies beyond the end kills the process (SIGBUS) at the first access. No code
// of ours could report either.
#pragma once

#include <string>

#include "base/status.hpp"

namespace ho {

// The file that dlopen, called from the library or program that this code is in, takes for `name`:
// `name` itself where it has a slash, else the first in the loader's folders and cache. "": none is
// found, or only the loader can tell (a library that is open already, $ORIGIN in the name).
[[nodiscard]] std::string find_library(const std::string& name);

// kInvalidArgument: a named pipe. kSystem: a folder or a device. What cannot be opened, as a
// socket, dlopen itself answers.
[[nodiscard]] Status check_file_kind(const std::string& path);

// kInvalidArgument: the file is shorter than what it says is to be mapped. All else that may be
// wrong with a file, down to its not being there, dlopen itself answers.
[[nodiscard]] Status check_library_file(const std::string& path);

}  // namespace ho
