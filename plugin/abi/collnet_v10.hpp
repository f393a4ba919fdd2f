// Collnet plugins, version 10 (since NCCL 2.26): version 9 under another name.
#pragma once

#include "abi/collnet_v9.hpp"

namespace nccl_abi::v10 {

using v9::Buffer;
using v9::CollNet;
static_assert(sizeof(CollNet) == 144);

}  // namespace nccl_abi::v10
