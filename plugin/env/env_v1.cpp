// NCCL 2.28.
#include "abi/env_v1.hpp"

#include "env/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::Result;
using nccl_abi::v1::Env;

Result init(uint8_t major, uint8_t minor, uint8_t patch, const char* /*suffix*/) {
  return every_env::init("env v1", major, minor, patch);
}

constexpr Env make_table() {
  Env table{};
  table.name = "HO-Ring";
  table.init = init;
  table.finalize = every_env::finalize;
  table.getEnv = every_env::value_of;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v1::Env ncclEnvPlugin_v1;
constinit nccl_abi::v1::Env ncclEnvPlugin_v1 = ho::plugin::make_table();
