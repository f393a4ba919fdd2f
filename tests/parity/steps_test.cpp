// Steps of a number of micro-batches that changes.
#include <string>

#include "catch.hpp"
#include "job.hpp"
#include "run/step_runner.hpp"

using namespace paro;

TEST_CASE("the plan of a number of micro-batches is proved once", "[steps]") {
  ho::test::require_job({"2x1"}, [](ho_comm* comm) {
    RunnerConfig config;
    config.strategy = parse_strategy("GGG").value();
    config.units = {{"first", 40, 0}, {"second", 9, 3}};
    config.micro_batches = 3;
    HostMemory memory;
    const auto runner =
        std::move(StepRunner::create(comm, nodes_of(comm).value(), config, memory)).value();
    const auto expect_proofs = [&](uint64_t wanted, const std::string& when) {
      if (runner->proofs() != wanted) {
        throw std::runtime_error(when + ": " + std::to_string(runner->proofs()) + " proofs");
      }
    };
    expect_proofs(1, "at creation");
    for (const uint32_t count : {3U, 2U, 3U, 2U}) {
      const ho::Status set = runner->set_micro_batches(count);
      if (!set.ok()) {
        throw std::runtime_error(set.message());
      }
    }
    expect_proofs(2, "with a second number");
    if (!runner->set_micro_batches(1).ok() || !runner->set_micro_batches(2).ok()) {
      throw std::runtime_error(runner->broken().message());
    }
    expect_proofs(3, "with a third");
  });
}
