// Files that this library writes, the one way that is safe where others may write the folder too:
// no symbolic link is followed, and nothing but a regular file is touched.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

// Whether replace_file() could do its work; changes nothing. The path has to be a regular file, or
// nothing; the error says what is there.
[[nodiscard]] Status check_replaceable(const std::string& path);
// Makes `text` the whole of the file: readers see the old one or the new one. It is written under a
// fresh name beside it, which begins with the file's own and does not end in it.
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text);
// The same in two steps, for who has more to do than to replace: a file beside it under that fresh
// name, to be written and then put in its place or removed.
struct FreshFile {
  Fd fd;
  std::string path;
};
[[nodiscard]] Result<FreshFile> make_beside(const std::string& path, mode_t mode);
// A log: what is written goes to its end, also what other processes write.
[[nodiscard]] Result<Fd> open_log_file(const std::string& path);
// All of the text, to a descriptor that blocks.
[[nodiscard]] Status write_text(int fd, std::string_view text, const std::string& path);

}  // namespace ho
