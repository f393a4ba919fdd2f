// A rank is killed, or aborts, while the others are in the middle of any collective or of messages:
// all of them hear which rank and why, whatever they wait in, and nobody hangs.
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "call_memory.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "horing.h"
#include "process_job.hpp"

using namespace ho::test;

namespace {

constexpr int32_t kVictim = 2;
constexpr size_t kLargest = 100'000;  // elements of a block; beyond what links and receivers hold

struct Buffers {
  CallFloats in{4 * kLargest};
  CallFloats out{4 * kLargest};
  // Messages are of host memory.
  std::vector<float> sent = std::vector<float>(4 * kLargest);
  std::vector<float> received = std::vector<float>(4 * kLargest);
};

// One turn of a rank; turns end when one fails.
using Turn = ho_status (*)(ho_comm*, Buffers&, size_t count);

ho_status after_wait(ho_status begun, ho_request* request) {
  return begun == HO_OK ? ho_request_wait(request, 0) : begun;
}

ho_status send(ho_comm* comm, Buffers& buffers, size_t count, int32_t peer, int32_t tag) {
  return ho_send(comm, buffers.sent.data(), count, HO_FLOAT32, peer, tag, nullptr, nullptr);
}

ho_status recv(ho_comm* comm, Buffers& buffers, size_t count, int32_t peer, int32_t tag) {
  return ho_recv(
      comm, buffers.received.data(), count, HO_FLOAT32, peer, tag, nullptr, nullptr, nullptr);
}

[[noreturn]] void stay() {
  while (true) {
    ::pause();
  }
}

struct Scene {
  const char* name;
  Turn turn;
};

const Scene kCollectives[] = {
    {"all_to_all",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_all_to_all(
           comm, b.in.data(), b.out.data(), count, HO_FLOAT32, nullptr, nullptr, nullptr);
     }},
    {"all_to_all_counts",
     [](ho_comm* comm, Buffers& b, size_t count) {
       const std::vector<size_t> counts(static_cast<size_t>(ho_comm_world_size(comm)), count);
       return ho_all_to_all_counts(comm,
                                   b.in.data(),
                                   counts.data(),
                                   b.out.data(),
                                   counts.data(),
                                   HO_FLOAT32,
                                   nullptr,
                                   nullptr,
                                   nullptr);
     }},
    {"gather",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_gather(
           comm, b.in.data(), b.out.data(), count, HO_FLOAT32, 1, nullptr, nullptr, nullptr);
     }},
    {"gather to the victim",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_gather(
           comm, b.in.data(), b.out.data(), count, HO_FLOAT32, kVictim, nullptr, nullptr, nullptr);
     }},
    {"scatter",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_scatter(
           comm, b.in.data(), b.out.data(), count, HO_FLOAT32, 1, nullptr, nullptr, nullptr);
     }},
    {"scatter from the victim",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_scatter(
           comm, b.in.data(), b.out.data(), count, HO_FLOAT32, kVictim, nullptr, nullptr, nullptr);
     }},
    {"reduce",
     [](ho_comm* comm, Buffers& b, size_t count) {
       return ho_reduce(comm,
                        b.in.data(),
                        b.out.data(),
                        count,
                        HO_FLOAT32,
                        HO_PREMUL_SUM,
                        1,
                        nullptr,
                        nullptr,
                        nullptr);
     }},
    {"barrier with a request",
     [](ho_comm* comm, Buffers& /*buffers*/, size_t /*count*/) {
       ho_request* request = nullptr;
       const ho_status begun = ho_barrier(comm, nullptr, &request);
       return after_wait(begun, request);
     }},
    {"messages around",
     [](ho_comm* comm, Buffers& b, size_t count) {
       const int32_t world = ho_comm_world_size(comm);
       const int32_t self = ho_comm_rank(comm);
       ho_request* request = nullptr;
       const ho_status begun = ho_send(
           comm, b.sent.data(), count, HO_FLOAT32, (self + 1) % world, 0, nullptr, &request);
       if (begun != HO_OK) {
         return begun;
       }
       const ho_status got = recv(comm, b, count, (self + world - 1) % world, 0);
       const std::string why = ho_last_error_message();
       const ho_status sent = ho_request_wait(request, 0);
       if (got != HO_OK) {
         ho_set_last_error_message(why.c_str());  // the send may have ended well
       }
       return got == HO_OK ? sent : got;
     }},
};

