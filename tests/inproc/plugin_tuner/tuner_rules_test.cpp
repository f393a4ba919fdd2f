// Every version's tuner where our network is not in use: a tuning file decides, so that what comes
// back is known to the last entry.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "tuner_driver.hpp"

namespace ho::plugin::built {
namespace {

constexpr size_t kMiB = size_t{1} << 20U;
constexpr size_t kLargest = SIZE_MAX;

// HORING_TUNING_FILE for the time of a test.
class TuningFileText {
 public:
  explicit TuningFileText(const std::string& text) {
    std::ofstream(path_) << text;
    ::setenv("HORING_TUNING_FILE", path_.c_str(), 1);
  }
  TuningFileText(const TuningFileText&) = delete;
  TuningFileText& operator=(const TuningFileText&) = delete;
  ~TuningFileText() {
    ::unsetenv("HORING_TUNING_FILE");
    (void)std::remove(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "tuner_rules_test." + std::to_string(::getpid()) + ".csv";
};

const char* const kRules =
    "all_reduce,1M,*,4,4,collnet_chain\n"
    "all_reduce,3,1023,*,*,ring\n"
    "all_gather,*,*,*,*,pat\n"
    "reduce_scatter,*,*,*,*,collnet_direct\n";

// The usual table with one entry 0.
Costs selected(Function function, int algorithm, int protocol) {
  Costs costs = usual_costs(function);
  costs.at[static_cast<size_t>(algorithm)][static_cast<size_t>(protocol)] = 0;
  return costs;
}

Costs requested(TunerDriver& tuner, const Question& question) {
  Costs costs = usual_costs(question.function);
  tuner.ask(question, &costs);
  return costs;
}

}  // namespace

TEST_CASE("versions 3 to 6 make NCCL take what the file says, and change nothing else") {
  const TuningFileText file(kRules);
  for (const int version : {3, 4, 5, 6}) {
    CAPTURE(version);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(16, 4) == Result::kSuccess);
    const Costs chain =
        selected(Function::kAllReduce, nccl_abi::kAlgorithmCollNetChain, nccl_abi::kProtocolSimple);
    for (const size_t bytes : {kMiB, kMiB + 1, 3 * kMiB - 7, kLargest}) {
      CHECK(requested(tuner, {Function::kAllReduce, bytes}) == chain);
      CHECK(requested(tuner, {Function::kAllReduce, bytes, 1, true}) == chain);
    }
    // The cheapest of ring's protocols.
    const Costs ring =
        selected(Function::kAllReduce, nccl_abi::kAlgorithmRing, nccl_abi::kProtocolSimple);
    for (const size_t bytes : {size_t{3}, size_t{1000}, size_t{1023}}) {
      CHECK(requested(tuner, {Function::kAllReduce, bytes}) == ring);
    }
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{1024}, kMiB - 1}) {
      CHECK(requested(tuner, {Function::kAllReduce, bytes}) == usual_costs(Function::kAllReduce));
    }
    // Operations of a group are looked at one by one; how many there are may be nonsense.
    CHECK(requested(tuner, {Function::kAllReduce, 2 * kMiB, 2}) == chain);
    CHECK(requested(tuner, {Function::kAllReduce, kMiB, 2}) == usual_costs(Function::kAllReduce));
    for (const int operations : {0, -1, 1}) {
      CHECK(requested(tuner, {Function::kAllReduce, kMiB, operations}) == chain);
    }
    CHECK(requested(tuner, {Function::kAllGather, 5}) ==
          selected(Function::kAllGather, nccl_abi::kAlgorithmPat, nccl_abi::kProtocolSimple));
    CHECK(tuner.end() == Result::kSuccess);
  }
}

TEST_CASE("what CollNet does not do, and what we do not know, stays NCCL's") {
  const TuningFileText file("*,*,*,*,*,ring\n");
  for (const int version : {3, 4, 5, 6}) {
    CAPTURE(version);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(16, 4) == Result::kSuccess);
    for (const Function function : {Function::kBroadcast,
                                    Function::kReduce,
                                    Function::kSendReceive,
                                    Function::kWaitSignal,
                                    static_cast<Function>(-1),
                                    static_cast<Function>(99)}) {
      CHECK(requested(tuner, {function, kMiB}) == usual_costs(function));
    }
    // Shapes of tables.
    for (const auto& [algorithms, protocols] :
         {std::pair(5, 3), std::pair(8, 3), std::pair(7, 2), std::pair(7, 4), std::pair(0, 0)}) {
      CHECK(requested(tuner, {Function::kAllReduce, kMiB, 1, false, algorithms, protocols}) ==
            usual_costs(Function::kAllReduce));
    }
    CHECK(requested(tuner, {Function::kAllReduce, kMiB, 1, false, 6}) ==
          selected(Function::kAllReduce, nccl_abi::kAlgorithmRing, nccl_abi::kProtocolSimple));
    tuner.ask({Function::kAllReduce, kMiB}, nullptr);
  }
}

