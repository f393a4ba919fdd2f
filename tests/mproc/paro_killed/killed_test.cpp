// A killed rank ends the training on all others with one cause, also on ranks that share no
// communicator with it. Deadlines are far away: what ends, ends because it is told.
#include <signal.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "catch.hpp"
#include "parity_case.hpp"
#include "process_job.hpp"
#include "trainer.hpp"

using namespace paro::test;
using ho::test::ProcessJob;
using ho::test::RankOutcome;

namespace {

// Far above ProcessJob's minute for a rank's end.
constexpr uint64_t kFarMs = 300'000;

// Trains until a step fails. HO_OK where the error names the killed rank as the cause.
ho_status train_until_reported(Trainer& trainer, int32_t killed) {
  try {
    for (uint64_t step = 1; step < 1000; ++step) {
      static_cast<void>(trainer.compute(step));
      must(paro_runner_step(trainer.runner(), nullptr));
    }
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    const bool named = text.find("rank " + std::to_string(killed) + " (") != std::string::npos;
    return named && text.find("deadline") == std::string::npos ? HO_OK : HO_INTERNAL;
  }
  return HO_INTERNAL;
}

ho_status run_rank(const ProcessJob::Rank& rank, const char* triple, int32_t killed) {
  const paro::toy::Training training = hard_training(paro::parse_strategy(triple).value(), 1);
  Trainer trainer(rank.comm, training);
  static_cast<void>(trainer.step(rank.comm, 0));
  must(paro_runner_synchronize(trainer.runner()));
  rank.say("trained a step");
  if (ho_comm_rank(rank.comm) == killed) {
    ::pause();
  }
  return train_until_reported(trainer, killed);
}

}  // namespace

TEST_CASE("a killed rank is the cause on all ranks, in strategies of every kind of communicator") {
  const std::string groups = GENERATE("2x2", "2+3");
  const char* const triple = GENERATE("NIG", "IIG", "III", "GGG");
  INFO(triple << " on " << groups);
  const int32_t killed = groups == "2x2" ? 3 : 4;
  ProcessJob job({groups, kFarMs},
                 [&](const ProcessJob::Rank& rank) { return run_rank(rank, triple, killed); });
  job.wait_for_line("trained a step");
  job.send_signal(static_cast<size_t>(killed), SIGKILL);
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK((outcome.status == HO_OK || rank == static_cast<size_t>(killed)));
  }
}
