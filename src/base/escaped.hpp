// Text from outside (an option, a variable, a file) on its way into a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ho {

inline constexpr size_t kMaxEscapedBytes = 256;

// The text so that it can neither drive a terminal nor forge a line of a log: control characters as
// "\x1b", bytes above ASCII as they are, and of a long text the beginning, the end and its length.
[[nodiscard]] std::string escaped(std::string_view text, size_t most_bytes = kMaxEscapedBytes);

// Whether it has none of these; line ends and tabs are none.
[[nodiscard]] bool is_printable_text(std::string_view text);

// The same for a whole message: line ends and tabs stay, and words of more than 512 bytes are cut.
// Errors that invalid() and system_error() make, and lines of the log, have gone through it.
[[nodiscard]] std::string message_text(const std::string& text);

}  // namespace ho
