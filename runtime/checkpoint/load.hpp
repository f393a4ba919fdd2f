// Between a runner and a checkpoint: what a save of it is, and this rank's share of one, at
// whatever world size, groups and strategy it was saved.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/saver.hpp"
#include "run/step_runner.hpp"

namespace paro::checkpoint {

// "master", then what the rule keeps, in the runner's order.
[[nodiscard]] std::vector<std::string> state_names(const RunnerConfig& config);

// What a checkpoint of this runner has of it: without step, loss scale, files.
[[nodiscard]] Manifest manifest_of(const RunnerConfig& config);

// A save of what it has now, between steps: all but the framework's own parts. A copy is for what
// goes on in the background; otherwise the runner's own memory is read while it is saved.
enum class SaveFrom : uint8_t { kRunner, kCopy };
[[nodiscard]] ho::Result<SaveRequest> request_of(StepRunner& runner, Path folder, SaveFrom source);

struct LoadOptions {
  // Masters are loaded, the optimizer's own state stays zero: for another optimizer.
  bool reset_optimizer = false;
  // The model's: values are found by their names, wherever they lie in the checkpoint. None: the
  // units are those that were saved.
  std::vector<NamedTensor> tensors{};
};

// This rank's share. Not collective. Fails where the checkpoint is of another model, or of another
// optimizer and that is not to be left out.
[[nodiscard]] ho::Result<Snapshot> load(const Reader& reader,
                                        const StepRunner& runner,
                                        const LoadOptions& options);

}  // namespace paro::checkpoint
