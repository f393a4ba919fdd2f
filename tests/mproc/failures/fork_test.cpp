// A child forked from a rank: every use of the parent's communicator is an error there at once, and
// nothing that the child does reaches the parent's job.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "catch.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "sanitizers.hpp"
#include "shared_count.hpp"

using namespace ho::test;

namespace {

ho_status all_reduce(ho_comm* comm, ho_request** request = nullptr) {
  static std::vector<float> data(1000, 1.0F);
  return ho_all_reduce(
      comm, data.data(), data.data(), data.size(), HO_FLOAT32, HO_SUM, nullptr, nullptr, request);
}

bool refused(ho_status status) {
  const char* const message = ho_last_error_message();
  return status == HO_INVALID_ARGUMENT && std::strstr(message, "forked child") != nullptr &&
         std::strstr(message, "exec or _exit") != nullptr;
}

// In the child: 0 when all is as promised, else the number of the first broken promise.
int try_everything(ho_comm* comm, ho_request* pending) {
  float value = 0.0F;
  int32_t done = 0;
  size_t count = 0;
  ho_comm* part = nullptr;
  ho_request* request = nullptr;
  const std::vector<bool> promises{
      refused(all_reduce(comm)),
      refused(all_reduce(comm, &request)) && request == nullptr,
      refused(ho_barrier(comm, nullptr, nullptr)),
      refused(ho_send(comm, &value, 1, HO_FLOAT32, 0, 0, nullptr, nullptr)),
      refused(ho_recv(comm, &value, 1, HO_FLOAT32, 0, 0, nullptr, nullptr, nullptr)),
      refused(ho_comm_split(comm, 0, 0, &part)) && part == nullptr,
      refused(ho_comm_abort(comm, "from the child")),
      refused(ho_comm_measure_links(comm)),
      refused(ho_comm_link_rates(comm, nullptr, 0, &count)),
      refused(ho_request_test(pending, &done)),
      refused(ho_request_wait(pending, 0)),
      ho_comm_memory_bytes(comm) == 0,
      ho_comm_world_size(comm) == 4,
  };
  ho_comm_destroy(comm);
  for (size_t i = 0; i < promises.size(); ++i) {
    if (!promises[i]) {
      return static_cast<int>(i) + 1;
    }
  }
  return 0;
}

// The child's exit status; -1 where a signal ended it, after a minute one from here.
int end_of(pid_t child) {
  int state = 0;
  for (int tries = 0; tries < 6000; ++tries) {
    if (::waitpid(child, &state, WNOHANG) == child) {
      return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    }
    ::usleep(10000);
  }
  ::kill(child, SIGKILL);
  (void)::waitpid(child, &state, 0);
  return -1;
}

ho_status run_rank(const ProcessJob::Rank& rank, const SharedCount& done) {
  ho_request* pending = nullptr;
  // The progress thread exists while the child is made, and is at work.
  if (const ho_status status = all_reduce(rank.comm, &pending); status != HO_OK) {
    return status;
  }
  if (kSanitized) {
    // A child made while another thread is in the sanitizer's allocator finds its lock taken for
    // ever (glibc's is free in a child): the threads have nothing to do when all ranks are through.
    for (int32_t over = 0; over == 0;) {
      if (const ho_status status = ho_request_test(pending, &over); status != HO_OK) {
        return status;
      }
      ::usleep(1000);
    }
    done.add();
    (void)done.wait_for(4);
    ::usleep(300000);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(try_everything(rank.comm, pending));
  }
  if (child < 0) {
    return HO_SYSTEM;
  }
  rank.say("child " + std::to_string(end_of(child)));
  if (const ho_status status = ho_request_wait(pending, 0); status != HO_OK) {
    return status;
  }
  for (int round = 0; round < 20; ++round) {
    if (const ho_status status = all_reduce(rank.comm); status != HO_OK) {
      return status;
    }
  }
  return HO_OK;
}

}  // namespace

TEST_CASE("a forked child cannot use the communicator, and cannot harm it") {
  for (const char* groups : {"2x2", "1x4"}) {
    const SharedCount done;
    ProcessJob job({groups, 120'000},
                   [&done](const ProcessJob::Rank& rank) { return run_rank(rank, done); });
    job.wait_for_line("child 0");
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO(groups << " rank " << rank << ": " << outcome.message);
      CHECK(outcome.exited);
      CHECK(outcome.status == HO_OK);
    }
  }
}
