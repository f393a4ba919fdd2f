#include "core/tuner/tuner.hpp"

#include <algorithm>

namespace ho::plugin {
namespace {

// The model is computed at four sizes per power of two, up to the largest that NCCL's sizes reach;
// between two of them with different results the exact size is searched for.
constexpr uint32_t kLargestPower = 44;
constexpr uint64_t kSizesPerPower = 4;
// Rounding makes decisions flicker where two costs cross; one crossing is as good as the next.
constexpr uint32_t kMaxChangesBetweenSizes = 3;

// Choices that make a difference to the model.
Choices requested(TunedCollective collective) {
  const Choices always = Choices().with(Choice::kCollNetDirect).with(Choice::kNvls);
  return collective == TunedCollective::kAllReduce
             ? always.with(Choice::kCollNetChain).with(Choice::kNvlsTree)
             : always.with(Choice::kPat);
}

std::vector<uint64_t> sizes_to_ask() {
  std::vector<uint64_t> sizes{1, 2, 3};
  for (uint32_t power = 2; power <= kLargestPower; ++power) {
    for (uint64_t quarter = 0; quarter < kSizesPerPower; ++quarter) {
      sizes.push_back((uint64_t{1} << power) / kSizesPerPower * (kSizesPerPower + quarter));
    }
  }
  return sizes;
}

// The model's choices for one collective.
class Modelled {
 public:
  Modelled(const CommonInputs& inputs, TunedCollective collective, bool registered)
      : inputs_(inputs), question_{collective, 0, registered}, sizes_(sizes_to_ask()) {
    for (const uint64_t size : sizes_) {
      costs_.push_back(costs(size));
    }
  }

  [[nodiscard]] std::vector<ChoiceRange> ranges(Choices possible) const {
    std::vector<ChoiceRange> ranges{{0, choice(1, possible)}};
    uint64_t before = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const Choice here = decide(costs_[i], possible).choice;
      add_changes(before, {sizes_[i], here}, possible, ranges);
      before = sizes_[i];
    }
    return ranges;
  }

 private:
  [[nodiscard]] Costs costs(uint64_t bytes) const {
    return modelled_costs(inputs_, {question_.collective, bytes, question_.registered});
  }
  [[nodiscard]] Choice choice(uint64_t bytes, Choices possible) const {
    return decide(costs(bytes), possible).choice;
  }

  // The changes after `low`, where the last range's choice holds, up to `high`.
  void add_changes(uint64_t low,
                   const ChoiceRange& high,
                   Choices possible,
                   std::vector<ChoiceRange>& ranges) const {
    for (uint32_t i = 0; ranges.back().choice != high.choice; ++i) {
      const Choice old = ranges.back().choice;
      uint64_t first_other = high.first_bytes;
      while (i < kMaxChangesBetweenSizes && first_other - low > 1) {
        const uint64_t middle = low + (first_other - low) / 2;
        (choice(middle, possible) == old ? low : first_other) = middle;
      }
      const bool at_end = first_other == high.first_bytes;
      ranges.push_back({first_other, at_end ? high.choice : choice(first_other, possible)});
      low = first_other;
    }
  }

  const CommonInputs& inputs_;
  Question question_;
  std::vector<uint64_t> sizes_;
  std::vector<Costs> costs_;
};

const ChoiceRange& range_at(const std::vector<ChoiceRange>& ranges, uint64_t bytes) noexcept {
  return *(std::ranges::upper_bound(ranges, bytes, {}, &ChoiceRange::first_bytes) - 1);
}

// Where the file has no rule the line is 0.
std::vector<ChoiceRange> ranges_of_rules(const CommonInputs& inputs,
                                         const TuningFile& file,
                                         TunedCollective collective) {
  std::vector<uint64_t> starts{0};
  for (const TuningRule& rule : file.rules()) {
    if (rule.is_for(inputs, collective)) {
      starts.push_back(rule.min_bytes);
      if (rule.max_bytes != UINT64_MAX) {
        starts.push_back(rule.max_bytes + 1);
      }
    }
  }
  std::ranges::sort(starts);
  std::vector<ChoiceRange> ranges;
  for (const uint64_t start : starts) {
    const TuningRule* const rule = file.find(inputs, collective, start);
    const ChoiceRange range = rule == nullptr ? ChoiceRange{start, Choice::kDefault, 0}
                                              : ChoiceRange{start, rule->choice, rule->line};
    if (ranges.empty() || ranges.back().line != range.line) {
      ranges.push_back(range);
    }
  }
  return ranges;
}

}  // namespace

Result<Tuner> Tuner::make(const CommonInputs& inputs, const TuningFile& file) {
  HORING_TRY(check(inputs));
  return Tuner(inputs, file);
}

