// One communicator's tuner: all decisions are made when it is built, a call looks its own up.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "core/tuner/chunk.hpp"
#include "core/tuner/cost.hpp"
#include "core/tuner/cost_table.hpp"
#include "core/tuner/inputs.hpp"
#include "core/tuner/tuning_file.hpp"

namespace ho::plugin {

struct Call {
  TunedCollective collective = TunedCollective::kAllReduce;
  uint64_t bytes = 0;       // NCCL's: of all ranks together; of all operations of a group together
  uint32_t operations = 1;  // which NCCL runs as one; 0 counts as 1
  bool registered = false;

  // CollNet runs the operations of a group one after the other, and NCCL counts a ring's latency
  // for each, so each is modelled by itself.
  [[nodiscard]] uint64_t bytes_of_one() const { return bytes / (operations == 0 ? 1 : operations); }
};

// From `first_bytes` to before the next range.
struct ChoiceRange {
  uint64_t first_bytes = 0;
  Choice choice = Choice::kDefault;
  uint32_t line = 0;  // of the tuning file's rule; 0: the model's choice

  friend bool operator==(const ChoiceRange&, const ChoiceRange&) = default;
};

// One of NCCL's own algorithms, or kDefault where the model has none, and its protocol.
struct OwnAlgorithm {
  Choice choice = Choice::kDefault;
  bool low_latency = false;  // LL, else SIMPLE
};

class Tuner {
 public:
  // The same for equal arguments, on every rank. An error where the inputs contradict themselves.
  [[nodiscard]] static Result<Tuner> make(const CommonInputs& inputs, const TuningFile& file);

  // What to take among `allowed` (of CostTable, or allowed_by_support()); kDefault: NCCL's choice,
  // kOwn: NCCL's choice among what does not go through CollNet.
  [[nodiscard]] Choice choose(const Call& call, Choices allowed) const noexcept;
  // Makes NCCL take what we choose: one entry of its table becomes the least, or those of CollNet
  // are forbidden, or nothing is written (kDefault). What was chosen.
  [[nodiscard]] Choice apply(const Call& call, CostTable table) const noexcept;
  // For an NCCL that takes one algorithm: what to name where choose() returns kOwn.
  [[nodiscard]] OwnAlgorithm best_own(const Call& call, Choices allowed) const noexcept;
  [[nodiscard]] uint64_t chunk_bytes(const ChunkRequest& request) const noexcept {
    return chosen_chunk_bytes(inputs_, request);
  }

  // What apply() does where NCCL allows these, for people: the first range begins at 0, neighbours
  // differ.
  [[nodiscard]] std::vector<ChoiceRange> ranges(TunedCollective collective,
                                                bool registered,
                                                Choices allowed) const;
  [[nodiscard]] const CommonInputs& inputs() const { return inputs_; }

 private:
  using Ranges = std::vector<ChoiceRange>;  // sorted; the first begins at 0
  // Sets of the choices that the model compares, which are the last five.
  static constexpr uint32_t kFirstRequested = static_cast<uint32_t>(Choice::kCollNetDirect);
  static constexpr size_t kRequestedSets = Choices::kSetCount >> kFirstRequested;

  Tuner(const CommonInputs& inputs, const TuningFile& file);
  [[nodiscard]] const Ranges& model(TunedCollective collective,
                                    bool registered,
                                    Choices allowed) const noexcept;
  [[nodiscard]] ChoiceRange look_up(TunedCollective collective,
                                    bool registered,
                                    Choices allowed,
                                    uint64_t bytes) const noexcept;

  // The same, but for what NCCL forbids and may be forced, which is taken only where nothing that
  // it allows will do.
  [[nodiscard]] ChoiceRange look_up_forcing(TunedCollective collective,
                                            bool registered,
                                            Choices allowed,
                                            uint64_t bytes) const noexcept;

  CommonInputs inputs_;
  bool registered_differ_;  // from calls whose buffers are not
  std::array<Ranges, kTunedCollectiveCount> rules_;
  std::array<std::array<std::array<Ranges, kRequestedSets>, 2>, kTunedCollectiveCount> models_;
};

}  // namespace ho::plugin
