// The one place that talks to hwloc: loads a topology from a source and turns it into values.
#pragma once

#include <string>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

enum class HwlocSource : uint8_t { kLive, kXmlText, kSynthetic };

// `text` is the XML or the synthetic string; not used for kLive. Fills in everything but source,
// host identity and, for kLive, the interfaces without a PCI device. The error has hwloc's text.
[[nodiscard]] Result<Topology> read_hwloc(HwlocSource source, const std::string& text);

}  // namespace ho
