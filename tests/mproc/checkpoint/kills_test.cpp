// Ranks are killed at random moments of saving, and no checkpoint that was there is lost by it.
#include <paro.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/store.hpp"
#include "process_job.hpp"
#include "shared_count.hpp"
#include "temporary_folder.hpp"

using namespace ho::test;
using namespace paro::checkpoint;

namespace {

constexpr uint64_t kElements = 300'000;  // a few ms to save
constexpr uint32_t kUnits = 2;

// A step in which every master loses 1.
ho_status take_step(paro_runner* runner) {
  paro_unit_view view = PARO_UNIT_VIEW_INIT;
  for (uint32_t u = 0; u < kUnits; ++u) {
    if (paro_runner_before_forward(runner, u, &view) != HO_OK ||
        paro_runner_after_forward(runner, u) != HO_OK) {
      return HO_INTERNAL;
    }
  }
  for (uint32_t u = kUnits; u-- > 0;) {
    if (paro_runner_before_backward(runner, u, &view) != HO_OK) {
      return HO_INTERNAL;
    }
    for (uint64_t i = 0; i < view.trained_count; ++i) {
      static_cast<float*>(view.gradients)[i] += 1;
    }
    if (paro_runner_after_backward(runner, u) != HO_OK) {
      return HO_INTERNAL;
    }
  }
  return paro_runner_step(runner, nullptr);
}

// HO_MISMATCH unless all masters are what so many steps make of them.
ho_status check_masters(paro_runner* runner) {
  std::vector<float> masters(kElements);
  for (uint32_t u = 0; u < kUnits; ++u) {
    const ho_status status = paro_runner_read_masters(runner, u, masters.data(), masters.size());
    if (status != HO_OK) {
      return status;
    }
    const float wanted = -static_cast<float>(paro_runner_applied_steps(runner));
    for (const float master : masters) {
      if (master != wanted) {
        return HO_MISMATCH;
      }
    }
  }
  return HO_OK;
}

ho_status restore(paro_runner* runner, const std::string& folder) {
  paro_checkpoint* checkpoint = nullptr;
  ho_status status = paro_checkpoint_open(folder.c_str(), &checkpoint);
  if (status == HO_OK) {
    status = paro_runner_restore(runner, checkpoint, nullptr);
  }
  paro_checkpoint_close(checkpoint);
  return status == HO_OK ? check_masters(runner) : status;
}

// Trains and saves until something fails, from the last checkpoint on where there is one.
ho_status save_forever(const ProcessJob::Rank& rank,
                       const std::string& folder,
                       const SharedCount& saved,
                       int32_t in_background) {
  const paro_unit units[kUnits] = {{"first", kElements, 0, nullptr},
                                   {"second", kElements, 0, nullptr}};
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = "IIG";
  options.optimizer = PARO_OPTIMIZER_SGD;
  options.sgd = {1.0, 0.0, 0.0};
  paro_runner* runner = nullptr;
  ho_status status = paro_runner_create(rank.comm, &options, units, kUnits, &runner);
  if (status == HO_OK && saved.value() > 0) {
    status = restore(runner, folder);
    if (status != HO_OK) {
      rank.say(std::string("cannot go on: ") + paro_last_error_message());
      paro_runner_destroy(runner);
      return status;
    }
  }
  paro_save_options save = PARO_SAVE_OPTIONS_INIT;
  save.in_background = in_background;
  bool ready = false;
  while (status == HO_OK) {
    status = take_step(runner);
    if (status == HO_OK) {
      // In the background: the outcome of the one before.
      const uint64_t done = paro_runner_applied_steps(runner) - (in_background != 0 ? 1 : 0);
      status = paro_runner_save(runner, folder.c_str(), &save);
      if (status == HO_OK && ho_comm_rank(rank.comm) == 0 && done > saved.value()) {
        saved.set(done);
      }
      if (status == HO_OK && done > 0 && !std::exchange(ready, true)) {
        rank.say("ready");
      }
    }
  }
  paro_runner_destroy(runner);
  return status;
}

int rounds() {
  const char* const text = std::getenv("HORING_TEST_KILLS");
  return text == nullptr ? 25 : std::atoi(text);
}

}  // namespace

TEST_CASE("whoever is killed while a job saves, every checkpoint that was there stays") {
  const TemporaryFolder folder;
  const SharedCount saved;  // the last step that the ranks were told is saved
  std::mt19937 random(20261122);
  for (int round = 0; round < rounds(); ++round) {
    {
      // A rank may have to wait for its deadline where rank 0 was killed (ADR 3).
      ProcessJob job({"2x2", 20'000}, [&](const ProcessJob::Rank& rank) {
        return save_forever(rank, folder.root(), saved, round % 2);
      });
      job.wait_for_line("ready");
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      const size_t victim = random() % job.size();
      const bool everybody = round % 5 == 4;
      for (size_t rank = 0; rank < job.size(); ++rank) {
        if (everybody || rank == victim) {
          job.send_signal(rank, SIGKILL);
        }
      }
      for (size_t rank = 0; rank < job.size(); ++rank) {
        const RankOutcome outcome = job.outcome(rank);
        INFO("round " << round << ", rank " << rank << ": " << outcome.message);
        CHECK(outcome.message.find("cannot go on") == std::string::npos);
        CHECK((everybody || rank == victim || outcome.exited));
      }
    }
    INFO("round " << round << ", saved: step " << saved.value());
    if (saved.value() == 0) {
      continue;
    }
    const auto path = find_checkpoint(folder.root());
    REQUIRE(path.ok());
    const auto reader = Reader::open(*path);
    INFO(reader.status().message());
    REQUIRE(reader.ok());
    CHECK(reader->manifest().step >= saved.value());
    const ho::Status sound = reader->verify();
    INFO(sound.message());
    REQUIRE(sound.ok());
    saved.set(reader->manifest().step);
  }
  CHECK(saved.value() > 0);
}
