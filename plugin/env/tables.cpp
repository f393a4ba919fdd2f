// The tables that NCCL finds, one for each version.
#include "abi/tables.hpp"

#include "env/common.hpp"

namespace ho::plugin {
namespace {

template <typename Table, int version>
consteval Table env_table() {
  Table made{};
  made.name = "HO-Ring";
  // The last ones: a suffix of the version, and since v2 NCCL's logger.
  made.init = [](uint8_t major, uint8_t minor, uint8_t patch, auto... /*unused*/) {
    return every_env::init(version, major, minor, patch);
  };
  made.finalize = every_env::finalize;
  made.getEnv = every_env::value_of;
  return made;
}

}  // namespace
}  // namespace ho::plugin

#define HORING_ENV_TABLE(version)                                \
  extern "C" __attribute__((visibility("default")))              \
  nccl_abi::v##version::Env ncclEnvPlugin_v##version;            \
  constinit nccl_abi::v##version::Env ncclEnvPlugin_v##version = \
      ho::plugin::env_table<nccl_abi::v##version::Env, version>()

HORING_ENV_TABLE(1);  // NCCL 2.28
HORING_ENV_TABLE(2);  // NCCL 2.30.7: the plugin may log
