// What a failure in one communicator ends: that one and what was split from it, on every rank.
// Others go on. Deadlines are far away unless said otherwise: what ends, ends because it is told.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "all_end_well.hpp"
#include "catch.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "shared_count.hpp"
#include "sum_of_ones.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 100'000;

ho_status receive(ho_comm* comm, int32_t peer, const SharedCount& entered) {
  float value = 0;
  ho_request* request = nullptr;
  const ho_status status =
      ho_recv(comm, &value, 1, HO_FLOAT32, peer, 0, nullptr, nullptr, &request);
  entered.add();
  return status == HO_OK ? ho_request_wait(request, 0) : status;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Even and odd ranks of the job apart, and once more all of each: a grandchild.
struct Halves {
  ho_comm* half = nullptr;
  ho_comm* below = nullptr;
  explicit Halves(ho_comm* comm) {
    if (ho_comm_split(comm, ho_comm_rank(comm) % 2, 0, &half) == HO_OK) {
      (void)ho_comm_split(half, 0, 0, &below);
    }
  }
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;
  ~Halves() {
    ho_comm_destroy(below);
    ho_comm_destroy(half);
  }
};

// HO_OK where the status and the last message are what they should be.
ho_status expect(ho_status status, ho_status wanted, const std::string& part) {
  return status == wanted && contains(ho_last_error_message(), part) ? HO_OK : HO_INTERNAL;
}

// Rank 3 of 2x2 is killed once all have their halves; what the others then do must end well.
void check_with_rank_3_killed(ho_status (*others)(ho_comm* comm, const Halves& halves)) {
  ProcessJob job({"2x2", kFarMs}, [others](const ProcessJob::Rank& rank) -> ho_status {
    const Halves halves(rank.comm);
    rank.say("ready");
    if (ho_comm_rank(rank.comm) == 3) {
      ::pause();
    }
    return others(rank.comm, halves);
  });
  job.wait_for_line("ready");
  job.send_signal(3, SIGKILL);
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{2}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_OK);
  }
}

}  // namespace

TEST_CASE("an abort of a split ends what was split from it, not its sibling and parent") {
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    INFO(groups);
    ProcessJob job({groups, kFarMs}, [](const ProcessJob::Rank& rank) -> ho_status {
      const Halves halves(rank.comm);
      const int32_t self = ho_comm_rank(rank.comm);
      ho_status status = HO_OK;
      if (self % 2 == 0) {
        status = sum_of_ones(halves.half);
        status = status == HO_OK ? sum_of_ones(halves.below) : status;
      } else if (self == 1) {
        (void)ho_comm_abort(halves.half, "the test says so");
        status = expect(sum_of_ones(halves.below), HO_ABORTED, "the test says so");
      } else {
        status = expect(sum_of_ones(halves.half), HO_ABORTED, "the test says so");
        status = status == HO_OK ? expect(sum_of_ones(halves.below), HO_ABORTED, "the test says so")
                                 : status;
      }
      return status == HO_OK ? sum_of_ones(rank.comm) : status;
    });
    check_all_end_well(job);
  }
}

// Rank 1 of two aborts its world; in what it split from it nobody else is needed.
ho_status abort_and_use_split(ho_comm* comm, ho_comm* alone) {
  (void)ho_comm_abort(comm, "the test says so");
  return expect(sum_of_ones(alone), HO_ABORTED, "the test says so");
}

TEST_CASE("when abort returns, what was split off has ended on that rank too") {
  const bool stopped = GENERATE(false, true);  // rank 0, who tells the others
  ProcessJob job({"2x1", kFarMs}, [stopped](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_comm* alone = nullptr;
    ho_status status = ho_comm_split(rank.comm, self, 0, &alone);
    status = status == HO_OK ? sum_of_ones(alone) : status;
    status = status == HO_OK ? sum_of_ones(rank.comm) : status;
    if (self == 0 && stopped) {
      rank.say("ready");
      ::raise(SIGSTOP);
    } else if (self == 1) {
      status = status == HO_OK ? abort_and_use_split(rank.comm, alone) : status;
    }
    ho_comm_destroy(alone);
    return status;
  });
  const RankOutcome outcome = job.outcome(1);
  INFO(outcome.message);
  CHECK(outcome.status == HO_OK);
  if (stopped) {
    job.send_signal(0, SIGKILL);
  }
}

