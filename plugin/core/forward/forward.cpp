#include "core/forward/forward.hpp"

#include <string>
#include <utility>

#include "abi/tables.hpp"
#include "core/forward/table_driver.hpp"

namespace ho::plugin::forward {

Result<std::unique_ptr<NetDriver>> forward_to(const std::string& name, int newest) {
  HORING_ASSIGN(NetLibrary opened, open_net_library(name, newest));
  std::unique_ptr<NetDriver> driver;
  const bool known = nccl_abi::visit_table(
      nccl_abi::NetTables(), opened.version, opened.table, [&](auto version, const auto& table) {
        driver = std::make_unique<TableDriver<typename decltype(version)::Type>>(
            std::move(opened.library), table, std::move(opened.file));
      });
  if (!known) {
    return Status(StatusCode::kInternal,
                  "net v" + std::to_string(opened.version) + " of " + name +
                      " has no driver here (plugin/abi/tables.hpp)");
  }
  return driver;
}

}  // namespace ho::plugin::forward
