// A rank stops or dies at every moment of its start and of a split: before each message that it
// sends. All others must hear that it is this rank they wait for, wherever each of them waits.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "counted_message.hpp"
#include "horing.h"
#include "process_job.hpp"

using namespace ho::test;

namespace {

// How many more messages this process sends before it gets the signal; below 0: it does not.
std::atomic<int> sends_left{-1};
std::atomic<int> signal_then{SIGSTOP};
thread_local const SharedCount* next_message = nullptr;

void stop_where_due() {
  if (sends_left.load() >= 0 && sends_left.fetch_sub(1) == 0) {
    ::kill(::getpid(), signal_then.load());
    ::usleep(1000);  // until it is delivered
  }
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In the place of the C library's, for the library too.
extern "C" __attribute__((visibility("default"))) ssize_t send(int fd,
                                                               const void* data,
                                                               size_t size,
                                                               int flags) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, int)>("send");
  stop_where_due();
  return real(fd, data, size, flags);
}

extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd,
                                                                  const msghdr* message,
                                                                  int flags) {
  static const auto real = next<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  stop_where_due();
  const ssize_t sent = real(fd, message, flags);
  if (const SharedCount* const count = std::exchange(next_message, nullptr)) {
    count->add();
  }
  return sent;
}

void ho::test::count_next_message(const SharedCount& count) {
  next_message = &count;
}

namespace {

constexpr const char* kConnectTimeoutMs = "6000";

struct Fate {
  const char* groups;
  size_t victim;
  int signal;
};

std::unique_ptr<ProcessJob> job_that_fails(const Fate& fate, int sends) {
  ProcessJobOptions options{fate.groups, 60000};
  options.prepare = [=](size_t rank) {
    ::setenv("HORING_CONNECT_TIMEOUT_MS", kConnectTimeoutMs, 1);
    signal_then = fate.signal;
    sends_left = rank == fate.victim ? sends : -1;
  };
  return std::make_unique<ProcessJob>(options, [](const ProcessJob::Rank& rank) -> ho_status {
    ho_comm* half = nullptr;
    const ho_status status = ho_comm_split(rank.comm, 0, 0, &half);
    if (status == HO_OK) {  // it would take the message
      ho_comm_destroy(half);
    }
    return status;
  });
}

// Until the victim has stopped or died, or is through: jobs that wait have time to themselves.
void await_fate(pid_t victim) {
  siginfo_t what{};
  for (int ms = 0; what.si_pid == 0 && ms < 60'000; ++ms) {
    ::usleep(1000);
    (void)::waitid(P_PID, static_cast<id_t>(victim), &what, WSTOPPED | WEXITED | WNOWAIT | WNOHANG);
  }
}

// The number of the first rank that a text blames; -1: none.
int first_named(const std::string& text) {
  // While the ranks find each other, whose deadline it was comes before who is missing.
  const size_t missing = text.find("missing: ");
  const size_t from = text.find("ranks arrived at") < missing ? missing : 0;
  for (size_t at = text.find("rank ", from); at != std::string::npos;
       at = text.find("rank ", at + 1)) {
    if (at + 5 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 5])) != 0) {
      return std::atoi(text.c_str() + at + 5);
    }
  }
  return -1;
}

// Whether it befell the victim before the others were through.
bool failed_in_time(ProcessJob& job, const Fate& fate, int sends) {
  const size_t victim = fate.victim;
  size_t failed = 0;
  for (size_t rank = 0; rank < job.size(); ++rank) {
    if (rank == victim) {
      continue;
    }
    const RankOutcome outcome = job.outcome(rank);
    INFO("before message " << sends << " of rank " << victim << ", rank " << rank << ": "
                           << outcome.status << " " << outcome.message);
    CHECK(outcome.exited);
    if (outcome.status == HO_OK) {
      continue;
    }
    ++failed;
    // One that is gone before the ranks have found each other may come again.
    CHECK((outcome.status == HO_TIMEOUT ||
           (fate.signal == SIGKILL && outcome.status == HO_PEER_LOST)));
    // Rank 0 serves the others, who speak of themselves first where it does not answer.
    const bool named = victim == 0 ? outcome.message.find("rank 0") != std::string::npos
                                   : first_named(outcome.message) == static_cast<int>(victim);
    CHECK(named);
  }
  // Rank 0 may stop when it has told some of the others that all is well.
  CHECK((victim == 0 || failed == 0 || failed == job.size() - 1));
  return failed > 0;
}

}  // namespace

TEST_CASE("a rank that stops or dies in its start or in a split is the one that all others name") {
  const Fate fate = GENERATE(Fate{"2x2", 1, SIGSTOP},
                             Fate{"1+3", 2, SIGSTOP},
                             Fate{"2x2", 0, SIGSTOP},
                             Fate{"1+3", 2, SIGKILL});
  INFO(fate.groups << " signal " << fate.signal);
  // Rank 0 sends many: to every rank what it gathers from all.
  const int step = fate.victim == 0 ? 4 : 1;
  constexpr int kAtOnce = 10;
  int moments = 0;
  bool through = false;
  for (int sends = 0; !through && sends < 200; sends += kAtOnce * step) {
    std::vector<std::unique_ptr<ProcessJob>> jobs;
    jobs.reserve(kAtOnce);
    for (int more = 0; more < kAtOnce; ++more) {
      jobs.push_back(job_that_fails(fate, sends + more * step));
      await_fate(jobs.back()->pid(fate.victim));
    }
    for (int more = 0; more < kAtOnce; ++more) {
      const bool failed =
          failed_in_time(*jobs[static_cast<size_t>(more)], fate, sends + more * step);
      moments += failed ? 1 : 0;
      through = through || !failed;
    }
  }
  CHECK(through);
  CHECK(moments > 8);
}
