// Ranks with device memory of which one is killed, stops, or aborts in the middle of a call: the
// others have the error that names it, their streams run on, and their buffers are theirs again at
// once. Nothing stays on their devices, which ProcessJob asks the double.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "has.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "rank_memory.hpp"
#include "shared_count.hpp"

using namespace ho::test;

namespace {

constexpr size_t kFloats = 300'001;  // more than one piece
constexpr int32_t kVictim = 2;
constexpr int kReadyAt = 3;  // a turn in which all are under way
constexpr std::array kModes{"eager", "lazy", "random"};

ProcessJobOptions on_double(const char* groups, uint64_t timeout_ms, const char* mode) {
  ProcessJobOptions options{groups, timeout_ms};
  options.prepare = [mode](size_t rank) {
    ::setenv("HORING_TEST_CUDA_MODE", mode, 1);
    ::setenv("HORING_TEST_CUDA_SEED", std::to_string(rank + 1).c_str(), 1);
  };
  return options;
}

// On the device of the communicator.
RankMemory memory_of(ho_comm* comm) {
  return RankMemory(ho_comm_device(comm), kFloats);
}

// A call on the stream.
ho_status all_reduce(ho_comm* comm,
                     const RankMemory& memory,
                     float* recv,
                     uint64_t timeout_ms = 0) {
  ho_call_options options = memory.options();
  options.timeout_ms = timeout_ms;
  return ho_all_reduce(
      comm, memory.send(), recv, kFloats, HO_FLOAT32, HO_SUM, &options, nullptr, nullptr);
}

// The victim is stopped in its call, and the others call when it is: with a deadline that passes.
ho_status call_with_stopped(const ProcessJob::Rank& rank,
                            const RankMemory& memory,
                            float* recv,
                            const SharedCount& stopped) {
  constexpr uint64_t kPassesMs = 1000;
  if (ho_comm_rank(rank.comm) != kVictim) {
    rank.say("ready");
    (void)stopped.wait_for(1);
    return all_reduce(rank.comm, memory, recv, kPassesMs);
  }
  const ho_call_options options = memory.options();
  ho_request* request = nullptr;
  const ho_status status = ho_all_reduce(
      rank.comm, memory.send(), recv, kFloats, HO_FLOAT32, HO_SUM, &options, nullptr, &request);
  rank.say("ready");
  return status == HO_OK ? ho_request_wait(request, 0) : status;
}

// Calls one after the other; earlier ones may have returned before their work on the device is
// over. The text of the error.
std::string until_error(const ProcessJob::Rank& rank,
                        const RankMemory& memory,
                        float* recv,
                        ho_status& status,
                        const SharedCount* stopped = nullptr) {
  status = HO_OK;
  for (int round = 0; status == HO_OK; ++round) {
    if (round >= kReadyAt && stopped != nullptr) {
      status = call_with_stopped(rank, memory, recv, *stopped);
      continue;
    }
    if (round == kReadyAt) {
      rank.say("ready");
    }
    status = all_reduce(rank.comm, memory, recv);
  }
  return ho_last_error_message();
}

// Right after the error: the buffers are overwritten through the stream of the calls, which still
// carries out what it is given; whoever wrote or read them now would be a violation. What is wrong.
std::string use_again(RankMemory& memory) {
  std::vector<float> values(kFloats);
  for (size_t i = 0; i < kFloats; ++i) {
    values[i] = static_cast<float>(i % 1000);
  }
  memory.finish();
  memory.fill(values);
  memory.overwrite_recv();
  memory.fetch();
  return memory.fetched() == values ? "" : "the stream has not copied what it was given";
}

// What the second rank of each group does with the memory of a failed call is to free it at once.
bool frees_at_once(ho_comm* comm) {
  return ho_comm_rank(comm) % 2 == 1;
}

// A rank with memory of its own until the error, and what it says at its end.
ho_status live_on(const ProcessJob::Rank& rank, const SharedCount* stopped) {
  ho_status status = HO_OK;
  std::string error;
  std::string wrong;
  {
    RankMemory memory = memory_of(rank.comm);
    memory.fill(std::vector<float>(kFloats, 1.0F));
    error = until_error(rank, memory, memory.recv(), status, stopped);
    if (!frees_at_once(rank.comm)) {
      wrong = use_again(memory);
    }
    // Freed here, while the communicator is still there.
  }
  if (wrong.empty() && ho_comm_status(rank.comm) != status) {
    wrong = "ho_comm_status has another error";
  }
  {
    RankMemory memory = memory_of(rank.comm);
    wrong += use_again(memory);
    if (all_reduce(rank.comm, memory, memory.recv()) != status) {
      wrong += "; a later call has another error";
    }
    wrong += use_again(memory);
  }
  ho_set_last_error_message((wrong + error).c_str());
  return wrong.empty() ? status : HO_INTERNAL;
}

void check_survivors(ProcessJob& job, ho_status status, const std::vector<std::string>& parts) {
  for (size_t rank = 0; rank < job.size(); ++rank) {
    if (rank == static_cast<size_t>(kVictim)) {
      continue;
    }
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == status);
    for (const std::string& part : parts) {
      CHECK(has(outcome.message, part));
    }
  }
}

}  // namespace

TEST_CASE("a rank killed amid a call on its device leaves all others a device that works",
          "[device]") {
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    for (const char* mode : kModes) {
      INFO(groups << ", " << mode);
      ProcessJob job(on_double(groups, 60000, mode),
                     [](const ProcessJob::Rank& rank) { return live_on(rank, nullptr); });
      job.wait_for_line("ready");
      job.send_signal(kVictim, SIGKILL);
      // Long before the deadline, which would be another error.
      check_survivors(job, HO_PEER_LOST, {"rank 2 (", " is gone", "all_reduce #"});
      CHECK(job.outcome(kVictim).signal == SIGKILL);
    }
  }
}

