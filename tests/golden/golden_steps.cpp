// Compares printed step plans with the committed ones, so that a change of any step is seen and
// meant.
//   golden_steps DIR            compare with DIR/step.*.txt
//   golden_steps --update DIR   write them (tests/golden/update)
#include <cstdio>
#include <string>

#include "golden_file.hpp"
#include "step/step_plan.hpp"
#include "step/traffic.hpp"
#include "step/verify.hpp"

using namespace paro;

namespace {

constexpr const char* kGroups[] = {"1x4", "4x1", "2x2", "2x4", "4x2", "3+1", "1+1+2"};
constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackward, Phase::kSyncG, Phase::kSyncP};

ho::Result<std::string> bytes_on(const StepPlan& plan, const char* text) {
  HORING_ASSIGN(const ho::GroupMap groups, ho::GroupMap::parse(text));
  HORING_ASSIGN(const auto layouts, lay_out(plan.shape.units, groups, 4));
  HORING_TRY(verify(plan, layouts, groups));
  const StepTraffic traffic(plan, layouts, groups, groups, {2, 2});
  std::string line = std::string(text) + ", bytes inside + between groups:";
  for (const Phase phase : kPhases) {
    const Traffic bytes = traffic.of(phase);
    line += " " + std::string(to_string(phase)) + " " + std::to_string(bytes.intra_bytes) + " + " +
            std::to_string(bytes.inter_bytes) + (phase == Phase::kSyncP ? "\n" : ",");
  }
  return line;
}

ho::Result<std::string> golden(const Strategy& strategy) {
  // A unit with frozen parameters, and one with a prime number of them.
  const StepShape shape{strategy,
                        strategy.parameters,
                        {{"embedding", 64, 0}, {"block", 97, 31}, {"head", 48, 0}},
                        2,
                        1};
  HORING_ASSIGN(const StepPlan plan, build_step_plan(shape));
  std::string text = print(plan);
  for (const char* groups : kGroups) {
    HORING_ASSIGN(const std::string line, bytes_on(plan, groups));
    text += line;
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != 2 && !update) {
    std::fprintf(stderr, "usage: golden_steps [--update] DIR\n");
    return 2;
  }
  const std::string directory = argv[argc - 1];
  int failures = 0;
  for (const Strategy& strategy : all_strategies()) {
    const auto text = golden(strategy);
    const std::string path = directory + "/step." + letters(strategy) + ".txt";
    if (!text.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), text.status().to_string().c_str());
      ++failures;
    } else {
      failures += ho::test::keep_or_compare(update, path, *text) ? 0 : 1;
    }
  }
  if (failures > 0 && !update) {
    std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  }
  return failures == 0 ? 0 : 1;
}
