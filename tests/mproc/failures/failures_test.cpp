// Ranks die, stop, stay away or call something else, and every other rank must get an error that
// names who and what; nobody may hang and every survivor's process goes on.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "call_memory.hpp"
#include "catch.hpp"
#include "horing.h"
#include "os/clock.hpp"
#include "process_job.hpp"
#include "shared_count.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 60000;
// Of the one call that must time out. It comes last, so that no slow rank can be taken for another.
constexpr uint64_t kPassesMs = 1000;

ho_status all_reduce(ho_comm* comm,
                     const CallFloats& data,
                     uint64_t timeout_ms = 0,
                     ho_request** request = nullptr) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return ho_all_reduce(
      comm, data.data(), data.data(), data.size(), HO_FLOAT32, HO_SUM, &options, nullptr, request);
}

// Of a call that has begun and counts as an event, as its end does.
ho_status end_of(ho_status begun, ho_request* request, const SharedCount& events) {
  events.add();
  const ho_status ended = begun == HO_OK ? ho_request_wait(request, 0) : begun;
  events.add();
  return ended;
}

// Reduces until something fails; says "ready" when the job is well under way.
ho_status reduce_forever(const ProcessJob::Rank& rank, size_t count) {
  const CallFloats data(count);
  for (int round = 0;; ++round) {
    const ho_status status = all_reduce(rank.comm, data);
    if (status != HO_OK) {
      return status;
    }
    if (round == 3) {
      rank.say("ready");
    }
  }
}

// Reduces until something fails. Once a rank has stopped, a call behind the one that cannot end has
// a deadline that passes.
ho_status reduce_until_stopped(const ProcessJob::Rank& rank, const SharedCount& stopped) {
  const CallFloats data(1000);
  for (int round = 0;; ++round) {
    ho_request* request = nullptr;
    ho_status status = all_reduce(rank.comm, data, kFarMs, &request);
    if (status != HO_OK) {
      return status;
    }
    do {
      status = ho_request_wait(request, 10);
    } while (status == HO_IN_PROGRESS && stopped.value() == 0);
    if (status == HO_IN_PROGRESS) {
      (void)all_reduce(rank.comm, data, kPassesMs);
      status = ho_request_wait(request, 0);
    }
    if (status != HO_OK) {
      return status;
    }
    if (round == 3) {
      rank.say("ready");
    }
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::set<std::string> shm_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path().filename());
  }
  return names;
}

// What others on this host make there goes with them; what a killed rank has left would stay.
std::string left_since(const std::set<std::string>& before) {
  std::string left;
  for (const ho::Deadline limit = ho::deadline_after(std::chrono::minutes(2));;) {
    left.clear();
    for (const std::string& name : shm_files()) {
      left += before.contains(name) ? "" : " " + name;
    }
    if (left.empty() || ho::passed(limit)) {
      return left;
    }
    ::usleep(100000);
  }
}

}  // namespace

TEST_CASE("a killed rank is named to all others") {
  const auto before = shm_files();
  int waits_named = 0;  // where a rank was in the operation; it may also have been between two
  for (const char* groups : {"2x2", "1x3", "3x1"}) {
    for (const size_t victim : {size_t{0}, size_t{2}}) {
      for (const size_t count : {size_t{4}, size_t{100000}}) {
        ProcessJob job({groups, 60000}, [count](const ProcessJob::Rank& rank) {
          return reduce_forever(rank, count);
        });
        job.wait_for_line("ready");
        job.send_signal(victim, SIGKILL);
        for (size_t rank = 0; rank < job.size(); ++rank) {
          const RankOutcome outcome = job.outcome(rank);
          INFO(groups << " victim " << victim << " rank " << rank << ": " << outcome.message);
          if (rank == victim) {
            CHECK(outcome.signal == SIGKILL);
          } else {
            CHECK(outcome.exited);
            CHECK(outcome.status == HO_PEER_LOST);
            CHECK(contains(outcome.message, "rank " + std::to_string(victim)));
            CHECK(contains(outcome.message, "all_reduce #"));
            waits_named += contains(outcome.message, " step ") ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(waits_named > 0);
  CHECK(left_since(before) == "");
}

TEST_CASE("a stopped rank is named when the deadline passes") {
  for (const size_t victim : {size_t{0}, size_t{3}}) {
    const SharedCount stopped;
    ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) {
      return reduce_until_stopped(rank, stopped);
    });
    job.wait_for_line("ready");
    job.send_signal(victim, SIGSTOP);
    stopped.add();
    for (size_t rank = 0; rank < job.size(); ++rank) {
      if (rank == victim) {
        continue;
      }
      const RankOutcome outcome = job.outcome(rank);
      INFO("victim " << victim << " rank " << rank << ": " << outcome.message);
      CHECK(outcome.exited);
      CHECK(outcome.status == HO_TIMEOUT);
      CHECK(contains(outcome.message, "rank " + std::to_string(victim)));
      CHECK(contains(outcome.message, "does not answer"));
    }
    job.send_signal(victim, SIGKILL);
    job.send_signal(victim, SIGCONT);
  }
}

TEST_CASE("a rank that stays away is named with the operation it has not entered") {
  const SharedCount events;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    for (int i = 0; i < 3; ++i) {
      if (const ho_status status = all_reduce(rank.comm, data); status != HO_OK) {
        return status;
      }
    }
    if (ho_comm_rank(rank.comm) == 1) {
      return events.wait_for(6) ? HO_OK : HO_INTERNAL;
    }
    const bool last = ho_comm_rank(rank.comm) == 0;
    (void)events.wait_for(last ? 2 : 0);
    ho_request* request = nullptr;
    const ho_status begun = all_reduce(rank.comm, data, last ? kPassesMs : kFarMs, &request);
    return end_of(begun, request, events);
  });
  for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO(outcome.message);
    CHECK(outcome.status == HO_TIMEOUT);
    CHECK(contains(outcome.message, "rank 1 has not entered all_reduce #4"));
  }
  CHECK(job.outcome(1).exited);
}

