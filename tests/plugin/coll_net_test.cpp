// Whole collectives through CollNet, as each release of NCCL drives it.
#include <array>
#include <thread>

#include "bench/nccl_host/coll_net_comm.hpp"
#include "bench/nccl_host/error.hpp"
#include "catch.hpp"
#include "host_job.hpp"
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

TEST_CASE("collectives of many sizes are right on 2x2 with the newest tables", "[quick]") {
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

namespace {

struct Case {
  DType dtype;
  ReduceOp op;
};

constexpr uint8_t kNcclDTypeCount = 12;

// All that reduceSupport says yes to.
std::vector<Case> supported(const CollNetComm& comm) {
  std::vector<Case> cases;
  for (uint8_t dtype = 0; dtype < kNcclDTypeCount; ++dtype) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      if (comm.reduces(static_cast<DType>(dtype), op)) {
        cases.push_back({static_cast<DType>(dtype), op});
      }
    }
  }
  return cases;
}

// Every type and operation in every collective, with a size that changes from case to case.
void run_all_reductions(CollNetComm& comm, size_t type_count) {
  constexpr std::array<uint64_t, 6> kCounts{1, 7, 130, 1021, 4099, 20000};
  size_t turn = 0;
  for (const Case& each : supported(comm)) {
    for (const Collective kind : kCollectives) {
      run_checked(comm, {kind, each.dtype, each.op, kCounts.at(turn++ % kCounts.size())});
    }
  }
  // NCCL takes CollNet for reduce-scatter without an NVSwitch only where it reduces all.
  expect(turn == size_t{3} * type_count * 4, "all of NCCL's types and operations are reduced");
}

}  // namespace

TEST_CASE("all types and operations that a release knows are reduced") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    const bool knows_fp8 = version > 8;
    require_job(host_job(2, 1, version), [knows_fp8](HostRank& self) {
      CollNetComm comm(self.library(), self.memory(), 3, small_steps(9));
      expect_used(comm);
      expect(comm.reduces(DType::kFloat8E4m3, ReduceOp::kSum) == knows_fp8, "fp8 since 2.24");
      expect(!comm.reduces(DType::kFloat32, ReduceOp::kAvg), "NCCL never asks for averages");
      run_all_reductions(comm, knows_fp8 ? kNcclDTypeCount : kNcclDTypeCount - 2);
      comm.close();
    });
  }
}

TEST_CASE("every version is right on 2 to 4 nodes of 1 to 4 ranks") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    for (uint32_t nodes = 2; nodes <= 4; ++nodes) {
      for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
        require_job(host_job(nodes, ranks, version), [nodes](HostRank& self) {
          CollNetOptions options = small_steps(10);
          options.rotate_handles = nodes - 1;
          CollNetComm comm(self.library(), self.memory(), 4, options);
          expect_used(comm);
          for (const Collective kind : kCollectives) {
            for (const uint64_t count : {1U, 300U, 5003U}) {
              run_checked(comm, {kind, DType::kBfloat16, ReduceOp::kSum, count});
            }
          }
          comm.close();
        });
      }
    }
  }
}

TEST_CASE("1 byte to 64 MiB are right with NCCL's own chunks") {
  for (const int version : {8, 12}) {
    HostJobOptions options = host_job(2, 2, version);
    options.buffer_bytes = (size_t{64} << 20) + 4096;
    options.timeout = std::chrono::minutes(3);
    require_job(options, [](HostRank& self) {
      CollNetComm comm(self.library(), self.memory(), 5, {});
      expect_used(comm);
      for (const Collective kind : kCollectives) {
        for (const uint64_t bytes :
             {1ULL, 8ULL, 4096ULL, 65536ULL, 1ULL << 20, 5000001ULL, 64ULL << 20}) {
          run_checked(comm, work_of_bytes(kind, DType::kUint8, ReduceOp::kMax, bytes, 4));
        }
      }
      comm.close();
    });
  }
}

