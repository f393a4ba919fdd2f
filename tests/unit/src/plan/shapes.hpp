// The shapes of worlds that every builder is tried on.
#pragma once

#include <string>
#include <vector>

#include "group/group_map.hpp"

namespace ho::test {

struct Shape {
  std::string name;
  GroupMap map;
};

// The groups' sizes with ranks dealt out one group at a time.
inline GroupMap round_robin(const std::vector<uint32_t>& sizes) {
  std::vector<std::vector<GlobalRank>> members(sizes.size());
  uint32_t world = 0;
  for (const uint32_t size : sizes) {
    world += size;
  }
  for (uint32_t rank = 0, g = 0; rank < world; g = (g + 1) % static_cast<uint32_t>(sizes.size())) {
    if (members[g].size() < sizes[g]) {
      members[g].push_back(GlobalRank(rank++));
    }
  }
  return GroupMap::from_members(std::move(members)).value();
}

inline std::vector<Shape> all_shapes() {
  std::vector<std::vector<uint32_t>> sizes;
  for (uint32_t groups = 1; groups <= 5; ++groups) {
    for (uint32_t ranks = 1; ranks <= 5; ++ranks) {
      sizes.emplace_back(groups, ranks);
    }
  }
  sizes.insert(sizes.end(),
               {{1, 3},
                {3, 1},
                {7, 8},
                {1, 8},
                {3, 5, 1},
                {2, 1},
                {3, 5, 2, 2},
                {2, 4, 4, 3, 2},
                {1, 1, 1, 1, 1, 1, 1},
                {8, 8},
                {2, 2, 2, 2, 2, 2, 2, 2}});
  std::vector<Shape> shapes;
  for (const auto& size : sizes) {
    const GroupMap block = GroupMap::from_sizes(size).value();
    shapes.push_back({block.to_string(), block});
    if (size.size() > 1 && block.world_size() > size.size()) {
      shapes.push_back({block.to_string() + " round-robin", round_robin(size)});
    }
  }
  return shapes;
}

}  // namespace ho::test
