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
  CHECK(nccl_abi::v8::kNetSymbol == symbol(PluginKind::kNet, 8));
  CHECK(nccl_abi::v9::kNetSymbol == symbol(PluginKind::kNet, 9));
  CHECK(nccl_abi::v10::kNetSymbol == symbol(PluginKind::kNet, 10));
  CHECK(nccl_abi::v11::kNetSymbol == symbol(PluginKind::kNet, 11));
  CHECK(nccl_abi::v12::kNetSymbol == symbol(PluginKind::kNet, 12));
  CHECK(nccl_abi::v8::kCollNetSymbol == symbol(PluginKind::kCollNet, 8));
  CHECK(nccl_abi::v9::kCollNetSymbol == symbol(PluginKind::kCollNet, 9));
  CHECK(nccl_abi::v10::kCollNetSymbol == symbol(PluginKind::kCollNet, 10));
  CHECK(nccl_abi::v11::kCollNetSymbol == symbol(PluginKind::kCollNet, 11));
  CHECK(nccl_abi::v12::kCollNetSymbol == symbol(PluginKind::kCollNet, 12));
  CHECK(nccl_abi::v2::kTunerSymbol == symbol(PluginKind::kTuner, 2));
  CHECK(nccl_abi::v3::kTunerSymbol == symbol(PluginKind::kTuner, 3));
  CHECK(nccl_abi::v4::kTunerSymbol == symbol(PluginKind::kTuner, 4));
  CHECK(nccl_abi::v5::kTunerSymbol == symbol(PluginKind::kTuner, 5));
  CHECK(nccl_abi::v6::kTunerSymbol == symbol(PluginKind::kTuner, 6));
  CHECK(nccl_abi::v1::kEnvSymbol == symbol(PluginKind::kEnv, 1));
  CHECK(nccl_abi::v2::kEnvSymbol == symbol(PluginKind::kEnv, 2));
}

TEST_CASE("a cost is found in a table of any width") {
  std::array<std::array<float, 4>, 6> table{};
  table[5][2] = 7;
  auto* input = reinterpret_cast<float**>(&table);
  CHECK(nccl_abi::v3::cost_of(input, 4, 5, 2) == 7.0F);
  nccl_abi::v3::cost_of(input, 4, 1, 3) = 0.5F;
  CHECK(table[1][3] == 0.5F);
}
