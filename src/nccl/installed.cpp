// The NCCL of the machine. In a library of its own: programs that test have another one.
#include "base/env.hpp"
#include "nccl/loader.hpp"

namespace ho::nccl {

ho::Result<const Nccl*> installed() {
  // Kept to the end of the process: NCCL has threads of its own.
  static const auto* const loaded_nccl = [] {
    return new ho::Result<std::unique_ptr<LoadedNccl>>(  // NOLINT: never freed
        load(env::text(env::kNcclLibrary)));
  }();
  if (!loaded_nccl->ok()) {
    return loaded_nccl->status();
  }
  return &loaded_nccl->value()->table;
}

}  // namespace ho::nccl
