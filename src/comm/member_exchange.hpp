// What the members of a communicator tell each other over the control plane while it is made, and
// at a split: before they have links, or beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/job_control.hpp"
#include "os/clock.hpp"

namespace ho {

class MemberExchange {
 public:
  // Both outlive it.
  MemberExchange(ControlPlane& plane, const JobControl::Identity& identity)
      : plane_(plane), identity_(identity) {}

  // Collective over `members`, ranks of the communicator: what each gives, in their order. `what`
  // names it in errors.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather(
      std::string_view what,
      std::span<const std::byte> mine,
      const std::vector<GlobalRank>& members,
      Deadline deadline) const;
  // The same over all of them, by rank.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> gather_all(
      std::string_view what, std::span<const std::byte> mine, Deadline deadline) const;
  // Not ok: no gather can complete any more, and why.
  [[nodiscard]] Status interrupted() const;

  [[nodiscard]] uint64_t job_id() const { return plane_.job_id(); }
  [[nodiscard]] uint16_t id() const { return identity_.id; }

 private:
  ControlPlane& plane_;
  const JobControl::Identity& identity_;
};

}  // namespace ho
