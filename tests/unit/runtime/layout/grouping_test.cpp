#include "layout/grouping.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

using ho::GlobalRank;
using ho::GroupIndex;
using ho::GroupMap;
using paro::group_by_size;
using paro::parse_groups;
using paro::read_groups;

namespace {

std::string listed(const ho::Result<GroupMap>& groups) {
  if (!groups.ok()) {
    return groups.status().message();
  }
  std::string text;
  for (uint32_t g = 0; g < groups->group_count(); ++g) {
    text += text.empty() ? "" : "|";
    for (const GlobalRank rank : groups->members(GroupIndex(g))) {
      text += std::to_string(rank.value()) + " ";
    }
  }
  return text;
}

bool refused(const ho::Result<GroupMap>& groups, const std::string& why) {
  INFO(listed(groups));
  CHECK(!groups.ok());
  CHECK(groups.status().code() == ho::StatusCode::kInvalidArgument);
  CHECK(groups.status().message().find(why) != std::string::npos);
  return !groups.ok();
}

}  // namespace

TEST_CASE("a size of 0 leaves the nodes") {
  const GroupMap nodes = GroupMap::parse("1+3").value();
  CHECK(*group_by_size(nodes, 0) == nodes);
}

TEST_CASE("a size takes ranks node by node") {
  CHECK(listed(group_by_size(GroupMap::parse("2x4").value(), 2)) == "0 1 |2 3 |4 5 |6 7 ");
  CHECK(listed(group_by_size(GroupMap::parse("4x2").value(), 4)) == "0 1 2 3 |4 5 6 7 ");
  // Ranks dealt over two nodes in turn: a group's ranks still sit together.
  const GroupMap dealt = GroupMap::from_labels({"a", "b", "a", "b", "a", "b", "a", "b"}).value();
  CHECK(listed(group_by_size(dealt, 2)) == "0 2 |4 6 |1 3 |5 7 ");
  CHECK(listed(group_by_size(dealt, 8)) == "0 2 4 6 1 3 5 7 ");
}

TEST_CASE("a size that leaves ranks over is refused") {
  const GroupMap nodes = GroupMap::parse("2x3").value();
  refused(group_by_size(nodes, 4), "groups of 4 ranks in a world of 6 leave some over");
  refused(group_by_size(nodes, 7), "groups of 7 ranks in a world of 6");
}

TEST_CASE("a text has a line per group") {
  CHECK(listed(parse_groups("0 1\n2 3\n", 4, "t")) == "0 1 |2 3 ");
  CHECK(listed(parse_groups("3 0\n2\t1", 4, "t")) == "3 0 |2 1 ");
  CHECK(listed(parse_groups("# two nodes\n\n  0   2 # odd\r\n\t\n1\n#end", 3, "t")) == "0 2 |1 ");
  CHECK(listed(parse_groups("0", 1, "t")) == "0 ");
}

TEST_CASE("what is wrong with a text is said with its line") {
  refused(parse_groups("0 1\n2 x3\n", 4, "g.txt"), "g.txt, line 2: 'x3' is not a rank");
  refused(parse_groups("0 -1", 4, "t"), "line 1: '-1' is not a rank");
  refused(parse_groups("0,1", 4, "t"), "line 1: '0,1' is not a rank");
  refused(parse_groups("99999999999999999999", 4, "t"), "is not a rank");
  refused(parse_groups("0 1\n\n4 2", 4, "t"), "line 3: rank 4 is not one of the 4 of this job");
  refused(parse_groups("0 1\n2 0 3", 4, "t"), "line 2: rank 0 is there already, in line 1");
  refused(parse_groups("0 0", 4, "t"), "line 1: rank 0 is there already, in line 1");
  refused(parse_groups("0 1\n3", 4, "t"), "line 2: the text ends here, and rank 2 of 4");
  refused(parse_groups("", 2, "t"), "rank 0 of 2 is in no group");
  refused(parse_groups(std::string("0 \0 1", 5), 2, "t"), "is not a rank");
  refused(parse_groups(std::string(1000, 'x'), 2, "t"), std::string(32, 'x') + "' is not a rank");
}

TEST_CASE("a file is read, or said why not") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("paro_grouping_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "groups.txt").string();
  std::ofstream(path) << "1 0\n2 3\n";
  CHECK(listed(read_groups(path, 4)) == "1 0 |2 3 ");
  refused(read_groups(path, 2), path + ", line 2: rank 2 is not one of the 2");
  refused(read_groups(folder.string(), 4), "is not a regular file");
  refused(read_groups((folder / "none").string(), 4), "No such file");
  refused(read_groups("/dev/zero", 4), "is not a regular file");
  std::filesystem::remove_all(folder);
}
