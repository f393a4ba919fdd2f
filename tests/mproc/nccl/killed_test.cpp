// A rank whose process is killed while collectives of NCCL are under way. The double's ranks are
// threads of one process, so that each process here has a set of its own; what the ranks tell one
// another, and what ends them, is over all of them.
#include <signal.h>
#include <unistd.h>

#include "../../inproc/nccl/on_nccl.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "process_job.hpp"

using namespace ho;
using namespace ho::test;

TEST_CASE("a killed rank ends the others' collectives with its loss as their cause") {
  ProcessJobOptions options;
  options.groups = "3x1";
  ProcessJob job(options, [](const ProcessJob::Rank& rank) {
    reset_doubles();
    Status cause;
    {
      const OnNccl on(rank.comm);
      const auto over = on.over(on.group(), "a set of one");
      const DeviceFloats all(on, 8, 1.0F);
      nccl_double::hold(on.device().ordinal());
      paro::Pending pending;
      must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 8, pending));
      must(ho_barrier(on.world(), nullptr, nullptr));
      rank.say("ready");
      if (ho_comm_rank(rank.comm) == 1) {
        ::pause();  // until it is killed
      }
      cause = over->join(pending, 0).status();
      on.finish();
    }
    const std::string text = cause.message() + left_on_doubles();
    ho_set_last_error_message(text.c_str());
    return static_cast<ho_status>(cause.code());
  });
  job.wait_for_line("ready");
  job.send_signal(1, SIGKILL);
  const RankOutcome first = job.outcome(0);
  const RankOutcome last = job.outcome(2);
  CHECK(first.status == HO_PEER_LOST);
  CHECK(has(first.message, "rank 1"));
  CHECK(first.message == last.message);
  CHECK(first.exited);
  CHECK(last.exited);
}
