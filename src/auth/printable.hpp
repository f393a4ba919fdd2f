// Text from a peer on its way into a message or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ho {

// At most `max_bytes` of `text`, every byte outside printable ASCII replaced by '?': a peer's text
// can neither forge log lines nor drive a terminal.
[[nodiscard]] std::string printable(std::string_view text, size_t max_bytes);

// `text` where it has at most `max_bytes` (at least 8), else its beginning, "..." and more of its
// end: long names of hosts and jobs differ mostly there.
[[nodiscard]] std::string shortened(std::string_view text, size_t max_bytes);

}  // namespace ho
