// Which all-gathers are under way and who has arrived in each. Pure: told what happened and what
// time it is, answers who is to be sent what.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/wire.hpp"
#include "os/clock.hpp"

namespace ho {

class GatherTable {
 public:
  struct Waiter {
    uint32_t rank = 0;
    uint64_t id = 0;  // the rank's own number of its call
  };
  struct Outcome {
    std::vector<Waiter> waiters;
    Status error;                                            // not ok: goes to all waiters
    std::vector<std::shared_ptr<const wire::Buffer>> parts;  // ok: encoded GatheredParts
  };

  explicit GatherTable(uint32_t world_size);

  // A rank has called. The outcome when that completes the gather or cannot work.
  [[nodiscard]] std::optional<Outcome> add(Waiter waiter,
                                           wire::Contribution contribution,
                                           Deadline now);
  // Gathers whose earliest deadline has passed; the error names the missing ranks and what else
  // they are doing.
  [[nodiscard]] std::vector<Outcome> expire(Deadline now);
  // A rank will not come any more; `why` says so.
  [[nodiscard]] std::vector<Outcome> rank_ended(uint32_t rank, const Status& why);
  [[nodiscard]] std::vector<Outcome> fail_all(const Status& why);
  [[nodiscard]] Deadline next_deadline() const;

 private:
  struct Gather {
    std::string tag;
    std::vector<uint32_t> members;
    std::vector<std::optional<wire::Buffer>> blobs;  // in the order of members
    std::vector<Waiter> waiters;
    Deadline deadline;
    uint32_t timeout_ms = 0;
  };
  using Place = std::list<Gather>::iterator;

  [[nodiscard]] Place find(const wire::Contribution& contribution, uint32_t rank);
  [[nodiscard]] Status check(const wire::Contribution& contribution, uint32_t rank) const;
  [[nodiscard]] Status missing_error(const Gather& gather) const;
  [[nodiscard]] std::string where_is(uint32_t rank, const Gather& gather) const;
  [[nodiscard]] Outcome fail(Place place, Status why);

  uint32_t world_size_;
  std::list<Gather> gathers_;
  std::vector<std::optional<Status>> ended_;  // by rank
};

}  // namespace ho
