#include "topo/consistency.hpp"

#include "catch.hpp"
#include "infos.hpp"
#include "scoped_variable.hpp"

namespace {

std::vector<ho::RankInfo> sixteen() {
  std::vector<ho::RankInfo> infos;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    infos.push_back(ho::railed_info(rank / 4, 1));
    infos.back().settings = {{"wire version", "1"}, {"HORING_PIECE_BYTES", "131072"}};
  }
  return infos;
}

}  // namespace

TEST_CASE("ranks of equal settings agree") {
  CHECK(ho::check_consistency(sixteen()).ok());
  CHECK(ho::check_consistency({}).ok());
}

TEST_CASE("a rank that differs is named with both values") {
  auto infos = sixteen();
  infos[3].settings[1].value = "65536";
  const ho::Status status = ho::check_consistency(infos);
  CHECK(status.code() == ho::StatusCode::kMismatch);
  CHECK(status.message() ==
        "the ranks' settings differ: rank 3 (node0): HORING_PIECE_BYTES=65536; 15 ranks have "
        "131072. Give all ranks the same values");
}

TEST_CASE("every setting that differs is named") {
  auto infos = sixteen();
  for (const size_t rank : {4U, 5U, 6U, 9U}) {
    infos[rank].settings[1].value = "65536";
  }
  infos[0].settings[1].value = "";
  infos[15].settings[0].value = "2";
  const std::string message = ho::check_consistency(infos).message();
  CHECK(message.find("ranks 4-6, 9 (node1, node2): HORING_PIECE_BYTES=65536") != std::string::npos);
  CHECK(message.find("rank 0 (node0): HORING_PIECE_BYTES=(empty)") != std::string::npos);
  CHECK(message.find("; 11 ranks have 131072") != std::string::npos);
  CHECK(message.find("rank 15 (node3): wire version=2; 15 ranks have 1") != std::string::npos);
}

TEST_CASE("of two ranks the first counts as usual") {
  auto infos = sixteen();
  infos.resize(2);
  infos[1].settings[1].value = "1";
  CHECK(ho::check_consistency(infos).message().find(
            "rank 1 (node0): HORING_PIECE_BYTES=1; rank 0 (node0) has "
            "131072") != std::string::npos);
}

TEST_CASE("a setting that a rank does not know is a difference") {
  auto infos = sixteen();
  infos[2].settings.pop_back();
  CHECK(ho::check_consistency(infos).message().find(
            "rank 2 (node0): HORING_PIECE_BYTES=(not known to it)") != std::string::npos);
}

TEST_CASE("the settings hold the wire version, the variables and the group file") {
  const auto none = ho::settings_that_must_match(std::nullopt);
  CHECK(none.front().name == "wire version");
  CHECK(std::any_of(none.begin(), none.end(), [](const ho::Setting& s) {
    return s.name == "HORING_ALGORITHM" && s.value == "auto";
  }));
  const auto with = [](const char* text) {
    return ho::settings_that_must_match(*ho::GroupFile::parse(text, "file")).back();
  };
  CHECK(none.back().value == "no group file");
  CHECK(with(R"({"groups":[["a","b"],["c"]]})") == with(R"({"groups": [["b","a"], ["c"]]})"));
  CHECK_FALSE(with(R"({"groups":[["a","b"],["c"]]})") == with(R"({"groups":[["a"],["b","c"]]})"));
}

TEST_CASE("two words for one meaning are one setting where ranks compare them") {
  const auto with_failover = [](const char* value) {
    const ho::test::ScopedVariable set("HORING_FAILOVER", value);
    return ho::settings_that_must_match(std::nullopt);
  };
  CHECK(with_failover("yes") == with_failover("1"));
  CHECK(with_failover("off") == with_failover("0"));
  CHECK_FALSE(with_failover("1") == with_failover("0"));
}