// Where the victim does not move, and messages wait on one side.
const Scene kWaiting[] = {
    {"a large message waits at its sender for the victim",
     [](ho_comm* comm, Buffers& b, size_t count) {
       if (ho_comm_rank(comm) == kVictim) {
         stay();
       }
       return send(comm, b, 4 * count, kVictim, 1);
     }},
    {"a large message of the victim waits for a receive",
     [](ho_comm* comm, Buffers& b, size_t count) {
       const bool sends = ho_comm_rank(comm) == kVictim;
       return sends ? send(comm, b, 4 * count, 0, 1) : recv(comm, b, 1, kVictim, 2);
     }},
    {"a large message has begun to move when its sender is gone",
     [](ho_comm* comm, Buffers& b, size_t count) {
       const bool sends = ho_comm_rank(comm) == kVictim;
       return sends ? send(comm, b, 4 * count, 0, 1) : recv(comm, b, 4 * count, kVictim, 1);
     }},
    {"a receive from any rank waits while one dies",
     [](ho_comm* comm, Buffers& b, size_t /*count*/) {
       if (ho_comm_rank(comm) == kVictim) {
         stay();
       }
       return recv(comm, b, 1, HO_ANY_SOURCE, 1);
     }},
};

void check_killed(const char* name, ProcessJob& job) {
  job.wait_for_line("ready");
  job.send_signal(kVictim, SIGKILL);
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO(name << ", rank " << rank << ": " << outcome.message);
    if (rank == kVictim) {
      CHECK(outcome.signal == SIGKILL);
      continue;
    }
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_PEER_LOST);
    CHECK(has(outcome.message, "rank 2 ("));
    CHECK(has(outcome.message, " is gone"));
  }
}

constexpr int kReadyAt = 3;  // a turn in which all are under way

ho_status turn_forever(const ProcessJob::Rank& rank, Turn turn, size_t count) {
  Buffers buffers;
  for (int round = 0;; ++round) {
    if (const ho_status status = turn(rank.comm, buffers, count); status != HO_OK) {
      return status;
    }
    if (round == kReadyAt) {
      rank.say("ready");
    }
  }
}

}  // namespace

TEST_CASE("a rank that is killed amid any collective or messages is named to all others") {
  for (const Scene& scene : kCollectives) {
    for (const char* groups : {"2x2", "1x3", "3x1"}) {
      for (const size_t count : {size_t{4}, kLargest}) {
        const Turn turn = scene.turn;
        ProcessJob job({groups, 60000}, [turn, count](const ProcessJob::Rank& rank) {
          return turn_forever(rank, turn, count);
        });
        INFO(groups << ", " << count << " elements");
        check_killed(scene.name, job);
      }
    }
  }
}

TEST_CASE("a rank that is killed while messages wait is named to all others") {
  for (const Scene& scene : kWaiting) {
    for (const char* groups : {"2x2", "1x3", "3x1"}) {
      const Turn turn = scene.turn;
      ProcessJob job({groups, 60000}, [turn](const ProcessJob::Rank& rank) {
        Buffers buffers;
        rank.say("ready");
        while (true) {
          if (const ho_status status = turn(rank.comm, buffers, kLargest); status != HO_OK) {
            return status;
          }
        }
      });
      INFO(groups);
      check_killed(scene.name, job);
    }
  }
}

TEST_CASE("an abort amid any collective or messages ends them on every rank with its reason") {
  for (const Scene& scene : kCollectives) {
    for (const size_t count : {size_t{4}, kLargest}) {
      const Turn turn = scene.turn;
      ProcessJob job({"2x2", 60000}, [turn, count](const ProcessJob::Rank& rank) {
        Buffers buffers;
        std::thread aborter;
        ho_status status = HO_OK;
        for (int round = 0; status == HO_OK; ++round) {
          if (round == kReadyAt && ho_comm_rank(rank.comm) == kVictim) {
            aborter =
                std::thread([&] { (void)ho_comm_abort(rank.comm, "the test has seen enough"); });
          }
          status = turn(rank.comm, buffers, count);
        }
        if (aborter.joinable()) {
          aborter.join();
        }
        return status;
      });
      for (size_t rank = 0; rank < job.size(); ++rank) {
        const RankOutcome outcome = job.outcome(rank);
        INFO(scene.name << ", " << count << " elements, rank " << rank << ": " << outcome.message);
        CHECK(outcome.exited);
        CHECK(outcome.status == HO_ABORTED);
        CHECK(has(outcome.message, "rank 2 called abort: the test has seen enough"));
      }
    }
  }
}