TEST_CASE("a timeout in a split has one text for its ranks, and its sibling and parent go on") {
  const SharedCount ended;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const Halves halves(rank.comm);
    const int32_t self = ho_comm_rank(rank.comm);
    const std::string late = "rank 3 has not entered all_reduce #1 of communicator";
    ho_status status = HO_OK;
    if (self == 1) {
      status = expect(sum_of_ones(halves.half, 200), HO_TIMEOUT, late);
      ended.add();
    } else if (self == 3) {
      // Also in what is below the half, where nothing has been called yet.
      (void)ended.wait_for(1);
      status = expect(sum_of_ones(halves.below), HO_TIMEOUT, late);
    } else {
      status = sum_of_ones(halves.below);
    }
    return status == HO_OK ? sum_of_ones(rank.comm) : status;
  });
  check_all_end_well(job);
}

TEST_CASE("a killed rank ends what it is in, and what it is not in goes on") {
  check_with_rank_3_killed([](ho_comm* comm, const Halves& halves) {
    ho_status status = expect(sum_of_ones(comm), HO_PEER_LOST, "rank 3 (");
    if (ho_comm_rank(comm) % 2 == 1) {
      return status == HO_OK ? expect(sum_of_ones(halves.below), HO_PEER_LOST, "rank 3 (") : status;
    }
    status = status == HO_OK ? sum_of_ones(halves.half) : status;
    return status == HO_OK ? sum_of_ones(halves.below) : status;
  });
}

TEST_CASE("an abort of what a killed rank has ended ends its splits on ranks without that rank") {
  check_with_rank_3_killed([](ho_comm* comm, const Halves& halves) {
    if (ho_comm_rank(comm) == 0) {  // in its half with rank 2, which does not come
      return expect(sum_of_ones(halves.half), HO_PEER_LOST, "rank 3 (");
    }
    ho_status status = expect(sum_of_ones(comm), HO_PEER_LOST, "rank 3 (");
    if (ho_comm_rank(comm) == 2) {
      status = status == HO_OK ? ho_comm_abort(comm, "a rank is gone") : status;
      status =
          status == HO_OK ? expect(sum_of_ones(halves.below), HO_PEER_LOST, "rank 3 (") : status;
    }
    return status;
  });
}

// Nobody watches over ranks any more where rank 0 has left, and between these two there has never
// been a connection: the lower rank would have opened it, and is dead.
TEST_CASE("a killed rank that never connected is noticed where rank 0 has left or is dead") {
  const bool left = GENERATE(true, false);
  INFO("rank 0 has " << (left ? "left" : "been killed"));
  ProcessJob job({"2x2", kFarMs}, [left](const ProcessJob::Rank& rank) -> ho_status {
    const Halves halves(rank.comm);
    const int32_t self = ho_comm_rank(rank.comm);
    rank.say("ready");
    if (self == 1 || (self == 0 && !left)) {
      ::pause();
    }
    return self == 3 ? expect(sum_of_ones(halves.half), HO_PEER_LOST, "rank 1 of the job") : HO_OK;
  });
  job.wait_for_line("ready");
  if (!left) {
    job.send_signal(0, SIGKILL);
  }
  (void)job.outcome(0);
  job.send_signal(1, SIGKILL);
  const RankOutcome outcome = job.outcome(3);
  INFO(outcome.message);
  CHECK(outcome.status == HO_OK);
}

