#include "core/tuner/basis.hpp"

#include <stdlib.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "base/env.hpp"
#include "catch.hpp"
#include "scoped_variable.hpp"

namespace ho::plugin {
namespace {

class ScopedFile {
 public:
  explicit ScopedFile(const std::string& text, const std::string& ending = "csv")
      : path_("basis_test." + std::to_string(::getpid()) + "." + ending) {
    std::ofstream(path_) << text;
  }
  ~ScopedFile() { (void)std::remove(path_.c_str()); }
  ScopedFile(const ScopedFile&) = delete;
  ScopedFile& operator=(const ScopedFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Four ranks a node; 25 GB/s is 200 Gbit/s.
constexpr const char* kLevels = R"({"levels": [
    {"name": "node", "size": 4, "rate": "300GB", "latency": "3us"},
    {"name": "rack", "size": 8, "rate": "25GB", "nics": 2, "latency": "11us",
     "share_of_bytes": [[4096, 0.5], [65536, 0.8]]},
    {"name": "hall", "size": 2, "rate": "25GB", "nics": 16, "oversubscription": 16,
     "latency": "30us"}]})";

constexpr std::array<uint32_t, 3> kNics{100'000, 25'000, 100'000};

TunerBasis basis() {
  auto made = TunerBasis::from_environment(kNics, true);
  REQUIRE(made.ok());
  return *made;
}

CommonInputs inputs_for(const CommunicatorShape& shape) {
  const auto tuner = basis().tuner_for(shape);
  REQUIRE(tuner.ok());
  return (*tuner)->inputs();
}

}  // namespace

TEST_CASE("a tuner's inputs are the communicator's shape and this node's NICs") {
  CommunicatorShape shape{8, 2, CommunicatorShape::Local{3, 5}};
  const CommonInputs inputs = inputs_for(shape);
  CHECK(inputs.rank_count == 8);
  CHECK(inputs.node_count == 2);
  CHECK(inputs.least_local_ranks == 3);
  CHECK(inputs.most_local_ranks == 5);
  CHECK(inputs.nic_count == 3);
  CHECK(inputs.head_count == 3);
  CHECK(inputs.nic_mbps == 25'000);
  CHECK(inputs.rail_mbps == 25'000);
  CHECK(inputs.reduces_all_types == 1);
  CHECK(inputs.sets_chunk_size == 0);
  CHECK(inputs.collnet_connected == 0);
  shape.asks_chunk_sizes = true;
  shape.collnet_connected = true;
  CHECK(inputs_for(shape).sets_chunk_size == 1);
  CHECK(inputs_for(shape).collnet_connected == 1);
  CHECK(inputs_for({2, 2, {}}).head_count == 1);
}

TEST_CASE("local ranks that NCCL does not tell, or tells wrongly, are assumed") {
  CHECK(inputs_for({8, 2, {}}).most_local_ranks == 4);
  CHECK(inputs_for({8, 2, {}}).least_local_ranks == 4);
  // Too many for CollNet of several ranks per node, rather than perhaps too many.
  CHECK(inputs_for({11, 2, {}}).most_local_ranks == 10);
  CHECK(inputs_for({11, 2, {}}).least_local_ranks == 1);
  for (const auto& [least, most] :
       {std::pair(5U, 8U), std::pair(1U, 3U), std::pair(0U, 8U), std::pair(1U, 9U)}) {
    const CommonInputs inputs = inputs_for({8, 2, CommunicatorShape::Local{least, most}});
    CHECK(inputs.least_local_ranks == 4);
    CHECK(inputs.most_local_ranks == 4);
  }
  for (const auto& [ranks, nodes] : {std::pair(0U, 0U), std::pair(0U, 2U), std::pair(1U, 2U)}) {
    CHECK_FALSE(basis().tuner_for({ranks, nodes, {}}).ok());
  }
}

TEST_CASE("without NICs of ours only the tuning file has a say") {
  const ScopedFile file("all_reduce,1M,*,*,*,ring\n");
  const test::ScopedVariable variable(env::kTuningFile.name, file.path());
  const test::ScopedVariable rate(env::kTunerRailMbps.name, "100000");
  const auto made = TunerBasis::from_environment({}, false);
  REQUIRE(made.ok());
  const auto tuner = made->tuner_for({16, 4, {}});
  REQUIRE(tuner.ok());
  const auto ranges = (*tuner)->ranges(TunedCollective::kAllReduce, false, Choices(0xff));
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[1] == ChoiceRange{1U << 20U, Choice::kRing, 1});
  CHECK((*tuner)->ranges(TunedCollective::kAllGather, false, Choices(0xff)).size() == 1);
}

TEST_CASE("with a malformed tuning file nodes can be compared, but no tuner can be had") {
  const std::string usual = basis().consistency();
  const ScopedFile file("all_reduce,1M,*,*,*,ring\nall_reduce,x\n");
  const test::ScopedVariable variable(env::kTuningFile.name, file.path());
  const TunerBasis made = basis();
  CHECK(made.consistency() != usual);
  const auto tuner = made.tuner_for({16, 4, {}});
  REQUIRE_FALSE(tuner.ok());
  CHECK(tuner.status().message().find(file.path() + ":2:12: 2 fields of 6") == 0);
}

TEST_CASE(
    "a file of levels gives NICs, rates and hops, and what HORING_TUNER_* say counts before it") {
  const ScopedFile file(kLevels, "json");
  const test::ScopedVariable variable(env::kLevelsFile.name, file.path());
  const CommonInputs inputs = inputs_for({32, 8, {}});
  CHECK(inputs.nic_count == 2);
  CHECK(inputs.head_count == 2);
  CHECK(inputs.channels() == 2);
  CHECK(inputs.nic_mbps == 160'000);  // of long messages
  CHECK(inputs.rail_mbps == 160'000);
  CHECK(inputs.intra_mbps == 2'400'000);
  CHECK(inputs.hop_ns == 11'000);
  CHECK(inputs.intra_hop_ns == 3000);
  // Two racks: the hall's NICs get a sixteenth, half of what a node has.
  CHECK(inputs_for({64, 16, {}}).nic_mbps == 100'000);
  // A rank of each node has the same NICs.
  CHECK(inputs_for({8, 8, {}}).nic_mbps == 160'000);
  const test::ScopedVariable nics(env::kTunerNics.name, "1");
  const test::ScopedVariable hop(env::kTunerHopUs.name, "7");
  CHECK(inputs_for({32, 8, {}}).nic_count == 1);
  CHECK(inputs_for({32, 8, {}}).hop_ns == 7000);
  CHECK(inputs_for({32, 8, {}}).nic_mbps == 160'000);
}

TEST_CASE("levels that hold no such communicator leave its tuner to this node's devices") {
  const ScopedFile file(kLevels, "json");
  const test::ScopedVariable variable(env::kLevelsFile.name, file.path());
  for (const auto& [ranks, nodes] :
       {std::pair(96U, 24U), std::pair(40U, 20U), std::pair(90U, 3U)}) {
    INFO(ranks << " ranks on " << nodes << " nodes");
    CHECK(inputs_for({ranks, nodes, {}}).nic_mbps == 25'000);
    CHECK(inputs_for({ranks, nodes, {}}).nic_count == 3);
  }
}

TEST_CASE("members compare what a file of levels says, field by field") {
  const std::string without = basis().consistency();
  CHECK(without.find("levels of links (HORING_LEVELS_FILE)=no file\n") != std::string::npos);
  const ScopedFile file(kLevels, "json");
  const test::ScopedVariable variable(env::kLevelsFile.name, file.path());
  const std::string with = basis().consistency();
  CHECK(with.find("levels of links (HORING_LEVELS_FILE)=3\n") != std::string::npos);
  CHECK(with.find("rates of levels (HORING_LEVELS_FILE)=300GB, 25GB, 25GB\n") != std::string::npos);
  // A device may be as fast as a setting says: levels must not count on one of the two nodes only.
  const test::ScopedVariable rate(env::kTunerNicMbps.name, "25000");
  CHECK(basis().consistency() != with);
}

TEST_CASE("with malformed levels nodes can be compared, but no tuner can be had") {
  const ScopedFile file(R"({"levels": [{"size": 2}]})", "json");
  const test::ScopedVariable variable(env::kLevelsFile.name, file.path());
  CHECK(basis().consistency().find("levels of links (HORING_LEVELS_FILE)=a file that cannot be") !=
        std::string::npos);
  CHECK_FALSE(basis().can_follow_files());
  CHECK(basis().has_files());
  const auto tuner = basis().tuner_for({16, 4, {}});
  REQUIRE_FALSE(tuner.ok());
  CHECK(tuner.status().message() ==
        file.path() +
            ": level 0: \"rate\" is missing: of one NIC in each direction, as \"400Gbit\"");
}

TEST_CASE("a file that is not there and a rate that is none are named") {
  {
    const test::ScopedVariable variable(env::kTuningFile.name, "/no/such/file.csv");
    const auto tuner = basis().tuner_for({16, 4, {}});
    REQUIRE_FALSE(tuner.ok());
    CHECK(tuner.status().message().find("tuning file /no/such/file.csv: ") == 0);
  }
  const test::ScopedVariable variable(env::kTunerHopUs.name, "soon");
  const auto made = TunerBasis::from_environment(kNics, true);
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().message().find("HORING_TUNER_HOP_US=soon: takes") == 0);
}

}  // namespace ho::plugin
