// NCCL 2.30.7: the plugin may log.
#include "abi/env_v2.hpp"

#include "env/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::Result;
using nccl_abi::v2::Env;

Result init(uint8_t major,
            uint8_t minor,
            uint8_t patch,
            const char* /*suffix*/,
            nccl_abi::DebugLogger /*logger*/) {
  return every_env::init("env v2", major, minor, patch);
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

extern "C" __attribute__((visibility("default"))) nccl_abi::v2::Env ncclEnvPlugin_v2;
constinit nccl_abi::v2::Env ncclEnvPlugin_v2 = ho::plugin::make_table();
