#include "planner/text/plan_export.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "plan_requests.hpp"

namespace paro {
namespace {

using test::plan_by_names;
using test::plan_by_numbers;

PlanTexts exporting(PlanTexts texts, const char* target, const char* strategy) {
  texts.command = "paro plan --model llama-7b";
  texts.export_to = target;
  if (strategy != nullptr) {
    texts.strategy = strategy;
  }
  return texts;
}

ho::Result<std::string> exported(const PlanTexts& texts) {
  HORING_ASSIGN(PlanOptions options, understand(texts));
  HORING_ASSIGN(const Report report, report_of(std::move(options), {}));
  return report.program.value();
}

std::string program_of(const PlanTexts& texts) {
  const auto program = exported(texts);
  INFO(program.status().message());
  REQUIRE(program.ok());
  return *program;
}

}  // namespace

TEST_CASE("the targets have the strategies that they can have") {
  std::string fsdp2;
  std::string with_paro;
  for (const Strategy& strategy : all_strategies()) {
    fsdp2 += can_have(ExportTarget::kFsdp2, strategy) ? letters(strategy) + " " : "";
    with_paro += can_have(ExportTarget::kParoTorch, strategy) ? letters(strategy) + " " : "";
  }
  CHECK(fsdp2 == "NNN NNI NNG NII NGG INI III GNG GGG ");
  CHECK_FALSE(has(with_paro, "GIG"));
  CHECK(with_paro.size() == 13 * 4);
}

TEST_CASE("a program on FSDP2 has the plan's mesh, resharding and switches") {
  struct Case {
    const char* strategy;
    std::vector<const char*> has;
    std::vector<const char*> lacks;
  };
  const std::vector<Case> cases{
      {"III",
       {"(GROUPS, GROUP_SIZE), (\"replicate\", \"shard\")",
        "reshard_after_forward=True",
        "model.set_requires_all_reduce(last)"},
       {"set_requires_gradient_sync", "set_reshard_after_backward", "Distributed"}},
      {"NII",
       {"reshard_after_forward=False",
        "model.set_reshard_after_backward(last)",
        "model.set_requires_all_reduce(last)"},
       {"set_requires_gradient_sync"}},
      {"NNG",
       {"(GROUPS * GROUP_SIZE,), (\"shard\",)",
        "reshard_after_forward=False",
        "model.set_requires_gradient_sync(last)"},
       {"set_requires_all_reduce"}},
      {"GGG",
       {"(GROUPS * GROUP_SIZE,), (\"shard\",)", "reshard_after_forward=True"},
       {"_begin", "replicate"}},
      {"NNN",
       {"DistributedDataParallel(model", "model.no_sync()", "bf16_compress_hook"},
       {"fully_shard(", "init_device_mesh", "_begin"}}};
  for (const Case& each : cases) {
    PlanTexts texts = exporting(plan_by_numbers(), "fsdp2", each.strategy);
    texts.accumulation = "3";
    const std::string program = program_of(texts);
    INFO(each.strategy);
    CHECK(has(program, "GROUPS, GROUP_SIZE = 4, 8\n"));
    CHECK(has(program, "MICRO_BATCHES = 3 "));
    for (const char* words : each.has) {
      CHECK(has(program, words));
    }
    for (const char* words : each.lacks) {
      CHECK(program.find(words) == std::string::npos);
    }
  }
}

TEST_CASE("a program for paro.torch has strategy, group size, prefetch and types") {
  PlanTexts texts = exporting(plan_by_names(), "paro.torch", "IIG");
  texts.prefetch = "3";
  texts.group_sizes = "16";
  const std::string program = program_of(texts);
  CHECK(has(program, "import paro.torch\n"));
  CHECK(has(program, "STRATEGY = \"IIG\"\n"));
  CHECK(has(program, "GROUPS, GROUP_SIZE = 8, 16\n"));
  CHECK(has(program, "PREFETCH = 3 "));
  CHECK(has(program, "set_modules_to_backward_prefetch"));
  CHECK(has(program, "param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16"));
  CHECK(has(program, "paro.torch.microbatch(model, last=last)"));
  texts.precision = "fp32";
  CHECK(has(program_of(texts), "POLICY = MixedPrecisionPolicy()\n"));
}

TEST_CASE("a program begins with what was given and what was assumed, each in one comment line") {
  PlanTexts texts = exporting(plan_by_names(), "fsdp2", nullptr);
  texts.command = "paro plan --model 'a\nimport os'";
  texts.recompute = "full";
  texts.strategy = "III";
  const std::string program = program_of(texts);
  CHECK(
      program.starts_with("# Written by paro plan, which was given:\n"
                          "#   paro plan --model 'a\\x0aimport os'\n"
                          "# The plan:\n#   strategy III (MiCS, "));
  CHECK(has(program, "#   optimizer adamw: give --optimizer\n"));
  CHECK(has(program, "#   units recompute activations: see torch.utils.checkpoint\n"));
  CHECK(has(program, "reduce_dtype=torch.bfloat16") ==
        !has(program, "added up in float32"));  // where several micro-batches are
}

TEST_CASE("what a target cannot have is refused in one line with the nearest that it can") {
  PlanTexts texts = exporting(plan_by_numbers(), "fsdp2", "IIG");
  auto refused = exported(texts).status();
  CHECK(has(refused, "--export fsdp2: FSDP2 alone cannot have IIG; the nearest that it can is "));
  CHECK(has(refused, "give --strategy "));
  CHECK(has(refused, ", or --export paro.torch"));
  texts = exporting(plan_by_numbers(), "paro.torch", "GIG");
  refused = exported(texts).status();
  CHECK(
      has(refused, "--export paro.torch: paro.torch cannot have GIG; the nearest that it can is "));
  CHECK(refused.message().find(", or --export") == std::string::npos);
  texts = exporting(plan_by_numbers(), "fsdp2", "IIG");
  texts.memory = "1GB";
  CHECK(has(exported(texts).status(), "is GGG, "));
  CHECK(has(exported(texts).status(), ", which does not fit: give --strategy GGG"));
  texts.strategy.reset();
  CHECK(has(exported(texts).status(), "--export: no strategy fits; give --strategy for one"));
  texts.strategy = "GGG";
  CHECK(has(program_of(texts), ": it does not fit\n"));
}

TEST_CASE("a program's options that cannot be are refused") {
  PlanTexts texts = plan_by_numbers();
  texts.strategy = "III";
  CHECK(has(exported(texts).status(), "--strategy takes --export beside it"));
  CHECK(has(exported(exporting(plan_by_numbers(), "jax", nullptr)).status(),
            "--export jax: takes fsdp2, paro.torch"));
  CHECK(has(exported(exporting(plan_by_numbers(), "fsdp2", "ABC")).status(), "ABC"));
  texts = exporting(plan_by_names(), "fsdp2", "GGG");
  texts.tensor = "2";
  CHECK(has(exported(texts).status(), "--export takes data parallelism alone: leave out --tp"));
}

}  // namespace paro
