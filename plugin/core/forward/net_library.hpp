// Another net plugin's library, found as NCCL finds one.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "os/shared_library.hpp"

namespace ho::plugin::forward {

inline constexpr int kNewestVersion = 12;

struct NetLibrary {
  SharedLibrary library;
  std::string file;
  int version = 0;
  void* table = nullptr;  // nccl_abi::v<version>::Net
};

// NAME, and libnccl-net-NAME.so unless NAME is a path or lib*.so: in the order in which they are
// tried.
[[nodiscard]] std::vector<std::string> files_of(const std::string& name);
// The first of those that opens, with the newest table that it has up to version `newest`. An error
// where none opens, where it has no table, or where it is the library that this code is in.
[[nodiscard]] Result<NetLibrary> open_net_library(const std::string& name,
                                                  int newest = kNewestVersion);

}  // namespace ho::plugin::forward
