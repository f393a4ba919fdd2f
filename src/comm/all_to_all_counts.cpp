// All-to-all with counts per rank. A rank knows what it sends and what it expects, but the routes
// pass through ranks that know neither. So the operation has two parts: the ranks gather all rows
// of counts, then move the data. Each rank compares all rows, so that all find the same mismatch.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "comm/communicator.hpp"

namespace ho {
namespace {

// Every rank has the counts of all pairs of ranks.
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

// The rows as they are gathered: of each rank its type and algorithm, what it sends to each rank,
// and what it expects of each.
class CountRows {
 public:
  CountRows(const CollectiveCall& requested, std::optional<Algorithm> wanted, uint32_t world)
      : world_(world), row_(1 + 2 * size_t{world}), all_(row_ * world, 0) {
    mine_.push_back(first_of_row(requested.dtype, wanted));
    mine_.insert(mine_.end(), requested.counts.begin(), requested.counts.end());
    mine_.insert(mine_.end(), requested.recv_counts.begin(), requested.recv_counts.end());
  }

  [[nodiscard]] const uint64_t* mine() const { return mine_.data(); }
  [[nodiscard]] uint64_t* all() { return all_.data(); }
  [[nodiscard]] size_t row() const { return row_; }
  [[nodiscard]] uint64_t sent(uint32_t from, uint32_t to) const {
    return all_[from * row_ + 1 + to];
  }
  // By block, as role_of() numbers them.
  [[nodiscard]] std::vector<uint64_t> block_counts() const {
    std::vector<uint64_t> counts;
    counts.reserve(size_t{world_} * world_);
    for (uint32_t from = 0; from < world_; ++from) {
      for (uint32_t to = 0; to < world_; ++to) {
        counts.push_back(sent(from, to));
      }
    }
    return counts;
  }

  // `most`: elements that a rank may send to another.
  [[nodiscard]] Status compare(uint64_t most) const {
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

 private:
  [[nodiscard]] std::string type_of(uint32_t rank) const {
    const uint64_t value = all_[rank * row_] % kTypes;
    return value < kDTypeCount ? std::string(to_string(static_cast<DType>(value)))
                               : "dtype " + std::to_string(value);
  }
  [[nodiscard]] Status compare_pair(uint32_t from, uint32_t to, uint64_t most) const {
    const uint64_t sends = sent(from, to);
    const uint64_t expects = all_[to * row_ + 1 + world_ + from];
    if (sends > most) {
      return {StatusCode::kProtocol,
              fmt::format(
                  "rank {} sends {} elements to rank {}, beyond 64 TiB in all", from, sends, to)};
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

  uint32_t world_;
  size_t row_;
  std::vector<uint64_t> mine_;
  std::vector<uint64_t> all_;
};

// What the second part needs when the rows are there; it is made by the driver's thread.
struct PartToCome {
  std::shared_ptr<CountRows> rows;
  Call call;  // but for its blocks
  SelectionRules rules;
  SelectionInput input;
  uint64_t most = 0;
  std::map<Algorithm, std::shared_ptr<const Schedule>> schedules;

  // kUnsupported: that algorithm cannot move as much. All ranks have the same rows, so they say so
  // alike.
  [[nodiscard]] Result<NextPart> data_part() const {
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
};

Result<NextPart> Communicator::make_next_part(const PartToCome& part) {
  return part.data_part();
}

Result<std::shared_ptr<Operation>> Communicator::start_all_to_all_counts(
    const CollectiveCall& requested, bool background) {
  const uint32_t world = placement_.map.world_size();
  if (world > kMaxRanks) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("all_to_all_counts among {} ranks: at most {} are possible; split the "
                    "communicator, or use all_to_all",
                    world,
                    kMaxRanks));
  }
  PartToCome data;
  const auto wanted =
      requested.options.algorithm ? requested.options.algorithm : settings_.rules.forced;
  data.rows = std::make_shared<CountRows>(requested, wanted, world);
  data.call = maker_.begin(requested, Algorithm::kHoRing);
  data.call.counts_per_pair = true;
  HORING_TRY(bind_to_device(requested, data.call));
  data.rules = settings_.rules;
  data.input = shape_.selection_input(requested);
  data.most = shape_.most_per_rank(requested.dtype);
  for (const Algorithm algorithm :
       {wanted.value_or(Algorithm::kHoRing), wanted.value_or(Algorithm::kDirect)}) {
    HORING_ASSIGN(data.schedules[algorithm],
                  schedules_->schedule_for(
                      requested.collective, algorithm, GlobalRank(0), data.call.channel));
  }

  CollectiveCall rows;
  rows.collective = Collective::kAllGather;
  rows.send = data.rows->mine();
  rows.recv = data.rows->all();
  rows.count = data.rows->row();
  rows.dtype = DType::kUint64;
  rows.options.timeout = requested.options.timeout;
  rows.options.label = requested.options.label;
  rows.owned = data.rows;
  const SelectionRules by_size{std::nullopt, settings_.rules.direct_max_bytes};
  HORING_ASSIGN(const Algorithm algorithm, select_algorithm(by_size, shape_.selection_input(rows)));
  HORING_ASSIGN(
      auto schedule,
      schedules_->schedule_for(rows.collective, algorithm, GlobalRank(0), data.call.channel));
  Call call = maker_.make(rows, algorithm, schedule->built.plan);
  call.collective = requested.collective;
  call.channel = data.call.channel;
  call.counts_per_pair = true;
  call.deadline = data.call.deadline;
  data.call.digest = call.digest;  // the counts are compared by themselves
  auto entry = device_.entry_of(data.call, requested.options.stream);
  if (!entry.ok()) {
    return end_by_device(data.call, entry.status());
  }
  return engine_->submit({std::move(call),
                          std::move(schedule),
                          background,
                          std::make_shared<const PartToCome>(std::move(data)),
                          *std::move(entry)});
}

}  // namespace ho
