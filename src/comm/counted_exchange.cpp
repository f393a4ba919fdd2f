#include "comm/counted_exchange.hpp"

#include <spdlog/fmt/fmt.h>

#include <numeric>
#include <utility>

#include "base/dtype.hpp"

namespace ho {
namespace {

constexpr uint32_t kMaxRanks = 4096;

// The first number of a row: the type, and above it the algorithm that the call wants, plus 1.
constexpr uint64_t kTypes = 256;

uint64_t first_of_row(DType dtype, std::optional<Algorithm> wanted) {
  const uint64_t algorithm = wanted ? 1 + static_cast<uint64_t>(*wanted) : 0;
  return static_cast<uint64_t>(dtype) + kTypes * algorithm;
}

std::string algorithm_text(uint64_t number) {
  if (number == 0) {
    return "auto";
  }
  return number <= kAlgorithmCount ? std::string(to_string(static_cast<Algorithm>(number - 1)))
                                   : "algorithm " + std::to_string(number - 1);
}

}  // namespace

Status check_counted_world(uint32_t world) {
  if (world > kMaxRanks) {
    return {StatusCode::kUnsupported,
            fmt::format("all_to_all_counts among {} ranks: at most {} are possible; split the "
                        "communicator, or use all_to_all",
                        world,
                        kMaxRanks)};
  }
  return {};
}

CountRows::CountRows(const CollectiveCall& requested,
                     std::optional<Algorithm> wanted,
                     uint32_t world)
    : world_(world), row_(1 + 2 * size_t{world}), all_(row_ * world, 0) {
  mine_.push_back(first_of_row(requested.dtype, wanted));
  mine_.insert(mine_.end(), requested.counts.begin(), requested.counts.end());
  mine_.insert(mine_.end(), requested.recv_counts.begin(), requested.recv_counts.end());
}

std::vector<uint64_t> CountRows::block_counts() const {
  std::vector<uint64_t> counts;
  counts.reserve(size_t{world_} * world_);
  for (uint32_t from = 0; from < world_; ++from) {
    for (uint32_t to = 0; to < world_; ++to) {
      counts.push_back(sent(from, to));
    }
  }
  return counts;
}

Status CountRows::compare(uint64_t most) const {
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (type_of(rank) != type_of(0)) {
      return {StatusCode::kMismatch,
              fmt::format("rank 0 passed {}, rank {} {}; pass the same type on all ranks",
                          type_of(0),
                          rank,
                          type_of(rank))};
    }
    if (all_[rank * row_] != all_[0]) {
      return {StatusCode::kMismatch,
              fmt::format("rank 0 wants the algorithm {}, rank {} {}; ask for the same on all "
                          "ranks",
                          algorithm_text(all_[0] / kTypes),
                          rank,
                          algorithm_text(all_[rank * row_] / kTypes))};
    }
  }
  for (uint32_t from = 0; from < world_; ++from) {
    for (uint32_t to = 0; to < world_; ++to) {
      HORING_TRY(compare_pair(from, to, most));
    }
  }
  return {};
}

std::string CountRows::type_of(uint32_t rank) const {
  const uint64_t value = all_[rank * row_] % kTypes;
  return value < kDTypeCount ? std::string(to_string(static_cast<DType>(value)))
                             : "dtype " + std::to_string(value);
}

Status CountRows::compare_pair(uint32_t from, uint32_t to, uint64_t most) const {
  const uint64_t sends = sent(from, to);
  const uint64_t expects = all_[to * row_ + 1 + world_ + from];
  if (sends > most) {
    return {
        StatusCode::kProtocol,
        fmt::format("rank {} sends {} elements to rank {}, beyond 64 TiB in all", from, sends, to)};
  }
  if (sends != expects) {
    return {StatusCode::kMismatch,
            fmt::format("rank {} sends {} elements to rank {}, which expects {}; send_counts[{}] "
                        "of rank {} and recv_counts[{}] of rank {} must be equal",
                        from,
                        sends,
                        to,
                        expects,
                        to,
                        from,
                        from,
                        to)};
  }
  return {};
}

CollectiveCall rows_call(const std::shared_ptr<CountRows>& rows, const CallOptions& options) {
  CollectiveCall call;
  call.collective = Collective::kAllGather;
  call.send = rows->mine();
  call.recv = rows->all();
  call.count = rows->row();
  call.dtype = DType::kUint64;
  call.options.timeout = options.timeout;
  call.options.label = options.label;
  call.owned = rows;
  return call;
}

Result<NextPart> PartToCome::data_part() const {
  HORING_TRY(rows->compare(most));
  NextPart part{call, nullptr};
  std::vector<uint64_t> counts = rows->block_counts();
  part.call.count = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  part.call.block_counts = BlockCounts(std::move(counts));
  SelectionInput whole = input;
  whole.message_bytes = part.call.count * size_bytes(call.dtype);
  whole.total_bytes = whole.message_bytes / call.world_size;
  HORING_ASSIGN(part.call.algorithm, select_algorithm(rules, whole));
  part.schedule = schedules.at(part.call.algorithm);
  return part;
}

}  // namespace ho
