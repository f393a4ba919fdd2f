// Which all-gathers are under way and who has arrived in each. Pure: told what happened and what
// time it is, answers who is to be sent what.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "os/clock.hpp"

namespace ho {

class GatherTable {
 public:
  // What one rank may have in gathers that are under way, but for its only one.
  static constexpr size_t kMaxHeldBytes = size_t{32} << 20U;

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
  // Gathers whose earliest deadline has passed. The error is kTimeout and names the ranks that all
  // others wait for, followed through whatever gathers they wait in; kMismatch where ranks wait for
  // each other in a circle.
  [[nodiscard]] std::vector<Outcome> expire(Deadline now);
  // A rank will not come any more; `why` says so.
  [[nodiscard]] std::vector<Outcome> rank_ended(uint32_t rank, const Status& why);
  [[nodiscard]] Deadline next_deadline() const;

 private:
  struct Gather {
    std::string tag;
    std::vector<uint32_t> members;
    std::vector<std::optional<wire::Buffer>> blobs;  // in the order of members
    std::vector<Waiter> waiters;
    Deadline since;  // its first contribution
    Deadline deadline;
    uint32_t timeout_ms = 0;
  };
  using Entry = std::list<Gather>::iterator;
  // A gather that has failed at its deadline before all had come.
  struct Failed {
    std::string tag;
    std::vector<uint32_t> members;
    std::set<uint32_t> to_come;  // who has not heard of it yet
    Status why;
    Deadline at{};
  };
  // No member is so far behind the others, but one that never comes.
  static constexpr size_t kMaxFailed = 1024;
  // By rank, the gathers that it waits in.
  using Waits = std::map<uint32_t, std::vector<const Gather*>>;
  // Where the waits of a gather lead.
  struct Roots {
    bool circle = false;
    std::set<uint32_t> ranks;  // that are missing and wait in nothing
  };
  // What a rank has done last.
  struct Last {
    std::string tag;  // of its last contribution; "": none yet
    Deadline at{};
    // That gather has failed for want of these, at this time.
    std::shared_ptr<const std::set<uint32_t>> failed_for = {};
    Deadline failed_at{};
  };
  enum class Visit : uint8_t { kOpen, kDone };
  using Visits = std::map<const Gather*, Visit>;

  [[nodiscard]] Entry find(const wire::Contribution& contribution, uint32_t rank);
  [[nodiscard]] Status check(const wire::Contribution& contribution, uint32_t rank) const;
  [[nodiscard]] Status check_held(const wire::Contribution& contribution, uint32_t rank) const;
  [[nodiscard]] Waits all_waits() const;
  void follow(const Gather& gather, const Waits& waits, Visits& visits, Roots& roots) const;
  // `since`: from when on it was waited for.
  void follow_rank(
      uint32_t rank, Deadline since, const Waits& waits, Visits& visits, Roots& roots) const;
  [[nodiscard]] Status missing_error(const Gather& gather,
                                     const Waits& waits,
                                     const Roots& roots,
                                     Deadline now) const;
  [[nodiscard]] std::string silence_of(const std::set<uint32_t>& ranks, Deadline now) const;
  [[nodiscard]] Outcome fail(Entry entry, Status why);
  void remember(const Gather& gather, const Status& why, Deadline now);
  // What a rank is told that comes to a gather that has failed.
  [[nodiscard]] std::optional<Status> failed_before(const wire::Contribution& contribution,
                                                    uint32_t rank,
                                                    Deadline now);

  uint32_t world_size_;
  std::list<Gather> gathers_;
  std::list<Failed> failed_;                  // oldest first
  std::vector<std::optional<Status>> ended_;  // by rank
  std::vector<Last> last_;                    // by rank
};

}  // namespace ho