// The host waits for nothing but the call's error.
TEST_CASE("pinned memory that a failed call received into is the host's at once", "[device]") {
  for (const char* mode : kModes) {
    INFO(mode);
    ProcessJob job(on_double("2x2", 60000, mode), [](const ProcessJob::Rank& rank) {
      RankMemory memory = memory_of(rank.comm);
      memory.fill(std::vector<float>(kFloats, 1.0F));
      memory.finish();
      ho_status status = HO_OK;
      const std::string error = until_error(rank, memory, memory.pinned(), status);
      memory.fill(std::vector<float>(kFloats, 2.0F));
      memory.overwrite_recv();
      memory.fetch();
      const bool copied = memory.fetched().back() == 2.0F;
      ho_set_last_error_message(error.c_str());
      return copied ? status : HO_INTERNAL;
    });
    job.wait_for_line("ready");
    job.send_signal(kVictim, SIGKILL);
    check_survivors(job, HO_PEER_LOST, {"rank 2 (", " is gone"});
  }
}

TEST_CASE("a rank that stops amid a call on its device is named when the deadline passes",
          "[device]") {
  for (const char* mode : kModes) {
    INFO(mode);
    const SharedCount stopped;
    ProcessJob job(on_double("2x2", 60000, mode),
                   [&](const ProcessJob::Rank& rank) { return live_on(rank, &stopped); });
    job.wait_for_line("ready");
    job.send_signal(kVictim, SIGSTOP);
    stopped.add();
    check_survivors(job, HO_TIMEOUT, {"rank 2", "does not answer"});
    job.send_signal(kVictim, SIGKILL);
    job.send_signal(kVictim, SIGCONT);
  }
}

TEST_CASE("an abort by another thread ends calls on all devices, which go on working", "[device]") {
  for (const char* mode : kModes) {
    INFO(mode);
    ProcessJob job(on_double("2x2", 60000, mode), [](const ProcessJob::Rank& rank) {
      std::thread aborter;
      if (ho_comm_rank(rank.comm) == kVictim) {
        aborter = std::thread([&] {
          ::usleep(100000);
          (void)ho_comm_abort(rank.comm, "the test has seen enough");
        });
      }
      const ho_status status = live_on(rank, nullptr);
      if (aborter.joinable()) {
        aborter.join();
      }
      return status;
    });
    check_survivors(job, HO_ABORTED, {"rank 2 called abort: the test has seen enough"});
    const RankOutcome outcome = job.outcome(kVictim);
    INFO(outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_ABORTED);
  }
}

// Rank 2 cannot open what rank 1 offers it in the first call, and nobody else has that trouble.
TEST_CASE("a rank that cannot open another's memory has its messages through pinned memory",
          "[device]") {
  ProcessJobOptions options = on_double("1x4", 60000, "random");
  options.prepare = [before = options.prepare](size_t rank) {
    before(rank);
    if (rank == 2) {
      ::setenv("HORING_TEST_CUDA_FAIL", "ipc_open:1:801", 1);
    }
  };
  ProcessJob job(options, [](const ProcessJob::Rank& rank) -> ho_status {
    RankMemory memory = memory_of(rank.comm);
    const auto self = static_cast<float>(ho_comm_rank(rank.comm));
    memory.fill(std::vector<float>(kFloats, self));
    memory.finish();
    ho_call_options ring = memory.options();
    ring.algorithm = HO_ALGORITHM_RING;
    const size_t each = kFloats / 4;
    ho::cuda_double::forget_counts();
    std::string wrong;
    for (int i = 0; i < 3; ++i) {
      const ho_status status = ho_all_gather(
          rank.comm, memory.send(), memory.recv(), each, HO_FLOAT32, &ring, nullptr, nullptr);
      if (status != HO_OK) {
        return status;
      }
      memory.fetch();
      const std::vector<float> all = memory.fetched();
      for (size_t from = 0; from < 4; ++from) {
        const bool right = all[from * each] == static_cast<float>(from) &&
                           all[from * each + each - 1] == static_cast<float>(from);
        wrong += right ? "" : " " + std::to_string(from);
      }
    }
    const bool pinned = ho::cuda_double::calls("host_allocate") > 0;
    ho_set_last_error_message((wrong + (pinned ? "pinned" : "shared")).c_str());
    return HO_OK;
  });
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank);
    CHECK(outcome.exited);
    CHECK(outcome.message == (rank == 1 || rank == 2 ? "pinned" : "shared"));
  }
}

// What ProcessJob tells of a rank's end is not always that all is well.
TEST_CASE("a rank that leaves memory on its device, or misuses it, does not end well", "[device]") {
  const bool misuses = GENERATE(false, true);
  ProcessJob job(on_double("1x2", 60000, "lazy"), [=](const ProcessJob::Rank& rank) -> ho_status {
    if (ho_comm_rank(rank.comm) == 0) {
      return HO_OK;
    }
    if (!misuses) {
      // Never freed.
      static auto left = std::make_unique<RankMemory>(ho_comm_device(rank.comm), 10);
      return left == nullptr ? HO_INTERNAL : HO_OK;
    }
    RankMemory memory(ho_comm_device(rank.comm), 10);
    memory.fill(std::vector<float>(10, 1.0F));
    // Written while the copy may still read it.
    memory.device().host_writes({reinterpret_cast<std::byte*>(memory.pinned()), 10});
    return HO_OK;
  });
  CHECK(job.outcome(0).exited);
  CHECK_FALSE(job.outcome(1).exited);
}
