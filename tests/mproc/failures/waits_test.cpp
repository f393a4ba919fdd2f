// Ranks that wait for each other over several communicators, and one that comes late to what the
// others have given up. Deadlines are far away unless said otherwise: what ends, ends because it is
// told.
#include <stdlib.h>

#include <chrono>
#include <string>

#include "all_end_well.hpp"
#include "catch.hpp"
#include "horing.h"
#include "more_time.hpp"
#include "process_job.hpp"
#include "shared_count.hpp"
#include "sum_of_ones.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 100'000;

bool says(const std::string& part) {
  return std::string(ho_last_error_message()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a circle of waits over two communicators is named to all, and ends both") {
  const SharedCount entered;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_comm* one = nullptr;
    ho_comm* other = nullptr;
    ho_status status = ho_comm_split(rank.comm, 0, 0, &one);
    status = status == HO_OK ? ho_comm_split(rank.comm, 0, 0, &other) : status;
    if (status != HO_OK) {
      return status;
    }
    // Only one of them has a deadline that passes.
    ho_comm* const part = self % 2 == 0 ? one : other;
    const bool all_wait = self != 0 || entered.wait_for(3);
    const ho_status ended =
        self == 0 ? sum_of_ones(part, 500) : sum_of_ones(part, kFarMs, &entered);
    const bool named = says(
                           "ranks wait for each other in a circle: rank 0 is in all_reduce #1 of "
                           "communicator ") &&
                       says(
                           ", which rank 1 has not entered; rank 1 is in all_reduce #1 of "
                           "communicator ") &&
                       says(", which rank 0 has not entered; ");
    rank.say(ho_last_error_message());
    status = all_wait && ended == HO_MISMATCH && named ? HO_OK : HO_INTERNAL;
    // What they were split from goes on.
    status = status == HO_OK ? sum_of_ones(rank.comm) : status;
    ho_comm_destroy(other);
    ho_comm_destroy(one);
    return status;
  });
  check_all_end_well(job);
}

namespace {

// Rank 3 comes to a split when the others have waited for it as long as they may, which is also how
// long they may take for everything else.
bool late_rank_hears_why(std::chrono::milliseconds limit, std::string& heard) {
  const SharedCount given_up;
  ProcessJobOptions options{"2x2", kFarMs};
  options.prepare = [limit](size_t /*rank*/) {
    ::setenv("HORING_CONNECT_TIMEOUT_MS", std::to_string(limit.count()).c_str(), 1);
  };
  ProcessJob job(options, [&](const ProcessJob::Rank& rank) -> ho_status {
    const bool late = ho_comm_rank(rank.comm) == 3;
    if (late && !given_up.wait_for(3)) {
      return HO_INTERNAL;
    }
    ho_comm* split = nullptr;
    const ho_status refused = ho_comm_split(rank.comm, 0, 0, &split);
    given_up.add();
    const bool named = says("rank 3 has not answered since") && says("; missing: rank 3");
    if (refused != HO_TIMEOUT || !named || says("rank 3 came ") != late) {
      return HO_INTERNAL;
    }
    // The next one is another split.
    const ho_status status = ho_comm_split(rank.comm, 0, 0, &split);
    ho_comm_destroy(split);
    return status;
  });
  bool well = true;
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    well = well && outcome.exited && outcome.status == HO_OK;
    heard += "\nrank " + std::to_string(rank) + ": " + outcome.message;
  }
  return well;
}

}  // namespace

TEST_CASE("a rank that comes late to a split that has failed hears why, and blames nobody else") {
  std::string heard;
  // A slow machine may need more for what is no part of this.
  const bool well = with_more_time(std::chrono::seconds(4), [&](std::chrono::milliseconds limit) {
    heard += "\nwithin " + std::to_string(limit.count()) + " ms:";
    return late_rank_hears_why(limit, heard);
  });
  INFO(heard);
  CHECK(well);
}