TEST_CASE("a split that one rank cannot make is told to the others, and the parent goes on") {
  ProcessJob job({"2x2", kFarMs}, [](const ProcessJob::Rank& rank) -> ho_status {
    const bool poor = ho_comm_rank(rank.comm) == 3;
    rlimit before{};
    if (::getrlimit(RLIMIT_NOFILE, &before) != 0) {
      return HO_SYSTEM;
    }
    ho_status status = sum_of_ones(rank.comm);  // its connections are there
    rlimit none = before;
    none.rlim_cur = 3;
    if (poor) {
      (void)::setrlimit(RLIMIT_NOFILE, &none);
    }
    ho_comm* split = nullptr;
    const ho_status refused = ho_comm_split(rank.comm, 0, 0, &split);
    const std::string text = ho_last_error_message();
    (void)::setrlimit(RLIMIT_NOFILE, &before);
    rank.say(text);
    const bool named = poor || (contains(text, "rank 3 could not make it") &&
                                contains(text, "Too many open files"));
    if (refused != HO_SYSTEM || !named || split != nullptr) {
      status = HO_INTERNAL;
    }
    return status == HO_OK ? sum_of_ones(rank.comm) : status;
  });
  check_all_end_well(job);
}

TEST_CASE("ranks that exit because a split could not be made do not become its cause") {
  ProcessJob job({"2x2", kFarMs}, [](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_status status = sum_of_ones(rank.comm);  // its connections are there
    rlimit limit{};
    if (self == 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      limit.rlim_cur = 3;
      (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
    ho_comm* split = nullptr;
    status = status == HO_OK ? ho_comm_split(rank.comm, 0, 0, &split) : status;
    rank.say("outcome " + std::to_string(status) + " " + ho_last_error_message());
    ::_exit(0);
  });
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_SYSTEM);
    CHECK(contains(outcome.message, "Too many open files"));
    CHECK_FALSE(contains(outcome.message, "is gone"));
  }
}

TEST_CASE("a hang is blamed on the rank at the end of the waits, not on a victim of it") {
  // Ranks 2 and 3 wait for rank 0 in one communicator, rank 0 for rank 1 in another. Rank 1 does
  // nothing until the first two have their errors: they count to 4, after 1 of rank 0 and 1 of rank
  // 3 when they wait. Then rank 2 comes, whose deadline ends it.
  const SharedCount events;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_comm* pair = nullptr;
    ho_comm* three = nullptr;
    ho_status status = ho_comm_split(rank.comm, self / 2, 0, &pair);
    status = status == HO_OK ? ho_comm_split(rank.comm, self == 1 ? -1 : 0, 0, &three) : status;
    if (status == HO_OK && self == 0) {
      status = sum_of_ones(pair, 0, &events);
    } else if (status == HO_OK && self == 1) {
      status = events.wait_for(4) ? sum_of_ones(pair) : HO_INTERNAL;
    } else if (status == HO_OK) {
      (void)events.wait_for(self == 2 ? 2 : 1);
      const ho_status late = self == 2 ? sum_of_ones(three, 300) : sum_of_ones(three, 0, &events);
      const std::string text = ho_last_error_message();
      events.add();
      const bool named = contains(text, ": rank 1 has not entered all_reduce #1 of communicator") &&
                         contains(text, "because of that, rank 0 has not entered all_reduce #1");
      rank.say(text);
      status = late == HO_TIMEOUT && named ? HO_OK : HO_INTERNAL;
    }
    ho_comm_destroy(three);
    ho_comm_destroy(pair);
    return status;
  });
  check_all_end_well(job);
}

TEST_CASE("ranks that exit because of an error do not become its cause") {
  // Rank 0, who tells the others, hears the decision too and exits at once.
  const SharedCount entered;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_status status = sum_of_ones(rank.comm);
    if (status == HO_OK && self == 1) {
      status = receive(rank.comm, 2, entered);  // nobody sends it
    } else if (status == HO_OK && self == 2) {
      status = entered.wait_for(3) ? sum_of_ones(rank.comm, 300) : HO_INTERNAL;
    } else if (status == HO_OK) {
      status = sum_of_ones(rank.comm, 0, &entered);
    }
    if (self != 1) {
      rank.say("outcome " + std::to_string(status) + " " + ho_last_error_message());
      ::_exit(0);
    }
    return status;
  });
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_TIMEOUT);
    CHECK(contains(outcome.message, "rank 1 has not entered all_reduce #2"));
    CHECK_FALSE(contains(outcome.message, "is gone"));
  }
}