Tuner::Tuner(const CommonInputs& inputs, const TuningFile& file)
    : inputs_(inputs), registered_differ_(inputs.whole_windows == 1 && inputs.one_rank_per_node()) {
  for (const TunedCollective collective : kTunedCollectives) {
    const auto number = static_cast<size_t>(collective);
    rules_[number] = ranges_of_rules(inputs_, file, collective);
    for (size_t registered = 0; registered < (registered_differ_ ? 2 : 1); ++registered) {
      const Modelled modelled(inputs_, collective, registered == 1);
      for (size_t set = 0; set < kRequestedSets; ++set) {
        const Choices possible(static_cast<uint8_t>(set << kFirstRequested));
        if (possible.in(requested(collective)) == possible) {
          models_[number][registered][set] = modelled.ranges(possible);
        }
      }
    }
  }
}

const Tuner::Ranges& Tuner::model(TunedCollective collective,
                                  bool registered,
                                  Choices allowed) const noexcept {
  const size_t kind = registered && registered_differ_ ? 1 : 0;
  const size_t set =
      static_cast<size_t>(allowed.in(requested(collective)).bits()) >> kFirstRequested;
  return models_[static_cast<size_t>(collective)][kind][set];
}

ChoiceRange Tuner::look_up(TunedCollective collective,
                           bool registered,
                           Choices allowed,
                           uint64_t bytes) const noexcept {
  const ChoiceRange& rule = range_at(rules_[static_cast<size_t>(collective)], bytes);
  if (rule.line == 0) {
    return range_at(model(collective, registered, allowed), bytes);
  }
  const bool can = rule.choice == Choice::kOwn || allowed.has(rule.choice);
  return {rule.first_bytes, can ? rule.choice : Choice::kDefault, rule.line};
}

ChoiceRange Tuner::look_up_forcing(TunedCollective collective,
                                   bool registered,
                                   Choices allowed,
                                   uint64_t bytes) const noexcept {
  const ChoiceRange found = look_up(collective, registered, allowed, bytes);
  const bool settled = found.choice != Choice::kDefault && found.choice != Choice::kOwn;
  if (settled || allowed.has(Choice::kCollNetDirect) ||
      !may_force_collnet_direct(inputs_, collective, allowed)) {
    return found;
  }
  const ChoiceRange forced =
      look_up(collective, registered, allowed.with(Choice::kCollNetDirect), bytes);
  return forced.choice == Choice::kCollNetDirect ? forced : found;
}

Choice Tuner::choose(const Call& call, Choices allowed) const noexcept {
  return look_up(call.collective, call.registered, allowed, call.bytes_of_one()).choice;
}

Choice Tuner::apply(const Call& call, CostTable table) const noexcept {
  const Choices allowed = table.allowed();
  // NCCL then has an error to report, which is not ours to hide.
  if (allowed == Choices()) {
    return Choice::kDefault;
  }
  const Choice choice =
      look_up_forcing(call.collective, call.registered, allowed, call.bytes_of_one()).choice;
  if (choice == Choice::kCollNetDirect && !allowed.has(choice)) {
    table.force_collnet_direct();
    return choice;
  }
  if (choice == Choice::kOwn) {
    if (inputs_.node_count > 1) {  // NVLS on one node is NCCL's own
      table.forbid_rails();
    }
    return choice;
  }
  return table.select(choice) ? choice : Choice::kDefault;
}

OwnAlgorithm Tuner::best_own(const Call& call, Choices allowed) const noexcept {
  const Question question{call.collective, call.bytes_of_one(), false};
  OwnAlgorithm own;
  own.choice = decide(modelled_costs(inputs_, question), allowed).rival;
  own.low_latency = low_latency_is_faster(inputs_, question, own.choice);
  return own;
}

std::vector<ChoiceRange> Tuner::ranges(TunedCollective collective,
                                       bool registered,
                                       Choices allowed) const {
  std::vector<uint64_t> starts;
  const Choices with_direct = allowed.with(Choice::kCollNetDirect);
  for (const Ranges* list : {&rules_[static_cast<size_t>(collective)],
                             &model(collective, registered, allowed),
                             &model(collective, registered, with_direct)}) {
    for (const ChoiceRange& range : *list) {
      starts.push_back(range.first_bytes);
    }
  }
  std::ranges::sort(starts);
  std::vector<ChoiceRange> merged;
  for (const uint64_t start : starts) {
    ChoiceRange range = look_up_forcing(collective, registered, allowed, start);
    range.first_bytes = start;
    if (merged.empty() || merged.back().choice != range.choice ||
        merged.back().line != range.line) {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace ho::plugin
