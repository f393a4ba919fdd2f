// The files of tables/, which embed.py writes into the program.
#pragma once

#include <span>
#include <string_view>

namespace paro::tool {

struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};

[[nodiscard]] std::span<const EmbeddedFile> embedded_tables();

}  // namespace paro::tool
