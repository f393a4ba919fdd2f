// Compares printed plans with the committed ones, so that a change of any schedule is seen and
// meant.
//   golden_plans DIR            compare with DIR/*.txt
//   golden_plans --update DIR   write them (tests/golden/update)
#include <array>
#include <cstdio>
#include <optional>
#include <string>

#include "core/rail/window_plan.hpp"
#include "golden_file.hpp"
#include "plan/plan.hpp"
#include "plan/print.hpp"
#include "plan/summary.hpp"
#include "plan/verify.hpp"

using namespace ho;

namespace {

struct Golden {
  const char* groups;
  Collective collective;
  Algorithm algorithm;
  uint32_t rings;
  uint32_t root;
  uint32_t rank;  // whose ops are printed
};

constexpr auto kAllGather = Collective::kAllGather;
constexpr auto kReduceScatter = Collective::kReduceScatter;
constexpr auto kAllReduce = Collective::kAllReduce;
constexpr auto kBroadcast = Collective::kBroadcast;
constexpr auto kAllToAll = Collective::kAllToAll;
constexpr auto kGather = Collective::kGather;
constexpr auto kScatter = Collective::kScatter;
constexpr auto kReduce = Collective::kReduce;

constexpr std::array<Golden, 34> kGoldens = {{
    {"4x4", kAllGather, Algorithm::kHoRing, 1, 0, 0},
    {"4x4", kReduceScatter, Algorithm::kHoRing, 1, 0, 0},
    {"4x4", kAllReduce, Algorithm::kHoRing, 1, 0, 5},
    {"4x4", kBroadcast, Algorithm::kHoRing, 1, 5, 4},
    {"2x3", kAllGather, Algorithm::kHierarchical, 1, 0, 1},
    {"2x3", kReduceScatter, Algorithm::kHierarchical, 1, 0, 1},
    {"2x3", kAllReduce, Algorithm::kHierarchical, 1, 0, 1},
    {"1+3", kAllGather, Algorithm::kHoRing, 1, 0, 1},
    {"1+3", kReduceScatter, Algorithm::kHoRing, 1, 0, 2},
    {"2+4", kAllGather, Algorithm::kHoRing, 1, 0, 2},
    {"2+4", kReduceScatter, Algorithm::kHoRing, 1, 0, 3},
    {"2+4", kAllReduce, Algorithm::kHoRing, 1, 0, 4},
    {"1x4", kAllReduce, Algorithm::kHoRing, 1, 0, 2},
    {"2x2", kAllGather, Algorithm::kRing, 1, 0, 0},
    {"2x2", kAllReduce, Algorithm::kRing, 1, 0, 3},
    {"2x2", kAllGather, Algorithm::kMultiRing, 2, 0, 0},
    {"2x2", kAllReduce, Algorithm::kMultiRing, 2, 0, 1},
    {"4x2", kAllGather, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kReduceScatter, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kAllReduce, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kAllReduce, Algorithm::kDirect, 1, 0, 4},
    {"3x2", kBroadcast, Algorithm::kDirect, 1, 3, 2},
    {"2x2", kAllToAll, Algorithm::kHoRing, 1, 0, 1},
    {"2x2", kAllToAll, Algorithm::kDirect, 1, 0, 1},
    {"2+4", kAllToAll, Algorithm::kHoRing, 1, 0, 4},
    {"2x2", kGather, Algorithm::kHoRing, 1, 3, 1},
    {"2+4", kGather, Algorithm::kHoRing, 1, 1, 0},
    {"2+4", kGather, Algorithm::kDirect, 1, 1, 3},
    {"2x2", kScatter, Algorithm::kHoRing, 1, 3, 1},
    {"2+4", kScatter, Algorithm::kHoRing, 1, 1, 0},
    {"2+4", kScatter, Algorithm::kDirect, 1, 1, 3},
    {"2x2", kReduce, Algorithm::kHoRing, 1, 3, 0},
    {"2+4", kReduce, Algorithm::kHoRing, 1, 1, 4},
    {"2+4", kReduce, Algorithm::kDirect, 1, 1, 2},
}};

std::string file_name(const Golden& golden) {
  return std::string(to_string(golden.collective)) + "." +
         std::string(to_string(golden.algorithm)) + "." + golden.groups + ".rank" +
         std::to_string(golden.rank) + ".txt";
}

Result<std::string> print(const Golden& golden) {
  HORING_ASSIGN(const GroupMap map, GroupMap::parse(golden.groups));
  HORING_ASSIGN(
      const WholePlan whole,
      build_whole_plan(
          map, {golden.collective, golden.algorithm, golden.rings, GlobalRank(golden.root)}));
  HORING_TRY(verify(whole, map));
  const GlobalRank rank(golden.rank);
  HORING_ASSIGN(const PlanSummary summary, summarize(whole, map, rank));
  return print_plan(whole, map, summary, rank);
}

// Windows of a rail under NCCL, four members. Blocks of 24 bytes, pieces of 16; `owner`: the window
// lies in that member's block.
struct GoldenWindow {
  const char* name;
  plugin::rail::WindowKind kind;
  std::optional<uint32_t> owner;
  uint32_t rank;
};

constexpr std::array<GoldenWindow, 4> kWindows = {{
    {"all_reduce", plugin::rail::WindowKind::kAllReduce, std::nullopt, 1},
    {"all_gather", plugin::rail::WindowKind::kAllGather, std::nullopt, 2},
    {"all_gather_of_2", plugin::rail::WindowKind::kAllGather, 2, 3},
    {"reduce_scatter", plugin::rail::WindowKind::kReduceScatter, std::nullopt, 0},
}};

std::string file_name(const GoldenWindow& golden) {
  return "window." + std::string(golden.name) + ".4.rank" + std::to_string(golden.rank) + ".txt";
}

Result<std::string> print(const GoldenWindow& golden) {
  constexpr uint32_t kMembers = 4;
  constexpr uint64_t kBlockBytes = 24;
  constexpr uint64_t kPieceBytes = 16;
  plugin::rail::Window window;
  window.kind = golden.kind;
  window.members = kMembers;
  window.element_bytes = 4;
  window.block_bytes = golden.kind == plugin::rail::WindowKind::kAllReduce ? 0 : kBlockBytes;
  window.offset = golden.owner.value_or(0) * kBlockBytes;
  window.byte_count = golden.owner ? kBlockBytes : kMembers * kBlockBytes;
  HORING_ASSIGN(const plugin::rail::WindowPlan plan,
                plugin::rail::window_plan({window}, kPieceBytes));
  HORING_TRY(verify(plan.whole, plan.map));
  const GlobalRank rank(golden.rank);
  HORING_ASSIGN(const PlanSummary summary, summarize(plan.whole, plan.map, rank));
  return print_plan(plan.whole, plan.map, summary, rank);
}

template <typename Goldens>
int check(const Goldens& goldens, const std::string& folder, bool update) {
  int failures = 0;
  for (const auto& golden : goldens) {
    const std::string path = folder + "/" + file_name(golden);
    const auto text = print(golden);
    if (!text.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), text.status().to_string().c_str());
      ++failures;
    } else {
      failures += test::keep_or_compare(update, path, *text) ? 0 : 1;
    }
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != 2 && !update) {
    std::fprintf(stderr, "usage: golden_plans [--update] DIRECTORY\n");
    return 2;
  }
  const std::string folder = argv[argc - 1];
  const int failures = check(kGoldens, folder, update) + check(kWindows, folder, update);
  if (failures > 0 && !update) {
    std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  }
  return failures == 0 ? 0 : 1;
}
