// Which known names a name that is not known may stand for. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ho {

// Edits of one character, in either case, that turn one name into the other.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The known names that are nearest, at most `most` of them, the nearest first: those that begin
// with the name or whose beginning it is, those that differ in a third of its characters at most,
// and those whose part before a separator differs in a fifth at most.
[[nodiscard]] std::vector<std::string_view> near_names(std::string_view name,
                                                       const std::vector<std::string_view>& known,
                                                       size_t most = 4);

// "; near it: h100-sxm, h100-pcie" or, where none is near, "; takes h100-sxm, .."
[[nodiscard]] std::string near_names_text(std::string_view name,
                                          const std::vector<std::string_view>& known);

}  // namespace ho
