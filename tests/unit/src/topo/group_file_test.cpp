#include "topo/group_file.hpp"

#include "catch.hpp"

using ho::GroupFile;

TEST_CASE("a group file maps host names to groups") {
  const auto file = GroupFile::parse(R"({"groups": [["node1", "node2"], ["node3"]]})", "g.json");
  REQUIRE(file.ok());
  CHECK(*file->group_of("node1") == 0);
  CHECK(*file->group_of("node2") == 0);
  CHECK(*file->group_of("node3") == 1);
}

TEST_CASE("a host that is missing is named with the file") {
  const auto file = GroupFile::parse(R"({"groups": [["node1"]]})", "g.json");
  const auto group = file->group_of("node9");
  REQUIRE_FALSE(group.ok());
  CHECK(group.status().message().starts_with(
      "group file g.json: host node9 runs ranks but is in no group"));
}

TEST_CASE("a host that is there twice is named") {
  for (const char* text : {R"({"groups": [["a", "b"], ["b"]]})", R"({"groups": [["b", "b"]]})"}) {
    const auto file = GroupFile::parse(text, "g.json");
    REQUIRE_FALSE(file.ok());
    CHECK(file.status().message().starts_with("group file g.json: host b is in it twice"));
  }
}

TEST_CASE("what is no group file is refused") {
  for (const char* text : {"",
                           "{",
                           "[]",
                           "{}",
                           "null",
                           R"({"groups": {}})",
                           R"({"groups": []})",
                           R"({"groups": [[]]})",
                           R"({"groups": ["a"]})",
                           R"({"groups": [[1]]})",
                           R"({"groups": [[""]]})",
                           R"({"groups": [["a"]]} x)"}) {
    INFO(text);
    const auto file = GroupFile::parse(text, "g.json");
    REQUIRE_FALSE(file.ok());
    CHECK(file.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(file.status().message().starts_with("group file g.json: "));
  }
  CHECK_FALSE(GroupFile::parse(std::string(1 << 20, '['), "deep").ok());
  CHECK(GroupFile::load("/no/such/file").status().message().find("No such file") !=
        std::string::npos);
}
