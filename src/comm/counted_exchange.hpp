// All-to-all with counts per rank. A rank knows what it sends and what it expects, but the routes
// pass through ranks that know neither. So the operation has two parts: the ranks gather all rows
// of counts, then move the data. Each rank compares all rows, so that all find the same mismatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "comm/call_arguments.hpp"
#include "comm/selection.hpp"
#include "exec/call.hpp"
#include "exec/engine_owner.hpp"
#include "exec/schedule.hpp"
#include "plan/plan.hpp"

namespace ho {

// Every rank has the counts of all pairs of ranks: not among more than some thousands.
[[nodiscard]] Status check_counted_world(uint32_t world);

// The rows as they are gathered: of each rank its type and algorithm, what it sends to each rank,
// and what it expects of each.
class CountRows {
 public:
  CountRows(const CollectiveCall& requested, std::optional<Algorithm> wanted, uint32_t world);

  [[nodiscard]] const uint64_t* mine() const { return mine_.data(); }
  [[nodiscard]] uint64_t* all() { return all_.data(); }
  [[nodiscard]] size_t row() const { return row_; }
  [[nodiscard]] uint64_t sent(uint32_t from, uint32_t to) const {
    return all_[from * row_ + 1 + to];
  }
  // By block, as role_of() numbers them.
  [[nodiscard]] std::vector<uint64_t> block_counts() const;
  // `most`: elements that a rank may send to another.
  [[nodiscard]] Status compare(uint64_t most) const;

 private:
  [[nodiscard]] std::string type_of(uint32_t rank) const;
  [[nodiscard]] Status compare_pair(uint32_t from, uint32_t to, uint64_t most) const;

  uint32_t world_;
  size_t row_;
  std::vector<uint64_t> mine_;
  std::vector<uint64_t> all_;
};

// The first part: gathers the rows, within the timeout and under the label of the whole.
[[nodiscard]] CollectiveCall rows_call(const std::shared_ptr<CountRows>& rows,
                                       const CallOptions& options);

// What the second part needs when the rows are there; it is made by the driver's thread.
struct PartToCome {
  std::shared_ptr<CountRows> rows;
  Call call;  // but for its blocks
  SelectionRules rules;
  SelectionInput input;
  uint64_t most = 0;
  std::map<Algorithm, std::shared_ptr<const Schedule>> schedules;

  // kUnsupported: that algorithm cannot move as much. All ranks have the same rows, so all say so.
  [[nodiscard]] Result<NextPart> data_part() const;
};

}  // namespace ho
