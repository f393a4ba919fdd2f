// What the compiler cannot see in the tables' layouts: names of symbols, and tables of costs.
#include <array>
#include <string>

#include "abi/collnet_v10.hpp"
#include "abi/collnet_v11.hpp"
#include "abi/collnet_v12.hpp"
#include "abi/collnet_v8.hpp"
#include "abi/collnet_v9.hpp"
#include "abi/env_v1.hpp"
#include "abi/env_v2.hpp"
#include "abi/lookup.hpp"
#include "abi/net_v10.hpp"
#include "abi/net_v11.hpp"
#include "abi/net_v12.hpp"
#include "abi/net_v8.hpp"
#include "abi/net_v9.hpp"
#include "abi/tuner_v2.hpp"
#include "abi/tuner_v3.hpp"
#include "abi/tuner_v4.hpp"
#include "abi/tuner_v5.hpp"
#include "abi/tuner_v6.hpp"
#include "catch.hpp"

using nccl_abi::PluginKind;
using nccl_abi::symbol;

TEST_CASE("each header's symbol is the one that releases look up for its version") {
  CHECK("ncclNetPlugin_v8" == symbol(PluginKind::kNet, 8));
  CHECK("ncclNetPlugin_v9" == symbol(PluginKind::kNet, 9));
  CHECK("ncclNetPlugin_v10" == symbol(PluginKind::kNet, 10));
  CHECK("ncclNetPlugin_v11" == symbol(PluginKind::kNet, 11));
  CHECK("ncclNetPlugin_v12" == symbol(PluginKind::kNet, 12));
  CHECK("ncclCollNetPlugin_v8" == symbol(PluginKind::kCollNet, 8));
  CHECK("ncclCollNetPlugin_v9" == symbol(PluginKind::kCollNet, 9));
  CHECK("ncclCollNetPlugin_v10" == symbol(PluginKind::kCollNet, 10));
  CHECK("ncclCollNetPlugin_v11" == symbol(PluginKind::kCollNet, 11));
  CHECK("ncclCollNetPlugin_v12" == symbol(PluginKind::kCollNet, 12));
  CHECK("ncclTunerPlugin_v2" == symbol(PluginKind::kTuner, 2));
  CHECK("ncclTunerPlugin_v3" == symbol(PluginKind::kTuner, 3));
  CHECK("ncclTunerPlugin_v4" == symbol(PluginKind::kTuner, 4));
  CHECK("ncclTunerPlugin_v5" == symbol(PluginKind::kTuner, 5));
  CHECK("ncclTunerPlugin_v6" == symbol(PluginKind::kTuner, 6));
  CHECK("ncclEnvPlugin_v1" == symbol(PluginKind::kEnv, 1));
  CHECK("ncclEnvPlugin_v2" == symbol(PluginKind::kEnv, 2));
}

TEST_CASE("a cost is found in a table of any width") {
  std::array<std::array<float, 4>, 6> table{};
  table[5][2] = 7;
  auto* input = reinterpret_cast<float**>(&table);
  CHECK(nccl_abi::v3::cost_of(input, 4, 5, 2) == 7.0F);
  nccl_abi::v3::cost_of(input, 4, 1, 3) = 0.5F;
  CHECK(table[1][3] == 0.5F);
}
