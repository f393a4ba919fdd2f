#include <algorithm>
#include <map>

#include "run/agreement.hpp"
#include "run/states.hpp"

namespace paro {
namespace {

// Hashes of what some ranks must have in common, and what each is of.
struct Common {
  ho_comm* comm = nullptr;
  std::vector<uint64_t> hashes;
  std::vector<std::string> names;
};

// The copies of storages by the ranks that have them, in the order of their communicator: so all
// ranks compare in one order.
class Copies {
 public:
  explicit Copies(const Shards& shards)
      : domains_(*shards.domains), operations_(shards.ledger.operations()) {}

  // The whole on all ranks, or each segment on its owners.
  void add(const Storage& storage,
           Scope scope,
           const Partition& partition,
           const std::string& name) {
    const uint64_t count = partition.padded_count();
    if (scope == Scope::kReplicated && count > 0) {
      Common& common = by_ranks_[world_order(domains_.groups())];
      common.comm = domains_.world();
      append(common, storage, {0, count}, partition.element_count(), name);
    }
    const auto group = domains_.groups().group_of(domains_.self());
    for (const Segment& segment : partition.segments()) {
      if (scope == Scope::kGroup && segment.owners[group.at()] == domains_.self()) {
        Common& common = by_ranks_[segment.owners];
        common.comm = domains_.inter(segment.owners);
        append(common, storage, segment.range, partition.element_count(), name);
      }
    }
  }

  // "" or what differs, and whose.
  [[nodiscard]] ho::Result<std::string> compare(uint64_t timeout_ms) const {
    HORING_TRY(operations_.finish());
    std::string difference;
    for (const auto& [ranks, common] : by_ranks_) {
      if (common.comm == nullptr) {
        continue;
      }
      HORING_ASSIGN(const auto all, all_gather_values(common.comm, common.hashes, timeout_ms));
      const size_t count = common.hashes.size();
      for (size_t at = count; at < all.size() && difference.empty(); ++at) {
        if (all[at] != all[at % count]) {
          difference = "rank " + std::to_string(ranks[at / count].value()) + " differs from rank " +
                       std::to_string(ranks[0].value()) + " in " + common.names[at % count];
        }
      }
    }
    return difference;
  }

 private:
  // `elements`: what of the buffer is no padding, of which readers know nothing.
  void append(Common& common,
              const Storage& storage,
              const Range& range,
              uint64_t elements,
              const std::string& name) const {
    const uint64_t bytes = range.count() * ho::size_bytes(storage.dtype());
    common.hashes.push_back(operations_.hash(storage.at(range.begin), bytes));
    common.names.push_back(name + ", elements " + std::to_string(range.begin) + " to " +
                           std::to_string(std::min(range.end, elements) - 1));
  }

  const Domains& domains_;
  const Operations& operations_;
  std::map<std::vector<ho::GlobalRank>, Common> by_ranks_;
};

}  // namespace

ho::Result<std::string> difference_of_copies(const Shards& shards) {
  const RunnerConfig& config = shards.config;
  Copies copies(shards);
  for (size_t u = 0; u < shards.units.size(); ++u) {
    const std::string unit = unit_name(config, u) + ", ";
    const UnitState& state = shards.units[u];
    const UnitLayout& layout = shards.layouts[u];
    copies.add(state.parameters, config.strategy.parameters, layout.trained, unit + "parameters");
    copies.add(state.frozen, config.frozen, layout.frozen, unit + "frozen parameters");
    for (const Storage& array : state.optimizer) {
      copies.add(array, config.strategy.optimizer, layout.trained, unit + "optimizer state");
    }
  }
  HORING_ASSIGN(std::string difference, copies.compare(config.timeout_ms));
  if (ho_comm* const world = shards.domains->world(); world != nullptr) {
    const uint64_t drifted = difference.empty() ? 0 : 1;
    HORING_ASSIGN(const auto all, all_gather_values(world, {&drifted, 1}, config.timeout_ms));
    if (drifted == 0 && *std::max_element(all.begin(), all.end()) != 0) {
      difference = "other ranks know in what";
    }
  }
  return difference;
}

}  // namespace paro