TEST_CASE("entries that NCCL or its user forbids are not taken") {
  const TuningFileText file(kRules);
  for (const int version : {3, 4, 5, 6}) {
    CAPTURE(version);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(16, 4) == Result::kSuccess);
    Costs costs = usual_costs(Function::kAllReduce);
    costs.at[nccl_abi::kAlgorithmCollNetChain].fill(kIgnored);
    const Costs filtered = costs;
    tuner.ask({Function::kAllReduce, kMiB}, &costs);
    CHECK(costs == filtered);
    Costs nothing;
    for (auto& row : nothing.at) {
      row.fill(kIgnored);
    }
    const Costs before = nothing;
    for (const Function function :
         {Function::kAllReduce, Function::kAllGather, Function::kReduceScatter}) {
      tuner.ask({function, kMiB}, &nothing);
      CHECK(nothing == before);
    }
    // Direct is forbidden without an NVSwitch, and nothing shows that it is safe.
    CHECK(requested(tuner, {Function::kReduceScatter, kMiB}) ==
          usual_costs(Function::kReduceScatter));
  }
}

TEST_CASE("version 2 names one algorithm, or nothing") {
  const TuningFileText file(kRules);
  TunerDriver tuner(2);
  REQUIRE(tuner.init(16, 4) == Result::kSuccess);
  const Named chain = tuner.name({Function::kAllReduce, kMiB}, true, false);
  CHECK(chain.algorithm == nccl_abi::kAlgorithmCollNetChain);
  CHECK(chain.protocol == nccl_abi::kProtocolSimple);
  CHECK(tuner.name({Function::kAllReduce, 3}, true, false).algorithm == nccl_abi::kAlgorithmRing);
  for (const Question& question : {Question{Function::kAllReduce, 0},
                                   Question{Function::kAllReduce, 2},
                                   Question{Function::kAllGather, kMiB},
                                   Question{Function::kReduceScatter, kMiB},
                                   Question{Function::kBroadcast, kMiB},
                                   Question{static_cast<Function>(77), kMiB}}) {
    const Named named = tuner.name(question, true, true);
    CHECK(named.algorithm == Named::kNothing);
    CHECK(named.protocol == Named::kNothing);
  }
  // Without CollNet support the chain is not there.
  CHECK(tuner.name({Function::kAllReduce, kMiB}, false, true).algorithm == Named::kNothing);
}

TEST_CASE("a malformed tuning file stops each version, with file, line and reason in NCCL's log") {
  const TuningFileText file("all_reduce,1M,*,4,4,collnet_chain\nall_reduce,1M,1K,*,*,ring\n");
  for (const int version : kVersions) {
    CAPTURE(version);
    (void)Log::take();
    TunerDriver tuner(version);
    CHECK(tuner.init(16, 4) == Result::kInvalidArgument);
    CHECK_FALSE(tuner.has_context());
    const std::string said = Log::take();
    INFO(said);
    CHECK(said.find("WARN horing plugin: no tuner: " + file.path() +
                    ":2:15: max_bytes '1K': is less than min_bytes") != std::string::npos);
  }
}

TEST_CASE("communicators that cannot be have no tuner") {
  for (const int version : kVersions) {
    CAPTURE(version);
    TunerDriver tuner(version);
    CHECK(tuner.init(3, 4) == Result::kInvalidArgument);
    CHECK_FALSE(tuner.has_context());
  }
}

TEST_CASE("without a context nothing is answered, and that is no error") {
  for (const int version : {3, 4, 5, 6}) {
    TunerDriver tuner(version);
    CHECK(requested(tuner, {Function::kAllReduce, kMiB}) == usual_costs(Function::kAllReduce));
  }
  TunerDriver second(2);
  CHECK(second.name({Function::kAllReduce, kMiB}, true, true).algorithm == Named::kNothing);
  TunerDriver sixth(6);
  CHECK(sixth.chunk(Function::kAllGather, kMiB, nccl_abi::kAlgorithmCollNetDirect, 2, 77) == 77);
}

TEST_CASE("several communicators at once keep to their own shapes") {
  const TuningFileText file("all_reduce,*,*,4,4,collnet_chain\nall_reduce,*,*,2,*,tree\n");
  TunerDriver large(5);
  TunerDriver small(5);
  REQUIRE(large.init(16, 4, 7) == Result::kSuccess);
  REQUIRE(small.init(2, 2, 8) == Result::kSuccess);
  const Costs chain =
      selected(Function::kAllReduce, nccl_abi::kAlgorithmCollNetChain, nccl_abi::kProtocolSimple);
  CHECK(requested(large, {Function::kAllReduce, kMiB}) == chain);
  CHECK(requested(small, {Function::kAllReduce, kMiB}) ==
        selected(Function::kAllReduce, nccl_abi::kAlgorithmTree, nccl_abi::kProtocolLl));
  CHECK(small.end() == Result::kSuccess);
  CHECK(requested(large, {Function::kAllReduce, kMiB}) == chain);
}

}  // namespace ho::plugin::built
