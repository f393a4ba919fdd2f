// One rank cannot create its communicator. All others must hear at once which, and why: an error
// that waited for the connect deadline, a minute away, would have another code.
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "temporary_folder.hpp"

using namespace ho::test;

namespace {

struct Trouble {
  const char* variable;
  const char* value;
  const char* said;
};

// Found before the ranks find each other, after they have found each other, and while transports
// are opened.
constexpr std::array kTroubles{
    Trouble{"HORING_PIECE_BYTES", "7", "HORING_PIECE_BYTES"},
    Trouble{"HORING_GROUP_FILE", "/nowhere/groups", "/nowhere/groups"},
    Trouble{"HORING_LEVELS_FILE", "/nowhere/levels", "HORING_LEVELS_FILE /nowhere/levels: cannot"},
    Trouble{"HORING_TOPO_FILE", "/nowhere/topo.xml", "/nowhere/topo"},
    Trouble{"HORING_TRACE", "/nowhere/trace", "HORING_TRACE: trace file"},
    Trouble{"HORING_PROGRESS_CPU", "many", "HORING_PROGRESS_CPU"}};

}  // namespace

TEST_CASE("what keeps one rank from creating its communicator is told to all") {
  const Trouble trouble = GENERATE(from_range(kTroubles));
  const size_t culprit = GENERATE(0U, 3U);
  INFO(trouble.variable << " of rank " << culprit);
  ProcessJobOptions options{"2x2", 60000};
  options.prepare = [=](size_t rank) {
    if (rank == culprit) {
      ::setenv(trouble.variable, trouble.value, 1);
    }
  };
  ProcessJob job(options, [](const ProcessJob::Rank&) -> ho_status { return HO_OK; });
  const std::string name = "rank " + std::to_string(culprit);
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_INVALID_ARGUMENT);
    CHECK(outcome.message.find(trouble.said) != std::string::npos);
    if (rank != culprit) {
      CHECK(outcome.message.find(name + " created no communicator") != std::string::npos);
    }
  }
}

TEST_CASE("a rank whose levels of links differ is named to all, with the field and both values") {
  const TemporaryFolder folder;
  const auto path_of = [&](size_t rank) { return folder.path(rank == 3 ? "other" : "levels"); };
  for (const size_t rank : {0U, 3U}) {
    std::ofstream(path_of(rank)) << R"({"levels": [{"size": 2, "rate": "9GB"},
        {"size": 2, "rate": ")" << (rank == 3 ? "2GB" : "1GB")
                                 << R"("}]})";
  }
  ProcessJobOptions options{"2x2", 60000};
  options.prepare = [&](size_t rank) { ::setenv("HORING_LEVELS_FILE", path_of(rank).c_str(), 1); };
  ProcessJob job(options, [](const ProcessJob::Rank&) -> ho_status { return HO_OK; });
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_MISMATCH);
    for (const char* const part : {"the ranks' settings differ: rank 3 (",
                                   "HORING_LEVELS_FILE=rates 9GB, 2GB; ",
                                   "; 3 ranks have rates 9GB, 1GB. "}) {
      CHECK(outcome.message.find(part) != std::string::npos);
    }
    CHECK(outcome.message.find("sizes") == std::string::npos);  // which are the same
  }
}

// Not even the files that a communicator and its first operation need: every step fails once, for
// another number of files. The others must hear whose fault it is, wherever they wait: their own
// deadlines lie beyond what outcome() waits.
TEST_CASE("a rank that may open too few files is named to all, wherever it fails") {
  // The second has a link between nodes that the other rank opens.
  const auto [groups, culprit] = GENERATE(std::pair("2x4", size_t{2}), std::pair("2x1", size_t{1}));
  const std::string name = "rank " + std::to_string(culprit);
  size_t failed = 0;
  size_t failed_later = 0;
  bool enough = false;
  for (rlim_t more = 3; !enough; ++more) {
    ProcessJobOptions options{groups, 600'000};
    options.prepare = [more, which = culprit](size_t rank) {
      ::setenv("HORING_CONNECT_TIMEOUT_MS", "600000", 1);
      if (rank == which) {
        const int next = ::dup(STDERR_FILENO);
        ::close(next);
        rlimit files{};
        ::getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = static_cast<rlim_t>(next) + more;
        ::setrlimit(RLIMIT_NOFILE, &files);
      }
    };
    ProcessJob job(options, [](const ProcessJob::Rank& rank) -> ho_status {
      std::vector<float> data(1000, 1);
      return ho_all_reduce(rank.comm,
                           data.data(),
                           data.data(),
                           data.size(),
                           HO_FLOAT32,
                           HO_SUM,
                           nullptr,
                           nullptr,
                           nullptr);
    });
    std::string first;
    for (size_t rank = 0; rank < job.size(); ++rank) {
      const RankOutcome outcome = job.outcome(rank);
      INFO(more << " files, rank " << rank << ": " << outcome.message);
      REQUIRE(outcome.exited);
      if (rank == 0) {
        enough = outcome.status == HO_OK;
        failed += enough ? 0 : 1;
        first = outcome.message;
      }
      if (enough) {
        CHECK(outcome.status == HO_OK);
      } else {
        CHECK(outcome.status == HO_SYSTEM);
        const bool created =
            outcome.message.find(name + " created no communicator") == std::string::npos;
        CHECK((!created ||
               outcome.message.find("first reported by " + name + " ") != std::string::npos));
        CHECK(outcome.message.find("Too many open files") != std::string::npos);
        CHECK((created || outcome.message == first));  // else each says where it waited
        failed_later += created && rank == 0 ? 1 : 0;
      }
    }
  }
  CHECK(failed > 3);
  CHECK((culprit == 2 || failed_later > 0));
}