TEST_CASE("every version's sums are right", "[quick]") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    require_job(host_job(2, 1, version), [](HostRank& self) {
      CollNetComm comm(self.library(), self.memory(), 6, small_steps(9));
      expect_used(comm);
      for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kUint64}) {
        for (const Collective kind : kCollectives) {
          run_checked(comm, {kind, dtype, ReduceOp::kSum, 2003});
        }
      }
      comm.close();
    });
  }
}

// One rank per node: whole buffers, in one call or, where a call may not be so large, in several.
TEST_CASE("registered buffers move in as few calls as they may, with one rank per node",
          "[quick]") {
  for (const uint32_t nodes : {2U, 3U, 4U}) {
    for (const uint64_t most_bytes : {uint64_t{0}, uint64_t{4096}}) {
      require_job(host_job(nodes, 1, 12), [most_bytes](HostRank& self) {
        CollNetOptions options;
        options.user_buffers = true;
        options.most_call_bytes = most_bytes;
        CollNetComm comm(self.library(), self.memory(), 7, options);
        expect_used(comm);
        uint64_t collectives = 0;
        for (const Collective kind : kCollectives) {
          for (const uint64_t count : {1U, 1000U, 20011U}) {
            run_checked(comm, {kind, DType::kFloat32, ReduceOp::kSum, count});
            ++collectives;
          }
        }
        const bool one_call_each = comm.calls() == collectives;
        expect(one_call_each == (most_bytes == 0), "a call takes what the device allows");
        comm.close();
      });
    }
  }
}

TEST_CASE("registered buffers give right results with several ranks per node", "[quick]") {
  for (const int version : {8, 12}) {
    require_job(host_job(2, 2, version), [](HostRank& self) {
      CollNetOptions options = small_steps(10);
      options.user_buffers = true;
      CollNetComm comm(self.library(), self.memory(), 8, options);
      expect_used(comm);
      for (const Collective kind : kCollectives) {
        for (const uint64_t count : {1U, 300U, 5003U}) {
          run_checked(comm, {kind, DType::kInt32, ReduceOp::kSum, count});
        }
      }
      comm.close();
    });
  }
}

TEST_CASE("several communicators at once keep their data apart", "[quick]") {
  HostJobOptions options = host_job(2, 2, 12);
  options.communicators = 3;
  require_job(options, [](HostRank& self) {
    std::vector<std::string> errors(3);
    std::vector<std::thread> users;
    for (uint32_t index = 0; index < errors.size(); ++index) {
      users.emplace_back([&self, &errors, index] {
        try {
          CollNetOptions wanted = small_steps(3 + index);
          wanted.registers_meanwhile = true;
          wanted.early_finalize = index == 1;
          CollNetComm comm(self.library(), self.memory(index), 100 + index, wanted);
          expect_used(comm);
          for (const Collective kind : kCollectives) {
            for (const uint64_t count : {5U, 3000U, 20000U}) {
              run_checked(comm, {kind, DType::kInt32, ReduceOp::kSum, count});
            }
          }
          comm.close();
        } catch (const std::exception& error) {
          errors[index] = error.what();
        }
      });
    }
    for (std::thread& user : users) {
      user.join();
    }
    for (const std::string& error : errors) {
      expect(error.empty(), error);
    }
  });
}

TEST_CASE("communicators may come and go, finalized early or late", "[quick]") {
  for (const int version : {10, 11}) {
    require_job(host_job(2, 1, version), [](HostRank& self) {
      for (uint64_t turn = 0; turn < 6; ++turn) {
        CollNetOptions options = small_steps(2);
        options.early_finalize = turn % 2 == 1;
        CollNetComm comm(self.library(), self.memory(), turn, options);
        expect_used(comm);
        run_checked(comm, {Collective::kAllReduce, DType::kFloat64, ReduceOp::kSum, 600});
        comm.close();
      }
      self.library().finalize({});  // as NCCL 2.28 does with what failed to initialise
    });
  }
}
