// Ranks that wait for each other over several communicators, and one that comes late to what the
// others have given up. Deadlines are far away unless said otherwise: what ends, ends because it is
// told.
#include <stdlib.h>

#include <string>

#include "all_end_well.hpp"
#include "call_memory.hpp"
#include "catch.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "shared_count.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 100'000;

ho_status sum(ho_comm* comm, uint64_t timeout_ms = 0) {
  const CallFloats value(1, 1.0F);
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return ho_all_reduce(
      comm, value.data(), value.data(), 1, HO_FLOAT32, HO_SUM, &options, nullptr, nullptr);
}

bool says(const std::string& part) {
  return std::string(ho_last_error_message()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a circle of waits over two communicators is named to all, and ends both") {
  ProcessJob job({"2x2", kFarMs}, [](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_comm* one = nullptr;
    ho_comm* other = nullptr;
    ho_status status = ho_comm_split(rank.comm, 0, 0, &one);
    status = status == HO_OK ? ho_comm_split(rank.comm, 0, 0, &other) : status;
    if (status != HO_OK) {
      return status;
    }
    // Only one of them has a deadline that passes.
    const ho_status ended = sum(self % 2 == 0 ? one : other, self == 0 ? 500 : kFarMs);
    const bool named = says(
                           "ranks wait for each other in a circle: rank 0 is in all_reduce #1 of "
                           "communicator ") &&
                       says(
                           ", which rank 1 has not entered; rank 1 is in all_reduce #1 of "
                           "communicator ") &&
                       says(", which rank 0 has not entered; ");
    rank.say(ho_last_error_message());
    status = ended == HO_MISMATCH && named ? HO_OK : HO_INTERNAL;
    // What they were split from goes on.
    status = status == HO_OK ? sum(rank.comm) : status;
    ho_comm_destroy(other);
    ho_comm_destroy(one);
    return status;
  });
  check_all_end_well(job);
}

TEST_CASE("a rank that comes late to a split that has failed hears why, and blames nobody else") {
  const SharedCount given_up;
  ProcessJobOptions options{"2x2", kFarMs};
  options.prepare = [](size_t /*rank*/) { ::setenv("HORING_CONNECT_TIMEOUT_MS", "4000", 1); };
  ProcessJob job(options, [&](const ProcessJob::Rank& rank) -> ho_status {
    const bool late = ho_comm_rank(rank.comm) == 3;
    if (late && !given_up.wait_for(3)) {
      return HO_INTERNAL;
    }
    ho_comm* split = nullptr;
    const ho_status refused = ho_comm_split(rank.comm, 0, 0, &split);
    given_up.add();
    rank.say(ho_last_error_message());
    const bool named = says("rank 3 has not answered since") && says("; missing: rank 3");
    if (refused != HO_TIMEOUT || !named || says("rank 3 came ") != late) {
      return HO_INTERNAL;
    }
    // The next one is another split.
    const ho_status status = ho_comm_split(rank.comm, 0, 0, &split);
    ho_comm_destroy(split);
    return status;
  });
  check_all_end_well(job);
}
