#include "catch.hpp"
#include "host_job.hpp"

namespace ho::plugin_host_test {

void require_job(const HostJobOptions& options, const HostJob::Body& body) {
  HostJob job(options, body);
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    const HostOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << " of " << options.shape.nodes << "x" << options.shape.ranks_per_node
                 << ", NCCL " << options.release);
    CHECK(outcome.signal == 0);
    CHECK(outcome.exited);
    CHECK(outcome.error == "");
  }
}

}  // namespace ho::plugin_host_test
