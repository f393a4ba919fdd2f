// What the plugin's tuner decides, over a grid of clusters and sizes: a change of the model of
// time shows here, line by line.
//
//   golden_decisions DIR            compare with DIR/tuner.decisions.txt
//   golden_decisions --update DIR   write it (tests/golden/update)
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/tuner/tuner.hpp"
#include "golden_file.hpp"

namespace ho::plugin {
namespace {

constexpr std::array<uint32_t, 5> kNodes{2, 3, 4, 8, 32};
constexpr std::array<uint32_t, 3> kLocalRanks{1, 4, 8};
constexpr std::array<uint32_t, 2> kNicMbps{25'000, 400'000};
constexpr std::array<uint32_t, 2> kIntraMbps{0, 2'400'000};
constexpr std::array<uint32_t, 2> kChannels{0, 8};  // with 8, chunks of ours too
constexpr uint32_t kFirstPower = 10;
constexpr uint32_t kLastPower = 30;

// "d" of "collnet_direct", two sizes a power of two.
char letter(Choice choice) {
  switch (choice) {
    case Choice::kDefault:
      return '-';
    case Choice::kOwn:
      return '.';
    case Choice::kCollNetDirect:
      return 'd';
    case Choice::kCollNetChain:
      return 'c';
    default:
      return 'n';
  }
}

std::string choices(const Tuner& tuner, TunedCollective collective, bool registered) {
  std::string text;
  for (uint32_t power = kFirstPower; power <= kLastPower; ++power) {
    for (const uint64_t halves : {2U, 3U}) {
      const Call call{collective, (uint64_t{1} << (power - 1)) * halves, 1, registered};
      text += letter(tuner.choose(call, Choices(UINT8_MAX)));
    }
  }
  return text;
}

std::vector<CommonInputs> grid() {
  std::vector<CommonInputs> all;
  CommonInputs inputs;
  for (const uint32_t nodes : kNodes) {
    for (const uint32_t local : kLocalRanks) {
      for (const uint32_t nics : {1U, local}) {
        if (nics == 1 && local == 1 && !all.empty() && all.back().node_count == nodes) {
          continue;
        }
        for (const uint32_t nic_mbps : kNicMbps) {
          for (const uint32_t intra_mbps : kIntraMbps) {
            for (const uint32_t channels : kChannels) {
              inputs.node_count = nodes;
              inputs.rank_count = nodes * local;
              inputs.least_local_ranks = local;
              inputs.most_local_ranks = local;
              inputs.nic_count = nics;
              inputs.head_count = std::min(nics, local);
              inputs.channel_count = channels;
              inputs.nic_mbps = nic_mbps;
              inputs.rail_mbps = nic_mbps;
              inputs.intra_mbps = intra_mbps;
              inputs.sets_chunk_size = channels == 0 ? 0 : 1;
              inputs.whole_windows = local == 1 ? 1 : 0;
              inputs.collnet_connected = 1;
              all.push_back(inputs);
              if (local > 1 && nodes < 4) {  // and one node of a single rank
                inputs.rank_count -= local - 1;
                inputs.least_local_ranks = 1;
                all.push_back(inputs);
              }
            }
          }
        }
      }
    }
  }
  return all;
}

std::string decisions() {
  std::string text = fmt::format(
      "# from 2^{} to 2^{} bytes, and half as much again at each: . NCCL's own, d collnet_direct, "
      "c collnet_chain, n nvls\n",
      kFirstPower,
      kLastPower);
  for (const CommonInputs& inputs : grid()) {
    const Result<Tuner> tuner = Tuner::make(inputs, TuningFile());
    for (const TunedCollective collective : kTunedCollectives) {
      text += fmt::format("{}x{} of {} nics {} of {} intra {} channels {} {:14} {}\n",
                          inputs.node_count,
                          inputs.most_local_ranks,
                          inputs.rank_count,
                          inputs.nic_count,
                          inputs.nic_mbps,
                          inputs.intra_mbps,
                          inputs.channel_count,
                          to_string(collective),
                          choices(*tuner, collective, inputs.whole_windows == 1));
    }
  }
  return text;
}

}  // namespace
}  // namespace ho::plugin

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != (update ? 3 : 2)) {
    std::fprintf(stderr, "usage: golden_decisions [--update] DIR\n");
    return 2;
  }
  const std::string path = std::string(argv[argc - 1]) + "/tuner.decisions.txt";
  if (ho::test::keep_or_compare(update, path, ho::plugin::decisions())) {
    return 0;
  }
  std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  return 1;
}
