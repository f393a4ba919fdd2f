// Every collective with every algorithm on thread ranks: shapes, sizes around piece borders, types,
// operations, in place and out of place, all results compared with a formula.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.hpp"
#include "catch.hpp"
#include "group/group_map.hpp"
#include "horing.h"
#include "job.hpp"
#include "sanitizers.hpp"
#include "scoped_variable.hpp"

using namespace ho;
using namespace ho::test;

namespace {

// All collectives and algorithms at these counts on one communicator, each in turn in place and out
// of place. Another `turn` has them the other way round.
void sweep(ho_comm* comm, const std::vector<uint64_t>& counts, size_t turn = 0) {
  for (const uint64_t count : counts) {
    ++turn;
    for (const Collective collective : kCollectives) {
      for (const Algorithm algorithm : kAlgorithms) {
        const bool in_place = ++turn % 2 == 0;
        Case c{collective, algorithm, DType::kFloat32, ReduceOp::kSum, count, in_place};
        c.root = ho_comm_world_size(comm) - 1;
        check_case(comm, c);
      }
    }
  }
}

}  // namespace

TEST_CASE("all collectives and algorithms compute their formulas on many shapes") {
  for (const char* groups :
       {"1x1", "1x2", "2x1", "1x4", "3x1", "2x2", "3x2", "2x3", "4x2", "1+3", "3+2+1", "1+4"}) {
    if (kThreadSanitizer && GroupMap::parse(groups)->world_size() > 5) {
      continue;
    }
    for (const bool round_robin : {false, true}) {
      if (round_robin && (std::string(groups) == "1x1" || std::string(groups) == "1x2")) {
        continue;
      }
      JobOptions options;
      options.groups = groups;
      options.round_robin = round_robin;
      const size_t turn = round_robin ? 1 : 0;
      require_job(options, [turn](ho_comm* comm) { sweep(comm, {0, 1, 7, 1000}, turn); });
    }
  }
}

TEST_CASE("results are right on fewer rails than ranks, as where ranks share a NIC", "[sizes]") {
  // Most of a case's time goes into its communicators. On loopback 0 rails (as NICs allow) are one.
  struct Shape {
    const char* groups;
    uint32_t rails;
  };
  constexpr std::array kShapes{Shape{"2x2", 0},
                               Shape{"2x3", 2},
                               Shape{"2+4", 1},
                               Shape{"2x3", 1},
                               Shape{"3x4", 2},
                               Shape{"3+2", 1},
                               Shape{"3+2", 2},
                               Shape{"2+4", 2}};
  for (size_t i = 0; i < (kThreadSanitizer ? 3 : kShapes.size()); ++i) {
    JobOptions options;
    options.groups = kShapes[i].groups;
    options.rails = kShapes[i].rails;
    require_job(options, [rails = options.rails](ho_comm* comm) {
      // Everybody is on one loopback interface.
      const int32_t expected = rails == 0 ? 1 : static_cast<int32_t>(rails);
      if (ho_comm_rail_count(comm) != expected) {
        throw std::runtime_error("not as many rails as expected");
      }
      sweep(comm, {1, 1000, 20000}, rails);
    });
  }
}

TEST_CASE("a split communicator chooses its own rails") {
  JobOptions options;
  options.groups = "2x4";
  options.rails = 0;
  require_job(options, [](ho_comm* comm) {
    ho_comm* odd_or_even = nullptr;
    ho_comm* node = nullptr;
    const int32_t rank = ho_comm_rank(comm);
    must(ho_comm_split(comm, rank % 2, rank, &odd_or_even));
    must(ho_comm_split(comm, ho_comm_group_of(comm, rank), rank, &node));
    if (ho_comm_rail_count(odd_or_even) != 1 || ho_comm_rail_count(node) != 4) {
      throw std::runtime_error("not as many rails as expected");
    }
    sweep(odd_or_even, {1000});
    sweep(node, {1000}, 1);
    ho_comm_destroy(odd_or_even);
    ho_comm_destroy(node);
  });
}

TEST_CASE("results are right at sizes around the borders of pieces", "[sizes]") {
  // Pieces are of at least 8 KiB: 2048 floats.
  require_job({"2x2"}, [](ho_comm* comm) {
    sweep(comm, {2047, 2048, 2049, 8192, 40000});
    // Longer pieces, up to the longest in chunks of 1 MiB and more.
    for (const Algorithm algorithm : kAlgorithms) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast}) {
        check_case(comm, {collective, algorithm, DType::kFloat32, ReduceOp::kSum, 300001, true});
      }
    }
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
      for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kHoRing}) {
        check_case(comm, {collective, algorithm, DType::kFloat32, ReduceOp::kSum, 300001, false});
      }
    }
  });
  require_job({"1+3"}, [](ho_comm* comm) { sweep(comm, {2049, 40000}, 1); });
}

