// An owner of an engine that keeps what it is told, and does about it what the test says.
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
  std::function<void(const MadeCall&)> answer = [](const MadeCall&) {};
  std::optional<RailIndex> rail{};  // of messages; nothing: shared memory

  void on_failure(const RunError& error) override {
    failures.push_back(error);
    decide(error);
  }
  void on_doubt(const MadeCall& call) override {
    doubts.push_back(call);
    answer(call);
  }
  [[nodiscard]] std::optional<RailIndex> rail_to(GlobalRank /*peer*/) const override {
    return rail;
  }
  [[nodiscard]] Result<NextPart> make_next_part(const PartToCome& part) override {
    return part.make();
  }
};

}  // namespace ho::test
