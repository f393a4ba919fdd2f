#include "planner/text/plan_export.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "planner/text/group_text.hpp"

namespace paro {
namespace {

// What FSDP2 shards over: the optimizer's scope, or the group where the optimizer's state is split
// further than that.
Scope shards_of(const Strategy& strategy) {
  const bool group = strategy.parameters == Scope::kGroup || strategy.gradients == Scope::kGroup;
  return strategy.optimizer == Scope::kWorld && group ? Scope::kGroup : strategy.optimizer;
}

// One program.
struct Program {
  ExportTarget target;
  const Report& report;
  const StrategyFigures& figures;

  [[nodiscard]] const PlannerRequest& request() const { return report.options.request; }
  [[nodiscard]] const Strategy& strategy() const { return figures.strategy; }
  [[nodiscard]] bool is_fsdp2() const { return target == ExportTarget::kFsdp2; }
  // Every rank holds all: DistributedDataParallel, which FSDP2 is not for.
  [[nodiscard]] bool is_ddp() const {
    return is_fsdp2() && shards_of(strategy()) == Scope::kReplicated;
  }
  [[nodiscard]] bool splits_parameters() const {
    return strategy().parameters != Scope::kReplicated;
  }
  [[nodiscard]] Precision precision() const {
    const PlanOptions& options = report.options;
    if (request().bytes.parameter >= 4) {
      return Precision::kFp32;
    }
    return options.job ? precision_of(*options.job) : options.precision.value_or(Precision::kBf16);
  }
  // "torch.bfloat16"; empty: parameters are used as they are.
  [[nodiscard]] std::string_view compute_type() const {
    if (request().bytes.parameter >= 4) {
      return {};
    }
    return precision() == Precision::kFp16 ? "torch.float16" : "torch.bfloat16";
  }
  // FSDP2 adds up whole gradients, and a group's sums, in the type in which it reduces them after
  // the last micro-batch.
  [[nodiscard]] bool sums_in_fp32() const {
    const Strategy& by = strategy();
    const bool sums = by.gradients == Scope::kReplicated ||
                      (by.gradients == Scope::kGroup && by.optimizer == Scope::kGroup);
    return !is_ddp() && figures.micro_batches > 1 && sums;
  }
  [[nodiscard]] bool reduces_narrow() const { return request().bytes.gradient < 4; }
  [[nodiscard]] uint32_t micro_batch() const {
    const uint32_t sequences = request().sequences;
    return sequences > 0 ? sequences / figures.micro_batches : report.options.micro_batch;
  }
};

std::string comment(std::string_view text) {
  constexpr size_t kMaxBytes = 4096;  // a request may list every unit
  return "#   " + ho::escaped(text, kMaxBytes) + "\n";
}

std::vector<std::string> assumed_by(const Program& program) {
  const PlanOptions& options = program.report.options;
  std::vector<std::string> assumed = program.request().assumed;
  if (!program.compute_type().empty()) {
    assumed.emplace_back(
        "the model is in float32 when shard() gets it: its shards are the masters");
  }
  if (program.sums_in_fp32() && program.reduces_narrow()) {
    assumed.emplace_back(
        "micro-batches are added up in float32, which FSDP2 then reduces in: more bytes than "
        "planned");
  }
  if (program.precision() == Precision::kFp16) {
    assumed.push_back(fmt::format("the loss is scaled, as float16 needs: see {}.GradScaler",
                                  program.is_fsdp2() ? "torch.amp" : "paro.torch"));
  }
  if (options.precision == Precision::kFp8) {
    assumed.emplace_back("matrices are converted to float8 before shard(), as torchao does");
  }
  if (options.job && options.job->recompute != Recompute::kNone) {
    assumed.emplace_back("units recompute activations: see torch.utils.checkpoint");
  }
  if (program.splits_parameters() && program.request().prefetch == 0) {
    assumed.emplace_back("nothing is gathered ahead; FSDP2 gathers one unit ahead all the same");
  }
  return assumed;
}

std::string header(const Program& program) {
  const StrategyFigures& figures = program.figures;
  const std::string known = known_as_text(figures.strategy);
  std::string text = "# Written by paro plan, which was given:\n";
  text += comment(program.report.options.command);
  text += "# The plan:\n";
  text += comment(fmt::format("strategy {}{}",
                              letters(figures.strategy),
                              known.empty() ? "" : fmt::format(" ({})", known)));
  text += comment("groups: " + groups_text(program.request()));
  text += comment(fmt::format("a step of {} {} takes {} as expected",
                              figures.micro_batches,
                              figures.micro_batches == 1 ? "micro-batch" : "micro-batches",
                              ho::seconds_text(figures.time.step_s)));
  std::string memory = "a rank needs " + ho::bytes_text(figures.memory.total());
  if (program.request().memory_bytes > 0) {
    memory += " of " + ho::bytes_text(program.request().memory_bytes);
  }
  text += comment(memory + (figures.fits() ? "" : ": it does not fit"));
  const std::vector<std::string> assumed = assumed_by(program);
  text += assumed.empty() ? "" : "# Assumed:\n";
  for (const std::string& each : assumed) {
    text += comment(each);
  }
  return text;
}

std::string imports(const Program& program) {
  std::string text =
      R"("""Trains by the plan above: shard() the model, make_optimizer(), and train_step()."""

from __future__ import annotations

)";
  text += program.is_ddp() ? "import contextlib\n" : "";
  text += R"(from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
)";
  if (program.is_ddp()) {
    text += program.reduces_narrow()
                ? "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                : "";
    return text + "from torch.nn.parallel import DistributedDataParallel\n";
  }
  text += program.is_fsdp2()
              ? "from torch.distributed.device_mesh import init_device_mesh\n"
                "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n"
              : "from torch.distributed.fsdp import MixedPrecisionPolicy\n\n"
                "import paro.torch\n";
  return text;
}

std::string policy(const Program& program) {
  const std::string_view type = program.compute_type();
  if (program.is_ddp()) {
    return fmt::format("COMPUTE_TYPE = {}\n", type.empty() ? "None" : type);
  }
  if (type.empty()) {
    return "POLICY = MixedPrecisionPolicy()\n";
  }
  const bool narrow = program.reduces_narrow() && !program.sums_in_fp32();
  return fmt::format("POLICY = MixedPrecisionPolicy(param_dtype={}, reduce_dtype={})\n",
                     type,
                     narrow ? type : "torch.float32");
}

std::string constants(const Program& program) {
  const WorldShape& world = program.request().world;
  std::string text = fmt::format("\nSTRATEGY = \"{}\"\n", letters(program.strategy()));
  text += fmt::format("GROUPS, GROUP_SIZE = {}, {}\n", world.group_count, world.group_size);
  text += fmt::format("MICRO_BATCHES = {}  # of a step\n", program.figures.micro_batches);
  text +=
      fmt::format("MICRO_BATCH = {}  # samples of a rank in one of them\n", program.micro_batch());
  if (program.splits_parameters() && program.request().prefetch > 1) {
    text += fmt::format("PREFETCH = {}  # units gathered ahead\n", program.request().prefetch);
  }
  text += policy(program);
  if (program.precision() == Precision::kFp32 &&
      program.report.options.precision == Precision::kTf32) {
    text += "torch.set_float32_matmul_precision(\"high\")  # tf32\n";
  }
  return text;
}

constexpr std::string_view kCheckRanks = R"(    if dist.get_world_size() != GROUPS * GROUP_SIZE:
        raise RuntimeError(f"planned for {GROUPS * GROUP_SIZE} ranks, this job has {dist.get_world_size()}")
)";

constexpr std::string_view kShardHead = R"(

def shard(model: Any, units: Sequence[nn.Module], device_type: str = "cuda") -> Any:
    """Shards the units, in the order of the forward pass, and then what the model has beside them.

    Collective. Returns the model to train.
    """
)";

// The mesh and the calls.
std::string fully_shard_calls(const Program& program) {
  if (!program.is_fsdp2()) {
    return R"(    mesh = paro.torch.init_mesh(device_type, GROUP_SIZE)
    for module in (*units, model):
        paro.torch.fully_shard(module, mesh=mesh, strategy=STRATEGY, mp_policy=POLICY)
)";
  }
  const bool hybrid = shards_of(program.strategy()) == Scope::kGroup;
  std::string text = hybrid
                         ? "    shape, names = (GROUPS, GROUP_SIZE), (\"replicate\", \"shard\")\n"
                         : "    shape, names = (GROUPS * GROUP_SIZE,), (\"shard\",)\n";
  text += "    mesh = init_device_mesh(device_type, shape, mesh_dim_names=names)\n";
  return text + fmt::format(R"(    for module in (*units, model):
        fully_shard(module, mesh=mesh, mp_policy=POLICY, reshard_after_forward={})
)",
                            program.splits_parameters() ? "True" : "False");
}

constexpr std::string_view kPrefetch = R"(    for index, module in enumerate(units):
        module.set_modules_to_forward_prefetch(list(units[index + 1 : index + 1 + PREFETCH]))
        module.set_modules_to_backward_prefetch(list(units[max(index - PREFETCH, 0) : index])[::-1])
)";

std::string shard_function(const Program& program) {
  std::string text(kShardHead);
  text += kCheckRanks;
  if (program.is_ddp()) {
    text += R"(    devices = [torch.cuda.current_device()] if device_type == "cuda" else None
    wrapped = DistributedDataParallel(model, device_ids=devices)
)";
    if (program.reduces_narrow()) {
      text += fmt::format("    wrapped.register_comm_hook(None, default_hooks.{}_compress_hook)\n",
                          program.precision() == Precision::kFp16 ? "fp16" : "bf16");
    }
    return text + "    return wrapped\n";
  }
  text += fully_shard_calls(program);
  text += program.splits_parameters() && program.request().prefetch > 1 ? kPrefetch : "";
  return text + "    return model\n";
}

std::string optimizer_function(const Program& program) {
  return fmt::format(R"(

def make_optimizer(model: Any, kind: Callable[..., Any] = torch.optim.AdamW, **options: Any) -> Any:
    """The optimizer of what shard() returned. Collective."""
    return {}
)",
                     program.is_fsdp2() ? "kind(model.parameters(), **options)"
                                        : "paro.torch.Optimizer(kind, model, **options)");
}

// What FSDP2 is told before each micro-batch, in a function of its own.
std::string begin_function(const Program& program) {
  const Strategy& strategy = program.strategy();
  std::string text = R"(

def _begin(model: Any, last: bool) -> None:
    """Tells FSDP2 what to do after a micro-batch, the last one of its step or not."""
)";
  std::string calls;
  if (!program.splits_parameters()) {
    calls += "    model.set_reshard_after_backward(last)\n";
  }
  if (strategy.gradients == Scope::kReplicated) {
    calls += "    model.set_requires_gradient_sync(last)\n";
  } else if (strategy.gradients == Scope::kGroup) {
    calls += "    model.set_requires_all_reduce(last)\n";
  }
  return calls.empty() ? std::string() : text + calls;
}

// The micro-batch's own lines, in the loop over all.
std::string pass_lines(const Program& program, bool begins) {
  if (!program.is_fsdp2()) {
    return R"(        with paro.torch.microbatch(model, last=last):
            loss = loss_of(model, batch) / MICRO_BATCHES
            loss.backward()
)";
  }
  if (program.is_ddp()) {
    return R"(        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast(model.device.type, COMPUTE_TYPE, enabled=COMPUTE_TYPE is not None):
                loss = loss_of(model, batch) / MICRO_BATCHES
            loss.backward()
)";
  }
  return std::string(begins ? "        _begin(model, last)\n" : "") +
         R"(        loss = loss_of(model, batch) / MICRO_BATCHES
        loss.backward()
)";
}

std::string step_function(const Program& program, bool begins) {
  return std::string(R"(

def train_step(model: Any, optimizer: Any, batches: Iterable[Any], loss_of: Callable[..., Any]) -> Any:
    """A step over MICRO_BATCHES batches, of which loss_of(model, batch) gives the mean loss.

    Collective. Returns this rank's mean loss.
    """
    parts = list(batches)
    if len(parts) != MICRO_BATCHES:
        raise ValueError(f"a step has {MICRO_BATCHES} micro-batches, not {len(parts)}")
    losses = []
    for index, batch in enumerate(parts):
        last = index + 1 == MICRO_BATCHES
)") + pass_lines(program, begins) +
         R"(        losses.append(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
    return torch.stack(losses).sum()
)";
}

std::string_view framework(ExportTarget target) {
  return target == ExportTarget::kFsdp2 ? "FSDP2 alone" : "paro.torch";
}

// The best of those that the target can have; where none of them fits the one that takes least.
const StrategyFigures& nearest(ExportTarget target, const Recommendation& plan) {
  for (const size_t row : plan.ranking) {
    if (can_have(target, plan.figures[row].strategy)) {
      return plan.figures[row];
    }
  }
  return plan.figures.back();  // GGG
}

ho::Status refuse(const Report& report, const StrategyFigures& figures) {
  const ExportTarget target = *report.options.export_to;
  const ho::OptionNames& named = report.options.named;
  const StrategyFigures& other = nearest(target, report.recommendation);
  return ho::invalid(fmt::format(
      "{} {}: {} cannot have {}; the nearest that it can is {}, {} a step for {}{}: give {} {}{}",
      named("export"),
      kExportTargetNames.at(static_cast<size_t>(target)),
      framework(target),
      letters(figures.strategy),
      letters(other.strategy),
      ho::seconds_text(other.time.step_s),
      ho::seconds_text(figures.time.step_s),
      other.fits() ? "" : ", which does not fit",
      named("strategy"),
      letters(other.strategy),
      can_have(ExportTarget::kParoTorch, figures.strategy)
          ? fmt::format(", or {} paro.torch", named("export"))
          : std::string()));
}

}  // namespace

bool can_have(ExportTarget target, const Strategy& strategy) {
  const bool splits_shards = shards_of(strategy) != strategy.optimizer;
  if (target == ExportTarget::kFsdp2) {
    return !splits_shards;
  }
  return !(strategy == Strategy{Scope::kWorld, Scope::kGroup, Scope::kWorld});
}

ho::Result<std::string> program_text(const Report& report) {
  const PlanOptions& options = report.options;
  const Recommendation& plan = report.recommendation;
  if (options.job && !options.job->sizes.alone()) {
    return ho::invalid(fmt::format("{} takes data parallelism alone: leave out {}, {}, {} and {}",
                                   options.named("export"),
                                   options.named("tp"),
                                   options.named("pp"),
                                   options.named("cp"),
                                   options.named("ep")));
  }
  const auto named =
      std::find_if(plan.figures.begin(), plan.figures.end(), [&](const StrategyFigures& figures) {
        return options.strategy && figures.strategy == *options.strategy;
      });
  const StrategyFigures* const figures = named == plan.figures.end() ? plan.recommended() : &*named;
  if (figures == nullptr) {
    return ho::invalid(fmt::format("{}: no strategy fits; give {} for one that does not",
                                   options.named("export"),
                                   options.named("strategy")));
  }
  if (!can_have(*options.export_to, figures->strategy)) {
    return refuse(report, *figures);
  }
  const Program program{*options.export_to, report, *figures};
  const bool own_switches = program.is_fsdp2() && !program.is_ddp();
  const std::string begin = own_switches ? begin_function(program) : std::string();
  return header(program) + imports(program) + constants(program) + shard_function(program) +
         optimizer_function(program) + begin + step_function(program, !begin.empty());
}

}  // namespace paro
