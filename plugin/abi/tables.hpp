// All tables that plugins have for NCCL, of every version that is known here.
#pragma once

#include <type_traits>

#include "abi/collnet_v10.hpp"
#include "abi/collnet_v11.hpp"
#include "abi/collnet_v12.hpp"
#include "abi/collnet_v8.hpp"
#include "abi/collnet_v9.hpp"
#include "abi/env_v1.hpp"
#include "abi/env_v2.hpp"
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

namespace nccl_abi {

template <int number, typename Table>
struct TableVersion : std::integral_constant<int, number> {
  using Type = Table;
};
template <typename... Versions>
struct TableVersions {};

using NetTables = TableVersions<TableVersion<8, v8::Net>,
                                TableVersion<9, v9::Net>,
                                TableVersion<10, v10::Net>,
                                TableVersion<11, v11::Net>,
                                TableVersion<12, v12::Net>>;
using CollNetTables = TableVersions<TableVersion<8, v8::CollNet>,
                                    TableVersion<9, v9::CollNet>,
                                    TableVersion<10, v10::CollNet>,
                                    TableVersion<11, v11::CollNet>,
                                    TableVersion<12, v12::CollNet>>;
using TunerTables = TableVersions<TableVersion<2, v2::Tuner>,
                                  TableVersion<3, v3::Tuner>,
                                  TableVersion<4, v4::Tuner>,
                                  TableVersion<5, v5::Tuner>,
                                  TableVersion<6, v6::Tuner>>;

// Calls call(TableVersion, table) with what lies at `symbol`. False: that version is not known.
template <typename... Versions, typename Call>
bool visit_table(TableVersions<Versions...> /*known*/,
                 int version,
                 const void* symbol,
                 const Call& call) {
  return ((version == Versions::value &&
           (call(Versions(), *static_cast<const typename Versions::Type*>(symbol)), true)) ||
          ...);
}

}  // namespace nccl_abi
