// Which row a version of NCCL gets, and what the rows say.
#include "abi/releases.hpp"

#include <string>
#include <vector>

#include "catch.hpp"

using nccl_abi::find_release;
using nccl_abi::FoundRelease;
using nccl_abi::kReleases;
using nccl_abi::parse_version;
using nccl_abi::Release;
using nccl_abi::Version;

namespace {

std::string to_string(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

// "2.28.7", or "2.30.7?" where the version is newer than what is known, or "none".
std::string row_of(const std::string& version) {
  const std::optional<FoundRelease> found = find_release(version);
  if (!found) {
    return "none";
  }
  return to_string(found->release->first) + (found->newer_than_known ? "?" : "");
}

std::vector<int> list(std::span<const int> versions) {
  return {versions.begin(), versions.end()};
}

const Release& release(const std::string& version) {
  const std::optional<FoundRelease> found = find_release(version);
  REQUIRE(found);
  return *found->release;
}

}  // namespace

TEST_CASE("a version has three numbers, with or without what packages append") {
  CHECK(parse_version("2.28.9") == Version{2, 28, 9});
  CHECK(parse_version("2.28.9-1") == Version{2, 28, 9});
  CHECK(parse_version("2.28.9+cuda13.0") == Version{2, 28, 9});
  CHECK(parse_version("10.0.123") == Version{10, 0, 123});
  for (const char* text : {"",
                           "2",
                           "2.28",
                           "2.28.",
                           "2..9",
                           ".28.9",
                           "2.28.9.1",
                           "2.28.9rc1",
                           "v2.28.9",
                           " 2.28.9",
                           "2.-1.9",
                           "2.28.-0",
                           "2.28.99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_version(text));
    CHECK_FALSE(find_release(text));
  }
}

TEST_CASE("every first and last release of a row finds that row") {
  for (const Release& row : kReleases) {
    CHECK(row_of(to_string(row.first)) == to_string(row.first));
    CHECK(row_of(to_string(row.last)) == to_string(row.first));
  }
}

TEST_CASE("versions between rows get the older row") {
  CHECK(row_of("2.21.4") == "2.20.0");
  CHECK(row_of("2.25.0") == "2.24.3");
  CHECK(row_of("2.25.9") == "2.24.3");
  CHECK(row_of("2.27.4") == "2.27.0");
  CHECK(row_of("2.28.2") == "2.27.5");
  CHECK(row_of("2.28.8") == "2.28.7");
  CHECK(row_of("2.28.9-1") == "2.28.7");
  CHECK(row_of("2.30.0") == "2.29.0");
  CHECK(row_of("2.30.6") == "2.30.3");
}

TEST_CASE("what is older than the first row has none, what is newer than the last says so") {
  CHECK(row_of("2.18.6") == "none");
  CHECK(row_of("1.99.99") == "none");
  CHECK(row_of("2.30.7") == "2.30.7");
  CHECK(row_of("2.31.2") == "2.30.7");
  CHECK(row_of("2.32.3") == "2.30.7");
  CHECK(row_of("2.32.4") == "2.30.7?");
  CHECK(row_of("2.33.0") == "2.30.7?");
  CHECK(row_of("3.0.0") == "2.30.7?");
}

TEST_CASE("releases are put into words for messages") {
  CHECK(release_text(release("2.28.8")) == "2.28.7 to 2.28.9");
  CHECK(release_text(release("2.21.5")) == "2.21.5");
  CHECK(nccl_abi::releases_text(11) ==
        "2.28.3, 2.28.7 to 2.28.9, 2.29.0 to 2.29.7, 2.30.3 to 2.30.4, 2.30.7 to 2.32.3");
  CHECK(nccl_abi::releases_text(nccl_abi::kOldestNet).starts_with("2.20.0 to 2.20.5, 2.21.5, "));
  CHECK(nccl_abi::releases_text(13).empty());
}

TEST_CASE("versions are looked up newest first") {
  CHECK(list(release("2.19.4").net) == std::vector{7, 6, 5});
  CHECK(list(release("2.20.5").net) == std::vector{8, 7, 6, 5});
  CHECK(list(release("2.23.4").net) == std::vector{8, 7, 6, 5});
  CHECK(list(release("2.25.1").net) == std::vector{9, 8, 7, 6, 5});
  CHECK(list(release("2.27.7").net) == std::vector{10, 9, 8, 7, 6});
  CHECK(list(release("2.29.7").net) == std::vector{11, 10, 9, 8, 7, 6});
  CHECK(list(release("2.30.3").net) == std::vector{12, 11, 10, 9, 8, 7, 6});
  CHECK(list(release("2.32.3").net) == std::vector{12, 11, 10, 9, 8, 7, 6});

  CHECK(list(release("2.20.5").tuner) == std::vector{1});
  CHECK(list(release("2.21.5").tuner) == std::vector{2});
  CHECK(list(release("2.23.4").tuner) == std::vector{3, 2});
  CHECK(list(release("2.27.3").tuner) == std::vector{4, 3, 2});
  CHECK(list(release("2.28.3").tuner) == std::vector{5, 4, 3, 2});
  CHECK(list(release("2.30.7").tuner) == std::vector{6, 5, 4, 3, 2});
  CHECK(list(release("2.32.3").tuner) == std::vector{6, 5, 4, 3, 2});

  CHECK(list(release("2.28.3").env).empty());
  CHECK(list(release("2.28.7").env) == std::vector{1});
  CHECK(list(release("2.30.4").env) == std::vector{1});
  CHECK(list(release("2.30.7").env) == std::vector{2, 1});
  CHECK(list(release("2.32.3").env) == std::vector{2, 1});
}

TEST_CASE("a later release never looks up older newest versions or knows less") {
  for (size_t i = 1; i < kReleases.size(); ++i) {
    const Release& older = kReleases[i - 1];
    const Release& newer = kReleases[i];
    CAPTURE(to_string(newer.first));
    CHECK(newer.net.front() >= older.net.front());
    CHECK(newer.tuner.front() >= older.tuner.front());
    CHECK(newer.env.size() >= older.env.size());
    CHECK(newer.static_plugin >= older.static_plugin);
    CHECK(newer.net_list >= older.net_list);
    CHECK(newer.none >= older.none);
    CHECK(newer.algorithms >= older.algorithms);
    CHECK(newer.data_types >= older.data_types);
  }
}