TEST_CASE("results are right for every type and operation") {
  require_job({"2x2"}, [](ho_comm* comm) {
    for (uint8_t d = 0; d < kDTypeCount; ++d) {
      for (uint8_t o = 0; o < kReduceOpCount; ++o) {
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<ReduceOp>(o);
        if (!reduction_supported(dtype, op)) {
          continue;
        }
        for (const Algorithm algorithm : {Algorithm::kHoRing, Algorithm::kDirect}) {
          check_case(comm, {Collective::kAllReduce, algorithm, dtype, op, 501, false});
          check_case(comm, {Collective::kReduceScatter, algorithm, dtype, op, 501, true});
          check_case(comm, {Collective::kReduce, algorithm, dtype, op, 501, true});
        }
      }
      for (const Collective collective : {Collective::kAllGather,
                                          Collective::kBroadcast,
                                          Collective::kAllToAll,
                                          Collective::kGather,
                                          Collective::kScatter}) {
        Case c{collective, Algorithm::kHoRing, static_cast<DType>(d), ReduceOp::kSum, 777, false};
        check_case(comm, c);
        c.unequal = collective == Collective::kAllToAll;
        check_case(comm, c);
      }
    }
  });
}

TEST_CASE("windows bound the scratch memory", "[sizes]") {
  const ScopedVariable scratch("HORING_SCRATCH_BYTES", "65536");
  const ScopedVariable piece("HORING_PIECE_BYTES", "4096");
  require_job({"3x2"}, [](ho_comm* comm) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kMultiRing, Algorithm::kHierarchical, Algorithm::kHoRing}) {
      check_case(
          comm,
          {Collective::kReduceScatter, algorithm, DType::kFloat32, ReduceOp::kSum, 70001, false});
      check_case(
          comm, {Collective::kAllReduce, algorithm, DType::kFloat32, ReduceOp::kSum, 300007, true});
    }
    for (const int32_t root : {0, 3}) {
      for (const Collective collective : {Collective::kAllToAll,
                                          Collective::kGather,
                                          Collective::kScatter,
                                          Collective::kReduce}) {
        Case c{collective, Algorithm::kHoRing, DType::kFloat32, ReduceOp::kSum, 70001, false};
        c.root = root;
        check_case(comm, c);
      }
    }
    if (ho_comm_memory_bytes(comm) > (16U << 20)) {
      throw std::runtime_error("more than 16 MiB held");
    }
  });
}

// Neighbours ring all the while, so that the progress thread looks at its links while others are
// made.
TEST_CASE("collectives make their links beside messages that come in") {
  constexpr size_t kMessages = 200;
  for (int round = 0; round < 10; ++round) {
    require_job({"1x4"}, [&](ho_comm* comm) {
      const int32_t rank = ho_comm_rank(comm);
      std::array<float, kMessages> came{};
      std::array<ho_request*, 2 * kMessages> requests{};
      const float mine = static_cast<float>(rank);
      for (size_t i = 0; i < kMessages; ++i) {
        must(ho_recv(
            comm, &came[i], 1, HO_FLOAT32, (rank + 3) % 4, 0, nullptr, nullptr, &requests[2 * i]));
        must(ho_send(comm, &mine, 1, HO_FLOAT32, (rank + 1) % 4, 0, nullptr, &requests[2 * i + 1]));
      }
      Case c;
      c.count = 100;
      check_case(comm, c);
      float value = 1;
      must(ho_all_reduce(comm, &value, &value, 1, HO_FLOAT32, HO_SUM, nullptr, nullptr, nullptr));
      for (int32_t root = 0; root < 4; ++root) {
        must(ho_broadcast(comm, &value, &value, 1, HO_FLOAT32, root, nullptr, nullptr, nullptr));
      }
      expect(value == 4, "sums up");
      for (ho_request* request : requests) {
        must(ho_request_wait(request, 0));
      }
      expect(std::all_of(came.begin(),
                         came.end(),
                         [&](float one) { return one == static_cast<float>((rank + 3) % 4); }),
             "come from the neighbour");
    });
  }
}
