// Processes that meet through a store.
#include <stdlib.h>

#include <string>

#include "catch.hpp"
#include "folder_store.hpp"
#include "memory_store.hpp"
#include "process_job.hpp"
#include "temporary_folder.hpp"

using namespace ho::test;

namespace {

ho_status sum_of_ones(const ProcessJob::Rank& rank) {
  int64_t one = 1;
  const ho_status status =
      ho_all_reduce(rank.comm, &one, &one, 1, HO_INT64, HO_SUM, nullptr, nullptr, nullptr);
  rank.say("sum " + std::to_string(one));
  return status;
}

}  // namespace

TEST_CASE("processes of two nodes meet through a store of files") {
  const TemporaryFolder folder;
  FolderStore files(folder.root());
  const ho_store store = callbacks_of(files, "job 7");
  ProcessJobOptions options{"2x2"};
  options.store = &store;
  ProcessJob job(options, sum_of_ones);
  job.wait_for_line("sum 4");
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_OK);
  }
  CHECK(files.get("job 7/rank0") == "horing store 1\nover\n");
}

TEST_CASE("what keeps one process of a store from going on is told to all") {
  const size_t culprit = GENERATE(0U, 3U);
  const TemporaryFolder folder;
  FolderStore files(folder.root());
  const ho_store store = callbacks_of(files, "job");
  ProcessJobOptions options{"2x2", 60000};
  options.store = &store;
  options.prepare = [=](size_t rank) {
    if (rank == culprit) {
      ::setenv("HORING_PIECE_BYTES", "7", 1);
    }
  };
  ProcessJob job(options, sum_of_ones);
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_INVALID_ARGUMENT);
    CHECK(outcome.message.find("HORING_PIECE_BYTES") != std::string::npos);
    CHECK(outcome.message.find("rank " + std::to_string(culprit)) != std::string::npos);
  }
}
