#include "core/forward/net_library.hpp"

#include <spdlog/fmt/fmt.h>

#include <string_view>

#include "abi/releases.hpp"
#include "base/env.hpp"

namespace ho::plugin::forward {
namespace {

// Versions that NCCL still takes and we do not.
constexpr int kOldestKnown = 5;

Status refused(const std::string& name, const std::string& why) {
  return invalid(fmt::format("{}={}: {}", env::kNetForward.name, name, why));
}

std::string symbol_of(int version) {
  return fmt::format("ncclNetPlugin_v{}", version);
}

std::string why_no_table(const NetLibrary& opened, int newest) {
  for (int version = nccl_abi::kOldestNet - 1; version >= kOldestKnown; --version) {
    if (opened.library.find(symbol_of(version)) != nullptr) {
      return fmt::format(
          "has a net plugin of version {}, and version {} is the oldest that can be "
          "forwarded to; install a newer release of it",
          version,
          nccl_abi::kOldestNet);
    }
  }
  return fmt::format("has none of {} to {}, so it is no net plugin of NCCL's",
                     symbol_of(newest),
                     symbol_of(nccl_abi::kOldestNet));
}

bool is_ourselves(const void* table) {
  static const char here = 0;
  const void* const base = loaded_from(&here).base;
  return base != nullptr && loaded_from(table).base == base;
}

}  // namespace

std::vector<std::string> files_of(const std::string& name) {
  const bool is_library =
      std::string_view(name).starts_with("lib") && std::string_view(name).ends_with(".so");
  if (is_library || name.find('/') != std::string::npos) {
    return {name};
  }
  return {name, "libnccl-net-" + name + ".so"};
}

Result<NetLibrary> open_net_library(const std::string& name, int newest) {
  NetLibrary opened;
  std::string failures;
  for (const std::string& file : files_of(name)) {
    Result<SharedLibrary> library = SharedLibrary::open(file);
    if (library.ok()) {
      opened.library = *std::move(library);
      opened.file = file;
      break;
    }
    if (library.status().code() == StatusCode::kInvalidArgument) {  // a file that ends the search
      return refused(name, library.status().message());
    }
    failures += (failures.empty() ? "" : "; ") + library.status().message();
  }
  if (opened.file.empty()) {
    return refused(name,
                   "no such plugin can be opened: " + failures +
                       "; give its path, or put its folder into LD_LIBRARY_PATH");
  }
  for (int version = newest; version >= nccl_abi::kOldestNet && opened.table == nullptr;
       --version) {
    opened.table = opened.library.find(symbol_of(version));
    opened.version = version;
  }
  if (opened.table == nullptr) {
    return refused(name, opened.file + " " + why_no_table(opened, newest));
  }
  if (const std::string file = loaded_from(opened.table).file; !file.empty()) {
    opened.file = file;
  }
  if (is_ourselves(opened.table)) {
    return refused(name,
                   opened.file +
                       " is this plugin itself; name the one that is to move the data, "
                       "or unset the variable");
  }
  return opened;
}

}  // namespace ho::plugin::forward
