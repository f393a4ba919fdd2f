// What `auto` decides, over a grid of worlds, collectives and sizes: where no levels are known, and
// on levels of two kinds of machines, by the defaults of their networks. A change of the model of
// time, or of the rule, shows here, line by line.
//
//   golden_selection DIR            compare with DIR/auto.decisions.txt
//   golden_selection --update DIR   write it (tests/golden/update)
#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "comm/selection.hpp"
#include "cost/networks.hpp"
#include "exec/binding.hpp"
#include "golden_file.hpp"

namespace ho {
namespace {

constexpr uint32_t kFirstPower = 6;
constexpr uint32_t kLastPower = 26;
constexpr std::array kByLevels{Collective::kAllGather,
                               Collective::kReduceScatter,
                               Collective::kAllReduce,
                               Collective::kBroadcast};

struct World {
  uint32_t groups;
  uint32_t group_size;
};
constexpr std::array kWorlds{World{1, 2},
                             World{1, 8},
                             World{2, 1},
                             World{2, 4},
                             World{2, 8},
                             World{4, 4},
                             World{8, 1},
                             World{8, 8},
                             World{64, 8},
                             World{256, 8}};

struct Machine {
  const char* name;
  double inside;  // bytes/s of a rank
  const char* inside_network;
  double nic;
  const char* network;
  bool nic_of_each_rank;
};
// Host memory, of which cost has no defaults, is taken as half a PCIe link.
constexpr std::array kMachines{
    Machine{"a NIC of 25 Gbit/s, tcp", 8e9, "pcie", 25e9 / 8, "tcp", false},
    Machine{"NICs of 400 Gbit/s, infiniband", 450e9, "nvlink", 50e9, "infiniband", true}};

ModelledLevels levels_of(const Machine& machine, const World& world) {
  cost::Level node;
  node.name = "node";
  node.size = world.group_size;
  node.rate = machine.inside;
  cost::Level net;
  net.name = "network";
  net.size = world.groups;
  net.rate = machine.nic;
  net.nics = machine.nic_of_each_rank ? world.group_size : 1;
  auto levels = std::make_shared<cost::Cluster>();
  levels->push_back(cost::with_defaults(node, *cost::find_network(machine.inside_network)));
  levels->push_back(cost::with_defaults(net, *cost::find_network(machine.network)));
  const cost::Members members = cost::all_ranks(*levels);
  return {std::move(levels), members, 1, {.device = machine.nic_of_each_rank}};
}

// "d" of direct, "." of ho_ring, a size a power of two.
std::string choices(const SelectionRules& rules, Collective collective) {
  std::string text;
  for (uint32_t power = kFirstPower; power <= kLastPower; ++power) {
    const uint64_t bytes = uint64_t{1} << power;
    const auto chosen = select_algorithm(rules, {collective, bytes, bytes, false, std::nullopt});
    text += chosen.ok() ? (*chosen == Algorithm::kDirect ? 'd' : '.') : '?';
  }
  return text;
}

std::string decisions() {
  std::string text =
      fmt::format("# from 2^{} to 2^{} bytes of the whole data: d direct, . ho_ring\n",
                  kFirstPower,
                  kLastPower);
  for (uint32_t c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    text += fmt::format("{:32} {:6} {:14} {}\n",
                        "no levels",
                        "any",
                        to_string(collective),
                        choices({}, collective));
  }
  for (const Machine& machine : kMachines) {
    for (const World& world : kWorlds) {
      SelectionRules rules;
      rules.levels = levels_of(machine, world);
      for (const Collective collective : kByLevels) {
        text += fmt::format("{:32} {:6} {:14} {}\n",
                            machine.name,
                            fmt::format("{}x{}", world.groups, world.group_size),
                            to_string(collective),
                            choices(rules, collective));
      }
    }
  }
  return text;
}

}  // namespace
}  // namespace ho

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != (update ? 3 : 2)) {
    std::fprintf(stderr, "usage: golden_selection [--update] DIR\n");
    return 2;
  }
  const std::string path = std::string(argv[argc - 1]) + "/auto.decisions.txt";
  if (ho::test::keep_or_compare(update, path, ho::decisions())) {
    return 0;
  }
  std::fprintf(stderr, "if the change is meant: tests/golden/update, then look at git diff\n");
  return 1;
}
