// Files that this library writes, the one way that is safe where others may write the folder too:
// no symbolic link is followed, and nothing but a regular file is touched.
#pragma once

#include <cstdint>
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
// A log: what is written goes to its end, also what other processes write. A named pipe serves only
// where a reader may stop the writer.
enum class NamedPipe : uint8_t { kRefused, kServes };
[[nodiscard]] Result<Fd> open_log_file(const std::string& path,
                                       NamedPipe pipe = NamedPipe::kRefused);
// All of the text, to a descriptor that blocks.
[[nodiscard]] Status write_text(int fd, std::string_view text, const std::string& path);

}  // namespace ho
