// Finds where an XML file is damaged. hwloc returns "invalid argument" to any of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ho {

// Nothing for text whose elements open and close as they should and whose root is <topology>;
// else the first fault with its line: "line 12: </object> closes <info> of line 11".
[[nodiscard]] std::optional<std::string> xml_fault(std::string_view text);

}  // namespace ho
