// Ranks die, stop, stay away or call something else, and every other rank must get an error that
// names who and what; nobody may hang and every survivor's process goes on.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "call_memory.hpp"
#include "catch.hpp"
#include "horing.h"
#include "process_job.hpp"

using namespace ho::test;

namespace {

ho_status all_reduce(ho_comm* comm,
                     const CallFloats& data,
                     const ho_call_options* options = nullptr) {
  return ho_all_reduce(
      comm, data.data(), data.data(), data.size(), HO_FLOAT32, HO_SUM, options, nullptr, nullptr);
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
  CHECK(shm_files() == before);
}

TEST_CASE("a stopped rank is named when the deadline passes") {
  for (const size_t victim : {size_t{0}, size_t{3}}) {
    ProcessJob job({"2x2", 1500},
                   [](const ProcessJob::Rank& rank) { return reduce_forever(rank, 1000); });
    job.wait_for_line("ready");
    job.send_signal(victim, SIGSTOP);
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
  ProcessJob job({"2x2", 1500}, [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    for (int i = 0; i < 3; ++i) {
      if (const ho_status status = all_reduce(rank.comm, data); status != HO_OK) {
        return status;
      }
    }
    if (ho_comm_rank(rank.comm) == 1) {
      ::sleep(5);
      return HO_OK;
    }
    return all_reduce(rank.comm, data);
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
  ProcessJob job({"2x2", 1500}, [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    if (const ho_status status = all_reduce(rank.comm, data); status != HO_OK) {
      return status;
    }
    if (ho_comm_rank(rank.comm) == 3) {
      return all_reduce(rank.comm, data);
    }
    ho_comm* child = nullptr;
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
    ProcessJob job({"2x2", 5000}, [odd_call](const ProcessJob::Rank& rank) {
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
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    ProcessJob job({groups, 1500}, [](const ProcessJob::Rank& rank) -> ho_status {
      const CallFloats data(1000, 1.0F);
      if (ho_comm_rank(rank.comm) == 1) {
        return ho_broadcast(
            rank.comm, data.data(), data.data(), 1000, HO_FLOAT32, 2, nullptr, nullptr, nullptr);
      }
      return all_reduce(rank.comm, data);
    });
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO(groups << ", rank " << rank << ": " << outcome.message);
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
    ProcessJob job({"2x2", 5000}, [body](const ProcessJob::Rank& rank) {
      const ho_status status = body(rank.comm, ho_comm_rank(rank.comm) == 2);
      ::usleep(500000);  // a rank whose part was over first stays for the decision
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
  ProcessJob job({"2x2", 1500}, [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(400, 1.0F);
    if (ho_comm_rank(rank.comm) == 2) {
      ::sleep(5);
      return HO_OK;
    }
    return ho_reduce_scatter(rank.comm,
                             data.data(),
                             data.data() + 100 * static_cast<ptrdiff_t>(ho_comm_rank(rank.comm)),
                             100,
                             HO_FLOAT32,
                             HO_SUM,
                             nullptr,
                             nullptr,
                             nullptr);
  });
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO(outcome.message);
    CHECK(outcome.status == HO_TIMEOUT);
    CHECK(contains(outcome.message, "rank 2 has not entered reduce_scatter #1"));
  }
}

TEST_CASE("abort from another thread ends every wait on every rank") {
  ProcessJob job({"2x2", 60000}, [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    std::thread aborter;
    if (ho_comm_rank(rank.comm) == 3) {
      aborter = std::thread([&] {
        ::usleep(100000);
        (void)ho_comm_abort(rank.comm, "the test says so");
      });
    }
    // Rank 0 never enters: without the abort this would last a minute.
    ho_status status = HO_OK;
    if (ho_comm_rank(rank.comm) == 0) {
      ::usleep(1500000);
      status = all_reduce(rank.comm, data);
    } else {
      status = all_reduce(rank.comm, data);
    }
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
