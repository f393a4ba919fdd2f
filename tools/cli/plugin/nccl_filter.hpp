// What NCCL_ALGO and NCCL_PROTO leave of CollNet.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/plugin/plugin_search.hpp"

namespace ho {

struct NcclFilter {
  std::string names;  // of the variables that are set: "NCCL_ALGO and NCCL_PROTO"; "" for neither
  std::string text;   // with their values
  // The collectives for which an algorithm through CollNet is left with the protocol that it needs:
  // "all_reduce, all_gather".
  std::string with_coll_net;
  // The collectives for which NCCL_ALGO leaves algorithms through CollNet, and none that NCCL takes
  // on nodes without an NVSwitch.
  std::string need_nvswitch;
  // Words that name nothing of NCCL's: "'rings' in NCCL_ALGO"; "" for none.
  std::string unknown;
};
// Lists of names, or after ^ of names to leave out; since 2.24 also one list per function,
// "allreduce:tree,ring;allgather:^nvls". NCCL ignores case.
[[nodiscard]] NcclFilter nccl_filter(const nccl_abi::Release& release,
                                     const NcclVariables& variables);

// Whether NCCL_ALGO's or NCCL_PROTO's value leaves the algorithm or protocol `name` for a function:
// "collnetchain" for "allreduce". per_function: NCCL has lists for single functions.
[[nodiscard]] bool setting_leaves(const std::optional<std::string>& setting,
                                  bool per_function,
                                  std::string_view function,
                                  std::string_view name);

}  // namespace ho
