// Measures the links that the plans of a communicator use, all links of one kind at once, since
// that is how a collective uses them.
//
// Round trips are first, on an idle job: in each round every rank has at most one partner. Rates
// follow: every rank sends to its successor (on its rail's ring, then inside its group) until
// enough has moved (link_probe.hpp). The last message is marked as the last, and the receiver,
// which alone knows what has arrived, sends its figure back. Links inside a group are probed
// over several times and the best figure is kept: there the processors are in short supply, and
// one probe may wait for other work of theirs.
#pragma once

#include <optional>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/communicator.hpp"

namespace ho {

// The rate of one link of this rank, measured with all links of its kind busy; inside the group the
// best of a few probes.
struct LinkRate {
  GlobalRank peer;
  std::optional<RailIndex> rail;  // nothing: inside the group
  double bytes_per_second = 0;
  double round_trip_ns = 0;
};

// Collective.
[[nodiscard]] Result<std::vector<LinkRate>> measure_links(Communicator& communicator);

}  // namespace ho
