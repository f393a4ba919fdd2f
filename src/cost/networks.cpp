#include "cost/networks.hpp"

#include <algorithm>

namespace ho::cost {
namespace {

constexpr double kUs = 1e-6;
constexpr double kKiB = 1024;

// Half of the rate up to 4 KiB, which is where NCCL's LL protocol fills its threads; all of it from
// 32 KiB on, where SIMPLE does.
constexpr std::array<LinearTable::Point, 2> shares(double share) {
  return {{{4 * kKiB, share / 2}, {32 * kKiB, share}}};
}

// NCCL: github.com/NVIDIA/nccl at 5067397c (2026-06-11). Latencies of ring and SIMPLE, the start
// its base latency (src/graph/tuning.cc); shares: what it takes a link to carry (src/graph/topo.h)
// of what is printed on it; half of it with LL, and eight and 64 bytes for each of 512 threads
// (src/include/comm.h).
constexpr std::array kNetworks{
    Network{"nvlink",
            3.4 * kUs,
            8.4 * kUs,
            shares(0.82),
            "NCCL 5067397c (2026-06-11): NVLink 3.4 us, base 8.4 us; 20.6 of 25 GB/s a link"},
    Network{"pcie",
            5.7 * kUs,
            8.4 * kUs,
            shares(0.76),
            "NCCL 5067397c (2026-06-11): PCI 5.7 us, base 8.4 us; 12 of 15.75 GB/s of Gen3 x16"},
    Network{"infiniband",
            14 * kUs,
            8.4 * kUs,
            shares(0.96),
            "NCCL 5067397c (2026-06-11): NET 14 us, base 8.4 us; 12 of 12.5 GB/s of 100 Gbit/s"},
    Network{"roce",
            14 * kUs,
            8.4 * kUs,
            shares(0.96),
            "as infiniband: NCCL tells the two apart by their rate only"},
    Network{"efa",
            23 * kUs,
            8.4 * kUs,
            shares(0.96),
            "aws-ofi-nccl 2daf7d30 (2026-08-12): P5 20 us, SIMPLE 3 us more (nccl_ofi_model.cpp); "
            "the rest as NCCL"},
    Network{
        "tcp",
        20 * kUs,
        8.4 * kUs,
        {{{1448, 0.94}, {64 * kKiB, 0.94}}},
        "HORING_TUNER_HOP_US; 1448 of 1538 bytes of a frame of Ethernet (MTU 1500, RFC 9293 and "
        "7323); base as NCCL"},
};

}  // namespace

std::span<const Network> known_networks() {
  return kNetworks;
}

const Network* find_network(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kNetworks, [&](const auto& each) { return each.name == name; });
  return found == kNetworks.end() ? nullptr : found;
}

Level with_defaults(Level level, const Network& network) {
  level.network = network.name;
  level.latency_s = network.latency_s;
  level.start_s = network.start_s;
  level.share_of_bytes = LinearTable({network.shares.begin(), network.shares.end()});
  return level;
}

}  // namespace ho::cost