TEST_CASE("ranks in a split are named as such where another rank is in an operation") {
  const SharedCount splitting;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    if (const ho_status status = all_reduce(rank.comm, data); status != HO_OK) {
      return status;
    }
    if (ho_comm_rank(rank.comm) == 3) {
      return splitting.wait_for(3) ? all_reduce(rank.comm, data, kPassesMs) : HO_INTERNAL;
    }
    ho_comm* child = nullptr;
    splitting.add();
    return ho_comm_split(rank.comm, 0, 0, &child);
  });
  for (size_t rank = 0; rank < 4; ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO(outcome.message);
    CHECK(outcome.status == HO_TIMEOUT);
    CHECK(contains(outcome.message,
                   "ranks 0-2 have not entered all_reduce #2 (their last is #1; they are in "
                   "ho_comm_split #1)"));
    CHECK((rank == 3 || contains(outcome.message, "timeout: ho_comm_split #1: ")));
  }
}

TEST_CASE("different calls end in an error that says what differs") {
  struct Mismatch {
    const char* name;
    const char* expected;
    ho_status (*odd_call)(ho_comm*, const CallFloats&);
  };
  const Mismatch mismatches[] = {
      {"count",
       "999 float",
       [](ho_comm* comm, const CallFloats& data) {
         return ho_all_reduce(
             comm, data.data(), data.data(), 999, HO_FLOAT32, HO_SUM, nullptr, nullptr, nullptr);
       }},
      {"type",
       "int32",
       [](ho_comm* comm, const CallFloats& data) {
         return ho_all_reduce(
             comm, data.data(), data.data(), 1000, HO_INT32, HO_SUM, nullptr, nullptr, nullptr);
       }},
      {"operation",
       "max",
       [](ho_comm* comm, const CallFloats& data) {
         return ho_all_reduce(
             comm, data.data(), data.data(), 1000, HO_FLOAT32, HO_MAX, nullptr, nullptr, nullptr);
       }},
      {"collective",
       "broadcast",
       [](ho_comm* comm, const CallFloats& data) {
         return ho_broadcast(
             comm, data.data(), data.data(), 1000, HO_FLOAT32, 0, nullptr, nullptr, nullptr);
       }},
  };
  for (const Mismatch& mismatch : mismatches) {
    const auto odd_call = mismatch.odd_call;
    ProcessJob job({"2x2", kFarMs}, [odd_call](const ProcessJob::Rank& rank) {
      const CallFloats data(1000, 1.0F);
      return ho_comm_rank(rank.comm) == 2 ? odd_call(rank.comm, data) : all_reduce(rank.comm, data);
    });
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO(mismatch.name << ", rank " << rank << ": " << outcome.message);
      CHECK(outcome.exited);
      CHECK(outcome.status == HO_MISMATCH);
      CHECK(contains(outcome.message, mismatch.expected));
    }
  }
}

