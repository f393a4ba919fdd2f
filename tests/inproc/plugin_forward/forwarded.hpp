// The plugins that this suite forwards to.
#pragma once

#include <string>

namespace ho::plugin::forward_test {

[[nodiscard]] std::string file_of(const std::string& name);
// Has a table of that version only.
[[nodiscard]] std::string plugin_of(int version);
[[nodiscard]] std::string our_library();

}  // namespace ho::plugin::forward_test
