#include "run/loads.hpp"

#include <algorithm>
#include <array>

#include "base/hash.hpp"
#include "run/agreement.hpp"

namespace paro {

void Loads::note(const RunnerConfig& config,
                 uint32_t unit,
                 std::span<const float> trained,
                 std::span<const float> frozen) {
  if (!config.unchecked_loads) {
    hashes_.resize(config.units.size(), 0);
    hashes_[unit] = ho::Hash().add(std::as_bytes(trained)).add(std::as_bytes(frozen)).value();
  }
}

std::vector<uint64_t> Loads::hashes(size_t units) const {
  std::vector<uint64_t> hashes = hashes_;
  hashes.resize(units, 0);
  return hashes;
}

ho::Status Loads::agree(const Shards& shards, const std::string& where) const {
  ho_comm* const world = shards.domains->world();
  return world == nullptr ? ho::Status()
                          : same_loads(world,
                                       hashes(shards.units.size()),
                                       shards.config.units,
                                       where,
                                       shards.config.timeout_ms,
                                       shards.ranks());
}

ho::Status agree_on_read(
    Shards& shards, const Loads& loads, const char* what, uint32_t unit, uint64_t capacity) {
  if (shards.domains->world() == nullptr) {
    return {};
  }
  const std::string name = what;
  const std::array<uint64_t, 4> mine{
      ho::Hash().add(name).value(), unit, capacity, loads.any() ? 1U : 0U};
  const auto all = all_gather_values(shards.domains->world(), mine, shards.config.timeout_ms);
  HORING_TRY(shards.break_unless_ok(all.status(), name + " of unit " + std::to_string(unit)));
  const std::vector<ho::GlobalRank> ranks = shards.ranks();
  const uint64_t* const first = all->data();
  bool any_loaded = loads.any();
  for (size_t rank = 1; rank * mine.size() < all->size(); ++rank) {
    const uint64_t* const theirs = first + rank * mine.size();
    any_loaded = any_loaded || first[3] != 0 || theirs[3] != 0;
    if (std::equal(first, first + 3, theirs)) {
      continue;
    }
    const bool capacity_alone = theirs[0] == first[0] && theirs[1] == first[1];
    std::string differ = name + " of unit " + std::to_string(unit) + ": rank ";
    differ += std::to_string(ranks[0].value());
    differ += capacity_alone ? " has room for " + std::to_string(first[2]) + " elements"
                             : " reads unit " + std::to_string(first[1]);
    differ += ", rank " + std::to_string(ranks[rank].value());
    differ +=
        capacity_alone ? " for " + std::to_string(theirs[2]) : " unit " + std::to_string(theirs[1]);
    differ += theirs[0] == first[0] ? "" : " of another state";
    differ += "; all ranks must read the same, in the same order";
    return {ho::StatusCode::kMismatch, differ};
  }
  return any_loaded ? loads.agree(shards, name) : ho::Status();
}

}  // namespace paro