// Where the odd rank only waits, or sends to ranks that do not listen to it, no message shows the
// difference: only the question where everybody is does.
TEST_CASE("different collectives are a mismatch also where no message tells") {
  constexpr std::array kGroups{"2x2", "1x4", "4x1"};
  std::vector<std::unique_ptr<ProcessJob>> jobs;  // at once: they wait for the question
  for (const char* groups : kGroups) {
    const auto body = [](const ProcessJob::Rank& rank) -> ho_status {
      const CallFloats data(1000, 1.0F);
      if (ho_comm_rank(rank.comm) == 1) {
        return ho_broadcast(
            rank.comm, data.data(), data.data(), 1000, HO_FLOAT32, 2, nullptr, nullptr, nullptr);
      }
      return all_reduce(rank.comm, data);
    };
    jobs.push_back(std::make_unique<ProcessJob>(ProcessJobOptions{groups, kFarMs}, body));
  }
  for (size_t i = 0; i < kGroups.size(); ++i) {
    ProcessJob& job = *jobs[i];
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO(kGroups[i] << ", rank " << rank << ": " << outcome.message);
      CHECK(outcome.exited);
      CHECK(outcome.status == HO_MISMATCH);
      CHECK(contains(outcome.message, "broadcast"));
      CHECK(contains(outcome.message, "all_reduce #1"));
    }
  }
}

TEST_CASE("different roots, counts per rank or options are a mismatch, not a wrong result") {
  using Body = ho_status (*)(ho_comm*, bool odd);
  const Body bodies[] = {
      [](ho_comm* comm, bool odd) {
        const CallFloats data(1000, 1.0F);
        return ho_broadcast(comm,
                            data.data(),
                            data.data(),
                            data.size(),
                            HO_FLOAT32,
                            odd ? 1 : 0,
                            nullptr,
                            nullptr,
                            nullptr);
      },
      [](ho_comm* comm, bool odd) {
        const CallFloats in(10, 1.0F);
        const CallFloats out(40);
        const size_t counts[2][4] = {{10, 10, 10, 10}, {5, 15, 10, 10}};
        return ho_all_gather_counts(comm,
                                    in.data(),
                                    out.data(),
                                    counts[odd ? 1 : 0],
                                    HO_FLOAT32,
                                    nullptr,
                                    nullptr,
                                    nullptr);
      },
      [](ho_comm* comm, bool odd) {
        const CallFloats data(2500);  // twice as many of 16 bits
        ho_call_options options = HO_CALL_OPTIONS_INIT;
        options.algorithm = HO_ALGORITHM_RING;
        options.fp32_sums = odd ? 1 : 0;
        return ho_all_reduce(comm,
                             data.data(),
                             data.data(),
                             2 * data.size(),
                             HO_BFLOAT16,
                             HO_SUM,
                             &options,
                             nullptr,
                             nullptr);
      },
  };
  for (const Body body : bodies) {
    const SharedCount ended;
    ProcessJob job({"2x2", kFarMs}, [&ended, body](const ProcessJob::Rank& rank) {
      const ho_status status = body(rank.comm, ho_comm_rank(rank.comm) == 2);
      ended.add();
      (void)ended.wait_for(4);  // a rank whose part was over first stays for the decision
      return status;
    });
    int mismatches = 0;
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO("rank " << rank << ": " << outcome.message);
      CHECK(outcome.exited);
      CHECK((outcome.status == HO_MISMATCH || outcome.status == HO_OK));
      mismatches += outcome.status == HO_MISMATCH ? 1 : 0;
    }
    CHECK(mismatches >= 2);
  }
}

TEST_CASE("a rank that never came is named in its first operation too") {
  const SharedCount events;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(400, 1.0F);
    const int32_t self = ho_comm_rank(rank.comm);
    if (self == 2) {
      return events.wait_for(6) ? HO_OK : HO_INTERNAL;
    }
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.timeout_ms = self == 0 ? kPassesMs : kFarMs;
    (void)events.wait_for(self == 0 ? 2 : 0);
    ho_request* request = nullptr;
    const ho_status begun = ho_reduce_scatter(rank.comm,
                                              data.data(),
                                              data.data() + 100 * static_cast<ptrdiff_t>(self),
                                              100,
                                              HO_FLOAT32,
                                              HO_SUM,
                                              &options,
                                              nullptr,
                                              &request);
    return end_of(begun, request, events);
  });
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO(outcome.message);
    CHECK(outcome.status == HO_TIMEOUT);
    CHECK(contains(outcome.message, "rank 2 has not entered reduce_scatter #1"));
  }
}

TEST_CASE("abort from another thread ends every wait on every rank") {
  const SharedCount aborted;
  ProcessJob job({"2x2", 60000}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    std::thread aborter;
    if (ho_comm_rank(rank.comm) == 3) {
      aborter = std::thread([&] {
        ::usleep(100000);
        (void)ho_comm_abort(rank.comm, "the test says so");
        aborted.add();
      });
    }
    // Rank 0 does not enter before: without the abort this would last a minute.
    if (ho_comm_rank(rank.comm) == 0) {
      (void)aborted.wait_for(1);
    }
    const ho_status status = all_reduce(rank.comm, data);
    if (aborter.joinable()) {
      aborter.join();
    }
    return status;
  });
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_ABORTED);
    CHECK(contains(outcome.message, "rank 3"));
    CHECK(contains(outcome.message, "the test says so"));
  }
}
