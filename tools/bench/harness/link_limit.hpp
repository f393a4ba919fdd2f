// What plain TCP moves over the rails of this job, measured without the library's transports: the
// figure that link shares are held against.
//
// Each node sends to the next one on every rail at once, one flow per interface, as a ring of
// groups does; a receiver counts payload bytes after the flow has run long enough to empty the
// token buckets of a shaper. A node's limit is the sum over its interfaces; the job's is the least
// over its nodes.
#pragma once

#include <cstdint>
#include <horing/communicator.hpp>
#include <string>

namespace ho::harness {

struct LinkLimit {
  double bytes_per_second = 0.0;  // of one node, each direction; 0: not known
  uint32_t rails = 0;             // interfaces per node that carried a flow
  std::string how;                // one line for people
};
// "50.00 MB/s per node and direction (how)", or why there is none.
[[nodiscard]] std::string limit_text(const LinkLimit& limit);

// Collective. Never throws for a network that does not work: reports it in `how`, the same on all
// ranks.
[[nodiscard]] LinkLimit measure_link_limit(horing::Communicator& comm);

// Collective. Network interfaces that a node has for rails, the fewest of all nodes; 0: none found.
[[nodiscard]] uint32_t nics_per_node(horing::Communicator& comm);

// "namespaces", "paced" or "none".
[[nodiscard]] std::string emulation_mode();

}  // namespace ho::harness
