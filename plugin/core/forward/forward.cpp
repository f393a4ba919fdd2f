#include "core/forward/forward.hpp"

#include <utility>

#include "core/forward/table_driver.hpp"

namespace ho::plugin::forward {
namespace {

template <typename Net>
std::unique_ptr<NetDriver> driver_of(NetLibrary opened) {
  auto& table = *static_cast<Net*>(opened.table);
  return std::make_unique<TableDriver<Net>>(
      std::move(opened.library), table, std::move(opened.file));
}

}  // namespace

Result<std::unique_ptr<NetDriver>> forward_to(const std::string& name, int newest) {
  HORING_ASSIGN(NetLibrary opened, open_net_library(name, newest));
  switch (opened.version) {
    case 8:
      return driver_of<nccl_abi::v8::Net>(std::move(opened));
    case 9:
      return driver_of<nccl_abi::v9::Net>(std::move(opened));
    case 10:
      return driver_of<nccl_abi::v10::Net>(std::move(opened));
    case 11:
      return driver_of<nccl_abi::v11::Net>(std::move(opened));
    default:
      return driver_of<nccl_abi::v12::Net>(std::move(opened));
  }
}

}  // namespace ho::plugin::forward
