// An owner of an engine whose first failure is the job's decision at once, unless the test says
// otherwise.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "exec/engine_owner.hpp"

namespace ho {

struct PartToCome {
  std::function<Result<NextPart>()> make;
};

}  // namespace ho

namespace ho::test {

class TestOwner final : public EngineOwner {
 public:
  std::vector<RunError> failures;
  std::vector<MadeCall> doubts;
  std::function<void(const RunError&)> decide = [](const RunError&) {};

  void on_failure(const RunError& error) override {
    failures.push_back(error);
    decide(error);
  }
  void on_doubt(const MadeCall& call) override { doubts.push_back(call); }
  [[nodiscard]] std::optional<RailIndex> rail_to(GlobalRank /*peer*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] Result<NextPart> make_next_part(const PartToCome& part) override {
    return part.make();
  }
};

}  // namespace ho::test
