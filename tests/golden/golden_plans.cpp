// Compares printed plans with the committed ones, so that a change of any schedule is seen and
// meant.
//   golden_plans DIR            compare with DIR/*.txt
//   golden_plans --update DIR   write them (tests/golden/update)
#include <array>
#include <cstdio>
#include <string>

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

constexpr auto kGather = Collective::kAllGather;
constexpr auto kScatter = Collective::kReduceScatter;
constexpr auto kReduce = Collective::kAllReduce;
constexpr auto kBroadcast = Collective::kBroadcast;

constexpr std::array<Golden, 22> kGoldens = {{
    {"4x4", kGather, Algorithm::kHoRing, 1, 0, 0},
    {"4x4", kScatter, Algorithm::kHoRing, 1, 0, 0},
    {"4x4", kReduce, Algorithm::kHoRing, 1, 0, 5},
    {"4x4", kBroadcast, Algorithm::kHoRing, 1, 5, 4},
    {"2x3", kGather, Algorithm::kHierarchical, 1, 0, 1},
    {"2x3", kScatter, Algorithm::kHierarchical, 1, 0, 1},
    {"2x3", kReduce, Algorithm::kHierarchical, 1, 0, 1},
    {"1+3", kGather, Algorithm::kHoRing, 1, 0, 1},
    {"1+3", kScatter, Algorithm::kHoRing, 1, 0, 2},
    {"2+4", kGather, Algorithm::kHoRing, 1, 0, 2},
    {"2+4", kScatter, Algorithm::kHoRing, 1, 0, 3},
    {"2+4", kReduce, Algorithm::kHoRing, 1, 0, 4},
    {"1x4", kReduce, Algorithm::kHoRing, 1, 0, 2},
    {"2x2", kGather, Algorithm::kRing, 1, 0, 0},
    {"2x2", kReduce, Algorithm::kRing, 1, 0, 3},
    {"2x2", kGather, Algorithm::kMultiRing, 2, 0, 0},
    {"2x2", kReduce, Algorithm::kMultiRing, 2, 0, 1},
    {"4x2", kGather, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kScatter, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kReduce, Algorithm::kDirect, 1, 0, 0},
    {"3x2", kReduce, Algorithm::kDirect, 1, 0, 4},
    {"3x2", kBroadcast, Algorithm::kDirect, 1, 3, 2},
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

}  // namespace

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != 2 && !update) {
    std::fprintf(stderr, "usage: golden_plans [--update] DIRECTORY\n");
    return 2;
  }
  int failures = 0;
  for (const Golden& golden : kGoldens) {
    const std::string path = std::string(argv[argc - 1]) + "/" + file_name(golden);
    const auto text = print(golden);
    if (!text.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), text.status().to_string().c_str());
      ++failures;
    } else {
      failures += test::keep_or_compare(update, path, *text) ? 0 : 1;
    }
  }
  if (failures > 0 && !update) {
    std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  }
  return failures == 0 ? 0 : 1;
}
