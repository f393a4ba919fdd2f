// Loads an NCCL from a file. Apart from installed(), tests alone need it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "nccl/nccl.hpp"
#include "os/shared_library.hpp"

namespace ho::nccl {

struct NcclCall {
  const char* symbol;  // "ncclAllReduce"
  void (*set)(Nccl& table, void* address);
};
[[nodiscard]] std::span<const NcclCall> nccl_calls();

struct LoadedNccl {
  SharedLibrary library;
  Nccl table;
  int version = 0;
};
// `file` as SharedLibrary::open has it. The errors are installed()'s.
[[nodiscard]] ho::Result<std::unique_ptr<LoadedNccl>> load(const std::string& file);

}  // namespace ho::nccl
