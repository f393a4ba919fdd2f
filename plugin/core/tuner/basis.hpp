// What the tuners of all communicators use besides what NCCL passes to each of them: this node's
// NICs, the environment, the tuning file and the file of levels. Every rank has to get the same
// result without a message to others: docs/design/adr/0012-tuners-decide-the-same.md explains how.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "core/tuner/inputs.hpp"
#include "core/tuner/levels.hpp"
#include "core/tuner/tuner.hpp"
#include "core/tuner/tuning_file.hpp"

namespace ho::plugin {

// What NCCL passes to all ranks of a communicator, with the same values.
struct CommunicatorShape {
  uint64_t ranks = 0;
  uint64_t nodes = 0;
  // Ranks on the nodes that have fewest and most; nothing where NCCL's version does not give it.
  // Then nodes are taken to have equally many, as far as the numbers permit it.
  struct Local {
    uint64_t least = 0;
    uint64_t most = 0;
  };
  std::optional<Local> local;
  bool asks_chunk_sizes = false;
  // Set only where every rank knows it.
  bool collnet_connected = false;
};

class TunerBasis {
 public:
  // nic_mbps: of this node's network devices; none where our CollNet does not run, so that only
  // the tuning file counts, and levels are not read. An error where a HORING_TUNER_* is wrong.
  [[nodiscard]] static Result<TunerBasis> from_environment(std::span<const uint32_t> nic_mbps,
                                                           bool reduces_all_types);

  // Leaves every choice to NCCL.
  [[nodiscard]] static TunerBasis silent() { return TunerBasis(CommonInputs(), TuningFile()); }

  // consistency_text() of it. A file that cannot be used is equal to no other.
  [[nodiscard]] std::string consistency() const {
    return consistency_text(inputs_) + consistency_text(levels_);
  }
  [[nodiscard]] bool has_files() const {
    return inputs_.tuning_file_digest != 0 || !levels_.ok() || levels_->has_value();
  }
  [[nodiscard]] bool can_follow_files() const { return file_.ok() && levels_.ok(); }
  // An error that names file, place and reason where a file is malformed. Levels that do not hold
  // the communicator are named in a warning, and do not count.
  [[nodiscard]] Result<std::unique_ptr<Tuner>> tuner_for(const CommunicatorShape& shape) const;

 private:
  TunerBasis(const CommonInputs& inputs, Result<TuningFile> file);

  CommonInputs inputs_;  // but for the communicator
  Result<TuningFile> file_;
  CommonInputs devices_ = {};  // the same, of this node's devices alone
  Result<std::optional<cost::Cluster>> levels_ = std::optional<cost::Cluster>();
};

}  // namespace ho::plugin
