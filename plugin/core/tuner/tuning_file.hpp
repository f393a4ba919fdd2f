// A file of what to choose, before the model (HORING_TUNING_FILE). One line per rule:
//
//     collective,min_bytes,max_bytes,nodes,ranks_per_node,choice
//     all_reduce,256K,*,4,8,collnet_chain      # from 256 KiB on, on 4 nodes of 8 ranks
//     *,*,32K,*,*,default                      # NCCL's own choice up to 32 KiB
//
// collective: all_reduce, all_gather, reduce_scatter, or * for all three. min_bytes and max_bytes,
// both included, are whole numbers with K, M, G, T (powers of 1024) or nothing after them, * or -1
// for no limit; they are NCCL's sizes: of all ranks together, for all-reduce the buffer. nodes and
// ranks_per_node: whole numbers from 1, * or -1 for any; a number of ranks per node matches where
// all nodes have so many. choice: default, own, ring, tree, collnet_direct, collnet_chain, nvls,
// nvls_tree or pat; default leaves the choice to NCCL, not to the model, and own leaves it to NCCL
// among what does not go through CollNet. Blanks around fields,
// empty lines and what follows a # count for nothing. The first rule that matches decides; a choice
// that NCCL does not allow for a call leaves that call to NCCL. An algorithm that no NCCL has for
// the collective that a rule names is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "core/tuner/choice.hpp"
#include "core/tuner/inputs.hpp"

namespace ho::plugin {

struct TuningRule {
  std::optional<TunedCollective> collective;  // nothing: any, as for what follows
  uint64_t min_bytes = 0;
  uint64_t max_bytes = UINT64_MAX;
  std::optional<uint32_t> nodes;
  std::optional<uint32_t> ranks_per_node;
  Choice choice = Choice::kDefault;
  uint32_t line = 0;  // from 1

  [[nodiscard]] bool is_for(const CommonInputs& inputs, TunedCollective requested) const;
};

class TuningFile {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 20U;
  static constexpr size_t kMaxRules = 1024;

  TuningFile() = default;  // without rules
  // An error begins with "PATH:LINE:COLUMN: " and names what is wrong. `path` is for messages.
  [[nodiscard]] static Result<TuningFile> parse(std::string_view text, const std::string& path);
  // Regular files only, and never more than kMaxBytes of one.
  [[nodiscard]] static Result<TuningFile> load(const std::string& path);

  [[nodiscard]] const std::vector<TuningRule>& rules() const { return rules_; }
  // The first rule for a call.
  [[nodiscard]] const TuningRule* find(const CommonInputs& inputs,
                                       TunedCollective collective,
                                       uint64_t bytes) const;
  // Equal for files with the same rules, whatever their blanks and comments; 0 without rules.
  [[nodiscard]] uint64_t digest() const;

 private:
  std::vector<TuningRule> rules_;
};

// From HORING_TUNING_FILE; without rules where that is not set.
[[nodiscard]] Result<TuningFile> tuning_file_from_environment();

}  // namespace ho::plugin
