// States on devices, moved by NCCL, train as states on the host do that libhoring moves: bit for
// bit, where the order of sums does not show.
#include <mutex>
#include <string>
#include <vector>

#include "catch.hpp"
#include "on_doubles.hpp"
#include "parity_case.hpp"

using namespace paro;
using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::reset_doubles;

namespace {

// Every rank's, which must be the same.
Trained trained_by_all(const Job& job, bool on_device, const AfterSteps& last = {}) {
  std::mutex mutex;
  std::vector<Trained> all;
  ho::test::require_job({job.nodes}, [&](ho_comm* comm) {
    const auto device = on_device ? std::make_unique<RankDevice>(comm) : nullptr;
    Trained mine = train(comm, job, device.get(), last);
    const std::lock_guard lock(mutex);
    all.push_back(std::move(mine));
  });
  for (const Trained& each : all) {
    CHECK(each == all.front());
  }
  return all.front();
}

void check_job(const Job& job) {
  const Trained host = trained_by_all(job, false);
  const Trained device = trained_by_all(job, true);
  CHECK(device.norms == host.norms);
  CHECK(device.applied == host.applied);
  CHECK(device.masters == host.masters);
  CHECK(left_on_doubles() == "");
}

void check_strategies(const std::string& nodes, Mode mode, uint32_t steps) {
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy) << " on " << nodes << ", mode " << static_cast<int>(mode));
    reset_doubles(mode);
    Job job = job_of(strategy, nodes);
    job.steps = steps;
    check_job(job);
  }
}

}  // namespace

TEST_CASE("all strategies on devices train as on the host, bit for bit") {
  check_strategies("2x2", Mode::kRandom, 3);
  check_strategies("4x1", Mode::kEager, 2);
}

TEST_CASE("100 steps of all strategies on devices train as on the host, bit for bit", "[.more]") {
  for (const char* const nodes : {"2x2", "4x1", "1x4"}) {
    check_strategies(nodes, Mode::kEager, 100);
    for (const Mode mode : {Mode::kRandom, Mode::kLazy}) {
      check_strategies(nodes, mode, 5);
    }
  }
}
