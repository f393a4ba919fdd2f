#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cli/plugin/tune_options.hpp"
#include "cli/plugin/tune_report.hpp"
#include "core/tuner/cost_table.hpp"
#include "scoped_variable.hpp"
#include "temporary_folder.hpp"

namespace ho {
namespace {

using plugin::Choice;
using plugin::TunedCollective;

Parsed<TuneOptions> parse_tune(std::vector<const char*> words) {
  words.insert(words.begin(), "tune");
  return parse_tune_options(static_cast<int>(words.size()), words.data());
}

TuneReport report(const std::vector<const char*>& words, const char* rules = "") {
  const auto parsed = parse_tune(words);
  REQUIRE_FALSE(parsed.exit_status.has_value());
  auto made = tune_report(parsed.options, *plugin::TuningFile::parse(rules, "t.csv"));
  INFO(made.status().message());
  REQUIRE(made.ok());
  return std::move(made).value();
}

const std::vector<TuneRow>& rows(const TuneReport& report, TunedCollective collective) {
  return report.rows[static_cast<size_t>(collective)];
}

constexpr int kAlgorithms = plugin::kAlgorithmsSince223;
constexpr int kEntries = kAlgorithms * plugin::kProtocols;
using NcclTable = std::array<float, kEntries>;

// NCCL's table where these are allowed; what goes through CollNet looks best to it, and among the
// rest the `cheapest`-th entry.
NcclTable nccl_table(plugin::Choices allowed, int cheapest) {
  NcclTable table{};
  for (int entry = 0; entry < kEntries; ++entry) {
    const Choice choice = plugin::choice_of_algorithm(entry / plugin::kProtocols);
    const bool rail = std::find(plugin::kRailChoices.begin(), plugin::kRailChoices.end(), choice) !=
                      plugin::kRailChoices.end();
    const bool simple_only = rail || choice == Choice::kNvlsTree || choice == Choice::kPat;
    const bool possible = allowed.has(choice) && !(simple_only && entry % plugin::kProtocols != 2);
    const float own_cost = entry == cheapest ? 5.0F : 10.0F + static_cast<float>(entry);
    table.at(static_cast<size_t>(entry)) =
        !possible ? plugin::kForbiddenCost : (rail ? 1.0F : own_cost);
  }
  return table;
}

// As NCCL takes it: the first of the least that are not forbidden.
int nccl_takes(const NcclTable& table) {
  int taken = -1;
  for (int entry = 0; entry < kEntries; ++entry) {
    const float cost = table.at(static_cast<size_t>(entry));
    if (cost >= 0 && (taken < 0 || cost < table.at(static_cast<size_t>(taken)))) {
      taken = entry;
    }
  }
  return taken;
}

// Whether the choice that a row shows is what NCCL takes at that size.
void check_row(const TuneOptions& options,
               const plugin::Tuner& tuner,
               TunedCollective collective,
               const TuneRow& row,
               uint64_t bytes) {
  const plugin::Choices allowed = allowed_by_nccl(options, collective);
  for (int cheapest = 0; cheapest < kEntries; ++cheapest) {
    const NcclTable before = nccl_table(allowed, cheapest);
    NcclTable after = before;
    const auto view = plugin::CostTable::of(after.data(), kAlgorithms, plugin::kProtocols);
    REQUIRE(view.has_value());
    CHECK(tuner.apply({collective, bytes}, *view) == row.choice);
    const int taken = nccl_takes(after);
    const Choice algorithm = plugin::choice_of_algorithm(taken / plugin::kProtocols);
    CAPTURE(bytes, cheapest, taken);
    if (row.choice == Choice::kDefault) {
      CHECK(taken == nccl_takes(before));
    } else if (row.choice == Choice::kOwn) {
      CHECK(row.own.has(algorithm));
      // The protocol too is NCCL's own choice.
      const bool offered = before.at(static_cast<size_t>(cheapest)) == 5.0F;
      CHECK((!offered || taken == cheapest));
    } else {
      CHECK(algorithm == row.choice);
    }
  }
}

}  // namespace

TEST_CASE("tune: what is not given follows from what is") {
  const auto plain = inputs_of(parse_tune({}).options);
  CHECK(plain.node_count == 4);
  CHECK(plain.rank_count == 16);
  CHECK(plain.nic_count == 4);
  CHECK(plain.head_count == 4);
  CHECK(plain.nic_mbps == plain.rail_mbps);
  CHECK(plain.buffer_bytes == 4U << 20U);
  const auto input = inputs_of(parse_tune({"--nodes",
                                           "2",
                                           "--ranks-per-node",
                                           "8",
                                           "--nics",
                                           "2",
                                           "--rail-mbps",
                                           "200",
                                           "--nic-mbps",
                                           "300",
                                           "--intra-gbps",
                                           "5",
                                           "--hop-us",
                                           "7",
                                           "--buffsize",
                                           "16M",
                                           "--channels",
                                           "3",
                                           "--chunk-sizes"})
                                   .options);
  CHECK(input.rank_count == 16);
  CHECK(input.nic_count == 2);
  CHECK(input.head_count == 2);
  CHECK(input.rail_mbps == 200);
  CHECK(input.nic_mbps == 300);
  CHECK(input.intra_mbps == 5000);
  CHECK(input.hop_ns == 7000);
  CHECK(input.buffer_bytes == 16U << 20U);
  CHECK(input.channels() == 3);
  CHECK(input.sets_chunk_size == 1);
}

TEST_CASE("tune: what is allowed follows from the nodes and their switches") {
  const auto allowed = [](const std::vector<const char*>& words, TunedCollective collective) {
    return allowed_by(parse_tune(words).options, collective);
  };
  const auto plain = allowed({}, TunedCollective::kAllReduce);
  CHECK(plain.has(Choice::kCollNetChain));
  CHECK_FALSE(plain.has(Choice::kCollNetDirect));
  CHECK_FALSE(plain.has(Choice::kNvls));
  CHECK(allowed({"--nvswitch"}, TunedCollective::kAllReduce).has(Choice::kCollNetDirect));
  CHECK(allowed({"--nvls"}, TunedCollective::kAllGather).has(Choice::kCollNetDirect));
  CHECK(allowed({"--nvls"}, TunedCollective::kAllGather).has(Choice::kNvls));
  CHECK_FALSE(allowed({}, TunedCollective::kAllGather).has(Choice::kCollNetDirect));
  // With one rank per node the tuner can force direct; and NCCL has PAT there.
  const auto lone = allowed({"--ranks-per-node", "1"}, TunedCollective::kAllGather);
  CHECK(lone.has(Choice::kCollNetDirect));
  CHECK(lone.has(Choice::kPat));
  CHECK_FALSE(allowed({"--nodes", "1"}, TunedCollective::kAllReduce).has(Choice::kCollNetChain));
}

TEST_CASE("tune: a command line that cannot work ends with status 2") {
  const std::vector<std::vector<const char*>> wrong{
      {"--nodes", "0"},
      {"--nodes", "four"},
      {"--ranks-per-node", "0"},
      {"--ranks-per-node", "1025"},
      {"--nics", "0"},
      {"--heads", "5"},
      {"--rail-mbps", "0"},
      {"--rail-mbps", "-5"},
      {"--rail-mbps", "99999999"},
      {"--hop-us", "0"},
      {"--min", "0"},
      {"--min", "2K", "--max", "1K"},
      {"--max", "1X"},
      {"--buffsize", "1K"},
      {"--buffsize", "2G"},
      {"--unknown"},
      {"--file", ""},
      {"stray"},
  };
  for (const auto& words : wrong) {
    CAPTURE(words);
    CHECK(parse_tune(words).exit_status == 2);
  }
  CHECK(parse_tune({"--help"}).exit_status == 0);
}

TEST_CASE("tune: rows cover the sizes that are asked for, without a gap") {
  for (const auto& words : {std::vector<const char*>{"--nvswitch"},
                            std::vector<const char*>{"--nvls", "--min", "1", "--max", "1T"},
                            std::vector<const char*>{"--nodes", "1"},
                            std::vector<const char*>{"--min", "5M", "--max", "5M"}}) {
    CAPTURE(words);
    const TuneOptions options = parse_tune(words).options;
    const TuneReport made = report(words);
    for (const TunedCollective collective : plugin::kTunedCollectives) {
      uint64_t next = options.min_bytes;
      for (const TuneRow& row : rows(made, collective)) {
        CHECK(row.first_bytes == next);
        CHECK(row.timed_bytes >= row.first_bytes);
        CHECK(row.timed_bytes <= row.last_bytes);
        CHECK_FALSE(row.why.empty());
        next = row.last_bytes + 1;
      }
      CHECK(next == options.max_bytes + 1);
    }
  }
}

TEST_CASE("tune: each row has a choice, times and a reason") {
  const TuneReport made = report({"--nvswitch", "--rail-mbps", "25000"});
  const auto& reduce = rows(made, TunedCollective::kAllReduce);
  REQUIRE(reduce.size() >= 2);
  CHECK(reduce.front().choice == Choice::kOwn);
  CHECK(reduce.back().choice != Choice::kOwn);
  CHECK(std::isfinite(reduce.back().costs.of(Choice::kRing)));
  CHECK(std::isinf(reduce.back().costs.of(Choice::kNvls)));
  CHECK(reduce.back().why.find(" of ring's time") != std::string::npos);
  const auto& gather = rows(made, TunedCollective::kAllGather);
  CHECK(gather.back().choice == Choice::kOwn);
  CHECK(gather.back().why.find(" of 4 blocks in flight") != std::string::npos);
  CHECK(rows(report({"--nodes", "1"}), TunedCollective::kAllReduce).front().why ==
        "one node: no rail");
  CHECK(rows(report({}), TunedCollective::kAllGather).front().why ==
        "NCCL allows no rail ring here");
}

TEST_CASE("tune: the choice shown is NCCL's, for every shape, size and protocol") {
  const std::vector<std::vector<const char*>> shapes{
      {"--ranks-per-node", "1", "--nics", "1"},
      {"--nodes", "2", "--ranks-per-node", "1"},
      {"--nodes", "3", "--ranks-per-node", "1", "--rail-mbps", "200"},
      {"--ranks-per-node", "1", "--nic-mbps", "50000"},
      {"--nodes", "1"},
      {},
      {"--nvswitch", "--rail-mbps", "25000"},
      {"--nvls", "--nodes", "16", "--ranks-per-node", "8"},
      {"--ranks-per-node", "16", "--nics", "2"}};
  for (const auto& words : shapes) {
    CAPTURE(words);
    const TuneOptions options = parse_tune(words).options;
    const TuneReport made = report(words);
    const auto tuner = plugin::Tuner::make(inputs_of(options), plugin::TuningFile());
    REQUIRE(tuner.ok());
    for (const TunedCollective collective : plugin::kTunedCollectives) {
      for (const TuneRow& row : rows(made, collective)) {
        CAPTURE(to_string(collective), to_string(row.choice));
        CHECK((options.nodes < 2) == (row.choice == Choice::kDefault));
        for (const uint64_t bytes : {row.first_bytes, row.timed_bytes, row.last_bytes}) {
          check_row(options, *tuner, collective, row, bytes);
        }
      }
    }
  }
}

TEST_CASE("tune: where no rail ring wins, what NCCL chooses among is named") {
  const std::string text = to_string(report({"--ranks-per-node", "1", "--max", "1M"}));
  CHECK(text.find("  ring or tree  ") != std::string::npos);
  CHECK(text.find("  ring or pat  ") != std::string::npos);
  CHECK(text.find("collnet_direct takes 1.") != std::string::npos);
  const auto json =
      nlohmann::json::parse(to_json(report({"--ranks-per-node", "1", "--max", "1M"})));
  const auto& row = json["collectives"]["all_reduce"][0];
  CHECK(row["choice"] == "own");
  CHECK(row["own"] == std::vector<std::string>{"ring", "tree"});
}

TEST_CASE("tune: a file's rules are named") {
  const TuneReport made =
      report({"--nvswitch", "--file", "t.csv"}, "\nall_reduce,1K,2K,4,*,tree\n");
  const auto& reduce = rows(made, TunedCollective::kAllReduce);
  REQUIRE(reduce.size() >= 3);
  CHECK(reduce[1].first_bytes == 1024);
  CHECK(reduce[1].last_bytes == 2048);
  CHECK(reduce[1].choice == Choice::kTree);
  CHECK(reduce[1].why == "t.csv:2");
}

TEST_CASE("tune: a rule that cannot be applied says so, and why") {
  const auto why = [](std::vector<const char*> words, const char* rule, TunedCollective of) {
    words.insert(words.end(), {"--file", "t.csv"});
    const TuneReport made = report(words, rule);
    CHECK(rows(made, of).front().choice == Choice::kDefault);
    return rows(made, of).front().why;
  };
  CHECK(why({}, "all_reduce,*,*,*,*,collnet_direct\n", TunedCollective::kAllReduce) ==
        "t.csv:1 has collnet_direct, which is not possible here (NCCL rules it out without an "
        "NVSwitch, and the tuner allows it again with one rank per node only; see --nvswitch)");
  CHECK(why({}, "\nall_gather,*,*,*,*,nvls\n", TunedCollective::kAllGather) ==
        "t.csv:2 has nvls, which is not possible here (the nodes have no NVLS; see --nvls)");
  CHECK(why({}, "all_gather,*,*,*,*,pat\n", TunedCollective::kAllGather) ==
        "t.csv:1 has pat, which is not possible here (NCCL has it with one rank per node "
        "only)");
  CHECK(why({"--nodes", "1"}, "all_reduce,*,*,*,*,tree\n", TunedCollective::kAllReduce) ==
        "t.csv:1 has tree, which is not possible here (one node)");
  CHECK(why({}, "*,*,*,*,*,tree\n", TunedCollective::kAllGather) ==
        "t.csv:1 has tree, which is not possible here (NCCL has no such algorithm for "
        "all_gather)");
  CHECK(why({}, "*,*,*,*,*,default\n", TunedCollective::kAllGather) == "t.csv:1");
}

TEST_CASE("tune: levels of links stand in for what neither options nor other variables say") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  std::ofstream(path) << R"({"levels": [{"size": 4, "rate": "100GB", "latency": "1.5us"},
      {"size": 4, "rate": "25GB", "nics": 2, "latency": "7.5us"}]})";
  const test::ScopedVariable variable("HORING_LEVELS_FILE", path);
  plugin::CommonInputs inputs = inputs_of(parse_tune({}).options);
  CHECK(inputs.nic_count == 2);
  CHECK(inputs.nic_mbps == 200'000);
  CHECK(inputs.rail_mbps == 200'000);
  CHECK(inputs.intra_mbps == 800'000);
  CHECK(inputs.hop_ns == 7500);
  CHECK(inputs.intra_hop_ns == 1500);
  inputs = inputs_of(parse_tune({"--nics", "4", "--hop-us", "9"}).options);
  CHECK(inputs.nic_count == 4);
  CHECK(inputs.hop_ns == 9000);
  const test::ScopedVariable rate("HORING_TUNER_NIC_MBPS", "300");
  CHECK(inputs_of(parse_tune({}).options).nic_mbps == 300);
  CHECK(parse_tune({"--nodes", "5"}).exit_status == 2);
}

TEST_CASE("tune: levels of which no unit has a node's ranks are refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  std::ofstream(path) << R"({"levels": [{"size": 7, "rate": "100GB"}, {"size": 13, "rate": "50GB"},
      {"size": 11, "rate": "25GB"}]})";
  const test::ScopedVariable variable("HORING_LEVELS_FILE", path);
  CHECK(parse_tune({"--nodes", "4", "--ranks-per-node", "8"}).exit_status == 2);
  CHECK_FALSE(parse_tune({"--nodes", "4", "--ranks-per-node", "7"}).exit_status);
  CHECK_FALSE(parse_tune({"--nodes", "4", "--ranks-per-node", "91"}).exit_status);
  CHECK_FALSE(parse_tune({"--nodes", "4", "--ranks-per-node", "5"}).exit_status);  // a part of one
}

TEST_CASE("tune: the tuner's own variables stand in for options that are not given") {
  const test::ScopedVariable nics("HORING_TUNER_NICS", "2");
  const test::ScopedVariable nic("HORING_TUNER_NIC_MBPS", "300");
  const test::ScopedVariable intra("HORING_TUNER_INTRA_MBPS", "1500");
  const test::ScopedVariable hop("HORING_TUNER_HOP_US", "9");
  const test::ScopedVariable channels("HORING_TUNER_CHANNELS", "6");
  const test::ScopedVariable file("HORING_TUNING_FILE", "own.csv");
  auto inputs = inputs_of(parse_tune({}).options);
  CHECK(inputs.nic_count == 2);
  CHECK(inputs.nic_mbps == 300);
  CHECK(inputs.rail_mbps == 300);
  CHECK(inputs.intra_mbps == 1500);
  CHECK(inputs.hop_ns == 9000);
  CHECK(inputs.channels() == 6);
  CHECK(parse_tune({}).options.file == "own.csv");
  CHECK(to_string(report({})).find("from the environment: HORING_TUNER_NICS=2\n") !=
        std::string::npos);
  CHECK(to_string(report({})).find("from the environment: HORING_TUNING_FILE=own.csv\n") !=
        std::string::npos);
  const auto input = parse_tune({"--nics",
                                 "4",
                                 "--rail-mbps",
                                 "100",
                                 "--intra-gbps",
                                 "3",
                                 "--hop-us",
                                 "7",
                                 "--file",
                                 "t.csv"})
                         .options;
  inputs = inputs_of(input);
  CHECK(inputs.nic_count == 4);
  CHECK(inputs.rail_mbps == 100);
  CHECK(inputs.nic_mbps == 300);
  CHECK(inputs.intra_mbps == 3000);
  CHECK(inputs.hop_ns == 7000);
  CHECK(input.file == "t.csv");
  CHECK(input.from_environment ==
        std::vector<std::string>{"HORING_TUNER_NIC_MBPS=300", "HORING_TUNER_CHANNELS=6"});
  const test::ScopedVariable rail("HORING_TUNER_RAIL_MBPS", "250");
  CHECK(inputs_of(parse_tune({}).options).rail_mbps == 250);
  const test::ScopedVariable wrong("HORING_TUNER_NICS", "many");
  CHECK(parse_tune({}).exit_status == 2);
  CHECK_FALSE(parse_tune({"--nics", "1"}).exit_status.has_value());
}

TEST_CASE("tune: NCCL_ALGO and NCCL_PROTO take away what NCCL then does not offer the tuner") {
  const std::vector<const char*> one_rank_each{"--nodes", "4", "--ranks-per-node", "1"};
  {
    const test::ScopedVariable chain("NCCL_ALGO", "CollNetChain");
    const TuneReport made = report(one_rank_each);
    CHECK(made.inputs.algorithms_filtered == 1);
    CHECK(made.from_environment == std::vector<std::string>{"NCCL_ALGO=CollNetChain"});
    for (const TuneRow& row : rows(made, TunedCollective::kAllReduce)) {
      CHECK((row.choice == Choice::kDefault || row.choice == Choice::kCollNetChain));
      CHECK(std::isinf(row.costs.of(Choice::kTree)));
    }
    CHECK(rows(made, TunedCollective::kAllGather).front().why ==
          "NCCL_ALGO and NCCL_PROTO leave nothing: NCCL ends with an error");
  }
  {
    const test::ScopedVariable ring("NCCL_ALGO", "allreduce:ring;allgather:^ring");
    const TuneReport made = report(one_rank_each);
    for (const TuneRow& row : rows(made, TunedCollective::kAllReduce)) {
      CHECK(std::isinf(row.costs.of(Choice::kTree)));
      CHECK(std::isinf(row.costs.of(Choice::kCollNetChain)));
      CHECK(std::isfinite(row.costs.of(Choice::kRing)));
    }
    CHECK(std::isinf(rows(made, TunedCollective::kAllGather).front().costs.of(Choice::kRing)));
  }
  // What goes through CollNet takes SIMPLE, and is not allowed again where the user chooses.
  const test::ScopedVariable latency("NCCL_PROTO", "LL");
  const TuneReport made = report(one_rank_each, "reduce_scatter,*,*,*,*,collnet_direct\n");
  for (const TuneRow& row : rows(made, TunedCollective::kReduceScatter)) {
    CHECK(row.choice != Choice::kCollNetDirect);
    CHECK(row.why.find("NCCL_ALGO or NCCL_PROTO leaves it out") != std::string::npos);
  }
}

TEST_CASE("tune: the text has a table per collective") {
  const std::string text = to_string(report({"--nvswitch", "--max", "1M", "--min", "512K"}));
  CHECK(text.find("4 nodes of 4 ranks, 4 NICs and 4 heads each; per NIC 100000 Mbit/s for rail "
                  "rings and 100000 for NCCL's sends; 2400 Gbit/s inside; 20 us per hop; 4 "
                  "channels of 4 MiB\n") == 0);
  CHECK(text.find("\nall_reduce\n") != std::string::npos);
  CHECK(text.find("\nall_gather\n") != std::string::npos);
  CHECK(text.find("\nreduce_scatter\n") != std::string::npos);
  CHECK(text.find("ring   tree  collnet_direct  collnet_chain  why\n") != std::string::npos);
  CHECK(text.find(" \n") == std::string::npos);
}

TEST_CASE("tune: the JSON says the same") {
  const TuneReport made = report({"--nvswitch"});
  const auto json = nlohmann::json::parse(to_json(made));
  CHECK(json["nodes"] == 4);
  CHECK(json["channels"] == 4);
  CHECK(json["collectives"].size() == 3);
  for (const TunedCollective collective : plugin::kTunedCollectives) {
    const auto& list = json["collectives"][std::string(to_string(collective))];
    const auto& expected = rows(made, collective);
    REQUIRE(list.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(list[i]["min_bytes"] == expected[i].first_bytes);
      CHECK(list[i]["max_bytes"] == expected[i].last_bytes);
      CHECK(list[i]["choice"] == std::string(to_string(expected[i].choice)));
      CHECK(list[i]["times_us"]["ring"] == Approx(expected[i].costs.of(Choice::kRing) / 1000));
      CHECK_FALSE(list[i]["times_us"].contains("nvls"));
      CHECK(list[i]["why"] == expected[i].why);
    }
  }
}

}  // namespace ho
