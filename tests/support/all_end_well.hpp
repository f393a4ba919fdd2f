// For tests of jobs in which every rank finds what it should.
#pragma once

#include "catch.hpp"
#include "process_job.hpp"

namespace ho::test {

inline void check_all_end_well(ProcessJob& job) {
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_OK);
  }
}

}  // namespace ho::test
