// The rails of a job's hosts, as its ranks report them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/status/job_view.hpp"

namespace ho {

// What a rail of a host is and has moved, over all of the job's ranks there.
struct RailView {
  std::string host;
  std::string address;       // "": a network's device under NCCL
  std::string interface;     // "": an emulated one
  uint64_t mbit = 0;         // 0: not known
  std::string trouble = {};  // "no carrier", "down"
  // Of the interface, whoever sends there; nothing: it has no counts.
  std::optional<uint64_t> sent_bytes = {};
  std::optional<uint64_t> received_bytes = {};
  int64_t time_ns = 0;  // when they were so
  bool elsewhere = false;
  // Of the job's links whose own rail it is: how often they have left it or come back, how many
  // have connections, and how many of all, by their messages, go over others or nowhere. Without
  // failover 0.
  uint64_t failovers = 0;
  uint64_t links = 0;
  double away = 0;
  uint64_t lost = 0;  // that have none and are waited for
  [[nodiscard]] double own_share() const {
    const uint64_t all = links + lost;
    return all == 0 ? 1 : 1 - away / static_cast<double>(all);
  }
};
// By host, address and interface.
[[nodiscard]] std::vector<RailView> rails_of(const JobView& view);

// before: of the same job, earlier, for rates; null: none. "": no rails.
[[nodiscard]] std::string rails_table(const JobView& view, const JobView* before);

}  // namespace ho
