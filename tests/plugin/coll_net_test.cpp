// Whole collectives through CollNet, as each release of NCCL drives it.
#include <algorithm>
#include <thread>

#include "catch.hpp"
#include "host_job.hpp"
#include "nccl_host/coll_net_comm.hpp"
#include "nccl_host/error.hpp"
#include "releases.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

// One collective, checked on every rank.
void run_checked(CollNetComm& comm, const Work& work) {
  write_input(work, comm.memory());
  comm.run(work);
  const uint64_t wrong = count_wrong(work, comm.memory());
  if (wrong != 0) {
    throw HostError(work.text() + ": " + std::to_string(wrong) + " wrong");
  }
}

void expect_used(CollNetComm& comm) {
  expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
}

// Small chunks, so that little data takes many steps.
CollNetOptions small_steps(uint32_t channels) {
  CollNetOptions options;
  options.settings.channels = channels;
  options.settings.chunk_bytes = 1024;
  options.settings.slot_bytes = 4096;
  return options;
}

}  // namespace

TEST_CASE("a release finds the newest tables that it knows", "[quick]") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    const int wanted = version;
    require_job(host_job(1, 1, version), [wanted](HostRank& self) {
      expect(self.library().net().version() == wanted, "its newest net table");
      expect(self.library().coll_net()->version() == wanted, "its newest CollNet table");
      expect(self.library().net().name() == self.library().coll_net()->name(), "one name");
    });
  }
}

TEST_CASE("collectives of many sizes on 2x2, newest tables", "[quick]") {
  require_job(host_job(2, 2, 12), [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps(10));
    expect_used(comm);
    for (const Collective kind : kCollectives) {
      for (const uint64_t count : {1U, 3U, 255U, 1024U, 5000U, 30011U}) {
        run_checked(comm, {kind, DType::kFloat32, ReduceOp::kSum, count});
      }
    }
    comm.close();
  });
}
