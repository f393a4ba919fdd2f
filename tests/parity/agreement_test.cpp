// What two ranks decide at a step's end, without a runner.
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "run/budget.hpp"
#include "run/step_agreement.hpp"

namespace {

using namespace paro;

RunnerConfig one_unit() {
  RunnerConfig config;
  config.strategy = parse_strategy("NNN").value();
  config.units = {{"only", 8, 0}};
  config.rule = Sgd{0.5, 0, 0};
  return config;
}

// One rank's parts.
struct Rank {
  HostMemory memory;
  Shards shards = Shards(one_unit(), memory);
  Updater updater = Updater(shards.config, GroupsByUnit(1));
  StepAgreement agreement = StepAgreement(shards);

  explicit Rank(ho_comm* comm) {
    const ho::GroupMap groups = nodes_of(comm).value();
    shards.domains = std::make_unique<Domains>(Domains::make(comm, groups).value());
    shards.layouts = lay_out(shards.config.units, groups, shards.config.alignment).value();
    for (const UnitLayout& layout : shards.layouts) {
      shards.units.push_back(
          UnitState::make(shards.ledger, layout, state_shape(shards), shards.self()).value());
    }
    shards.control = ControlMemory::make(memory).value();
  }
  [[nodiscard]] bool second() const { return shards.self().value() == 1; }
  // What the third step says.
  ho::Status agree() {
    Transfer transfer(shards.ledger, {});
    for (const ho::Status& status : {agreement.begin(updater, 1, transfer), transfer.finish()}) {
      if (!status.ok()) {
        throw std::runtime_error(status.message());
      }
    }
    agreement.decide(updater, {2}, 1);
    return agreement.take();
  }
  [[nodiscard]] bool would_update() const {
    return shards.control.get()->left_out == ho::device::kTaken;
  }
};

// What the ranks say, by rank.
std::vector<std::string> said(const std::function<std::string(Rank&)>& body) {
  std::vector<std::string> texts(2);
  ho::test::require_job({"2x1"}, [&](ho_comm* comm) {
    Rank rank(comm);
    texts.at(rank.shards.self().at()) = body(rank);
  });
  return texts;
}

}  // namespace

TEST_CASE("ranks that agree take the step, and each learns that one has something to say",
          "[steps]") {
  const auto texts = said([](Rank& rank) -> std::string {
    rank.agreement.signal(rank.second());
    const ho::Status status = rank.agree();
    const StepOutcome& outcome = rank.agreement.outcome();
    const bool applies =
        outcome.step == 3 && outcome.applied && outcome.norm == 0 && rank.would_update();
    return status.message() + (applies ? "taken" : "left out") +
           (outcome.signalled ? ", signal" : "") + rank.shards.broken.message();
  });
  CHECK(texts == std::vector<std::string>{"taken, signal", "taken, signal"});
}

TEST_CASE("where one rank drops the step and another ends it both runners break", "[steps]") {
  const auto texts = said([](Rank& rank) -> std::string {
    rank.agreement.set_discards(rank.second());
    const ho::Status status = rank.agree();
    return (rank.shards.broken.ok() || rank.would_update() ? "whole: " : "broken: ") +
           status.message();
  });
  for (const std::string& text : texts) {
    CHECK(text.find("broken: ") == 0);
    CHECK(text.find(
              "step 3: rank 1 calls discard after its last micro-batch, rank 0 ends the step") !=
          std::string::npos);
  }
}

TEST_CASE("learning rates that differ are named with their ranks on both", "[steps]") {
  const auto texts = said([](Rank& rank) -> std::string {
    if (rank.second()) {
      rank.shards.config.rule = Sgd{0.25, 0, 0};
    }
    const ho::Status status = rank.agree();
    return status.message() + (rank.would_update() ? ", updated" : ", left out");
  });
  for (const std::string& text : texts) {
    CHECK(text.find("rank 0 has 0.5, rank 1 has 0.25") != std::string::npos);
    CHECK(text.find("left out") != std::string::npos);
  }
}

TEST_CASE("initial values that differ break both runners, and equal ones are compared once",
          "[steps]") {
  for (const float other : {1.0F, 2.0F}) {
    const auto texts = said([other](Rank& rank) -> std::string {
      const std::vector<float> values(8, rank.second() ? other : 1.0F);
      rank.agreement.loads().note(rank.shards.config, 0, values, {});
      const bool equal = rank.agree().ok();
      return (equal ? "equal" : "differ") +
             std::string(rank.agreement.loads().any() ? ", kept" : ", forgotten");
    });
    const std::string wanted = other == 1.0F ? "equal, forgotten" : "differ, kept";
    CHECK(texts == std::vector<std::string>{wanted, wanted});
  }
}

TEST_CASE("numbers of micro-batches that differ are named with their ranks", "[steps]") {
  const auto texts = said([](Rank& rank) {
    return rank.agreement.agree_on_count(2, "setting it").message() + "; " +
           rank.agreement.agree_on_count(rank.second() ? 3 : 2, "setting it").message();
  });
  for (const std::string& text : texts) {
    CHECK(
        text ==
        "; setting it: rank 0 has 2 micro-batches, rank 1 3; all ranks must give the same number");
  }
}
