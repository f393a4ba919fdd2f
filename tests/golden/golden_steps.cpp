// Compares printed step plans with the committed ones, so that a change of any step is seen and
// meant.
//   golden_steps DIR            compare with DIR/step.*.txt, of which step.buckets.* have buckets,
//                               and step.streams.* are of a device's streams
//   golden_steps --update DIR   write them (tests/golden/update)
#include <cstdio>
#include <string>

#include "golden_file.hpp"
#include "step/step_plan.hpp"
#include "step/streams.hpp"
#include "step/traffic.hpp"
#include "step/verify.hpp"

using namespace paro;

namespace {

constexpr const char* kGroups[] = {"1x4", "4x1", "2x2", "2x4", "4x2", "3+1", "1+1+2"};
// One that all-reduces, one that reduces in two steps, and those whose parameters are split too.
constexpr const char* kBucketed[] = {"NNN", "NIG", "III", "IGG"};
// Whose sync-p is launched among the next step's gathers, and one with collectives of two scopes.
constexpr const char* kOnStreams[] = {"NNG", "IIG", "III"};
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

// A unit with frozen parameters, and one with a prime number of them.
StepShape without_buckets(const Strategy& strategy) {
  return {strategy,
          strategy.parameters,
          {{"embedding", 64, 0}, {"block", 97, 31}, {"head", 48, 0}},
          2,
          1};
}

// Buckets of two units, of one, and of three with one between them that has no gradient.
StepShape with_buckets(const Strategy& strategy) {
  return {strategy,
          strategy.parameters,
          {{"embedding", 64, 0},
           {"block 0", 24, 0},
           {"adapter", 0, 31},
           {"block 1", 12, 0},
           {"large", 97, 0},
           {"gain", 1, 0},
           {"head", 48, 0}},
          2,
          1,
          100};
}

ho::Result<std::string> golden(const StepShape& shape) {
  HORING_ASSIGN(const StepPlan plan, build_step_plan(shape));
  std::string text = print(plan);
  for (const char* groups : kGroups) {
    HORING_ASSIGN(const std::string line, bytes_on(plan, groups));
    text += line;
  }
  return text;
}

ho::Result<std::string> golden_streams(const StepShape& shape) {
  HORING_ASSIGN(const StepPlan plan, build_step_plan(shape));
  const StepStreams streams = streams_of(plan);
  HORING_TRY(verify_streams(plan, streams));
  return print(plan, streams);
}

// Whether the file is as it should be.
bool keep(bool update, const std::string& path, const ho::Result<std::string>& text) {
  if (!text.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), text.status().to_string().c_str());
    return false;
  }
  return ho::test::keep_or_compare(update, path, *text);
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
    const std::string path = directory + "/step." + letters(strategy) + ".txt";
    failures += keep(update, path, golden(without_buckets(strategy))) ? 0 : 1;
  }
  for (const char* triple : kBucketed) {
    const std::string path = directory + "/step.buckets." + triple + ".txt";
    failures += keep(update, path, golden(with_buckets(parse_strategy(triple).value()))) ? 0 : 1;
  }
  for (const char* triple : kOnStreams) {
    const std::string path = directory + "/step.streams." + triple + ".txt";
    const StepShape shape = without_buckets(parse_strategy(triple).value());
    failures += keep(update, path, golden_streams(shape)) ? 0 : 1;
  }
  if (failures > 0 && !update) {
    std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  }
  return failures == 0 ? 0 : 1;
}
