// Every collective with every algorithm on thread ranks: shapes, sizes around piece borders, types,
// operations, in place and out of place, all results compared with a formula.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "catch.hpp"
#include "horing.h"
#include "job.hpp"
#include "patterns.hpp"
#include "plan/plan.hpp"

using namespace ho;
using namespace ho::test;

namespace {

struct Case {
  Collective collective = Collective::kAllGather;
  Algorithm algorithm = Algorithm::kHoRing;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t count = 1;  // per rank for all-gather and reduce-scatter
  bool in_place = false;
  int32_t root = 0;

  [[nodiscard]] std::string name() const {
    return std::string(to_string(collective)) + " " + std::string(to_string(algorithm)) + " " +
           std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " count " +
           std::to_string(count) + (in_place ? " in place" : "");
  }
};

void check_all_gather(ho_comm* comm, const Case& c, const ho_call_options& options) {
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const auto world = static_cast<uint32_t>(ho_comm_world_size(comm));
  const size_t block = c.count * size_bytes(c.dtype);
  const auto mine = filled(c.dtype, c.op, rank, c.count);
  std::vector<std::byte> out(block * world, std::byte{0xee});
  std::copy(mine.begin(),
            mine.end(),
            out.begin() + static_cast<ptrdiff_t>(c.in_place ? block * rank : 0));
  if (!c.in_place) {
    std::fill(out.begin(), out.end(), std::byte{0xee});
  }
  const void* send = c.in_place ? out.data() + block * rank : mine.data();
  must(ho_all_gather(
      comm, send, out.data(), c.count, static_cast<ho_dtype>(c.dtype), &options, nullptr, nullptr));
  std::vector<std::byte> want;
  for (uint32_t r = 0; r < world; ++r) {
    const auto part = filled(c.dtype, c.op, r, c.count);
    want.insert(want.end(), part.begin(), part.end());
  }
  require_equal(out, want, size_bytes(c.dtype), c.name());
}

std::vector<std::byte> reduced(const Case& c, uint32_t world, uint64_t first, uint64_t count) {
  const size_t size = size_bytes(c.dtype);
  std::vector<std::byte> want(count * size);
  for (uint64_t i = 0; i < count; ++i) {
    double value = expected(c.op, world, first + i);
    if (c.op == ReduceOp::kAvg) {
      const bool whole = c.dtype < DType::kFloat16;
      value /= world;
      value = whole ? static_cast<double>(static_cast<int64_t>(value)) : value;
    }
    store(c.dtype, want.data() + i * size, value);
  }
  return want;
}

void check_reduce_scatter(ho_comm* comm, const Case& c, const ho_call_options& options) {
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const auto world = static_cast<uint32_t>(ho_comm_world_size(comm));
  const size_t block = c.count * size_bytes(c.dtype);
  auto in = filled(c.dtype, c.op, rank, c.count * world);
  const auto before = in;
  std::vector<std::byte> out(block, std::byte{0xee});
  void* recv = c.in_place ? in.data() + block * rank : out.data();
  must(ho_reduce_scatter(comm,
                         in.data(),
                         recv,
                         c.count,
                         static_cast<ho_dtype>(c.dtype),
                         static_cast<ho_op>(c.op),
                         &options,
                         nullptr,
                         nullptr));
  if (c.in_place) {
    std::copy_n(in.begin() + static_cast<ptrdiff_t>(block * rank), block, out.begin());
  } else {
    require_equal(in, before, 1, c.name() + ": the input changed");
  }
  require_equal(out, reduced(c, world, c.count * rank, c.count), size_bytes(c.dtype), c.name());
}

void check_all_reduce(ho_comm* comm, const Case& c, const ho_call_options& options) {
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const auto world = static_cast<uint32_t>(ho_comm_world_size(comm));
  auto in = filled(c.dtype, c.op, rank, c.count);
  const auto before = in;
  std::vector<std::byte> out(in.size(), std::byte{0xee});
  must(ho_all_reduce(comm,
                     in.data(),
                     c.in_place ? in.data() : out.data(),
                     c.count,
                     static_cast<ho_dtype>(c.dtype),
                     static_cast<ho_op>(c.op),
                     &options,
                     nullptr,
                     nullptr));
  if (!c.in_place) {
    require_equal(in, before, 1, c.name() + ": the input changed");
  }
  require_equal(
      c.in_place ? in : out, reduced(c, world, 0, c.count), size_bytes(c.dtype), c.name());
}

void check_broadcast(ho_comm* comm, const Case& c, const ho_call_options& options) {
  const auto rank = ho_comm_rank(comm);
  const auto want = filled(c.dtype, c.op, static_cast<uint32_t>(c.root), c.count);
  std::vector<std::byte> in = want;
  std::vector<std::byte> out(want.size(), std::byte{0xee});
  if (c.in_place && rank == c.root) {
    out = want;
  }
  const void* send = c.in_place ? out.data() : in.data();
  must(ho_broadcast(comm,
                    rank == c.root ? send : nullptr,
                    out.data(),
                    c.count,
                    static_cast<ho_dtype>(c.dtype),
                    c.root,
                    &options,
                    nullptr,
                    nullptr));
  require_equal(out, want, size_bytes(c.dtype), c.name());
}

void check_case(ho_comm* comm, const Case& c) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.algorithm = static_cast<ho_algorithm>(c.algorithm);
  switch (c.collective) {
    case Collective::kAllGather:
      return check_all_gather(comm, c, options);
    case Collective::kReduceScatter:
      return check_reduce_scatter(comm, c, options);
    case Collective::kAllReduce:
      return check_all_reduce(comm, c, options);
    case Collective::kBroadcast:
      return check_broadcast(comm, c, options);
  }
}

constexpr std::array kCollectives{Collective::kAllGather,
                                  Collective::kReduceScatter,
                                  Collective::kAllReduce,
                                  Collective::kBroadcast};
constexpr std::array kAlgorithms{Algorithm::kRing,
                                 Algorithm::kMultiRing,
                                 Algorithm::kHierarchical,
                                 Algorithm::kHoRing,
                                 Algorithm::kDirect};

// All collectives and algorithms at these counts, in and out of place, on one communicator.
void sweep(ho_comm* comm, const std::vector<uint64_t>& counts) {
  for (const uint64_t count : counts) {
    for (const Collective collective : kCollectives) {
      for (const Algorithm algorithm : kAlgorithms) {
        for (const bool in_place : {false, true}) {
          Case c{collective, algorithm, DType::kFloat32, ReduceOp::kSum, count, in_place, 0};
          c.root = ho_comm_world_size(comm) - 1;
          check_case(comm, c);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("all collectives and algorithms on many shapes") {
  for (const char* groups :
       {"1x1", "1x2", "2x1", "1x4", "3x1", "2x2", "3x2", "2x3", "4x2", "1+3", "3+2+1", "1+4"}) {
    for (const bool round_robin : {false, true}) {
      if (round_robin && (std::string(groups) == "1x1" || std::string(groups) == "1x2")) {
        continue;
      }
      JobOptions options;
      options.groups = groups;
      options.round_robin = round_robin;
      require_job(options, [](ho_comm* comm) { sweep(comm, {0, 1, 7, 1000}); });
    }
  }
}

TEST_CASE("fewer rails than ranks, as on nodes that share a NIC") {
  for (const char* groups : {"2x2", "2x3", "3x4", "3+2", "2+4"}) {
    for (const uint32_t rails : {0U, 1U, 2U}) {
      JobOptions options;
      options.groups = groups;
      options.rails = rails;
      require_job(options, [rails](ho_comm* comm) {
        // Everybody is on one loopback interface.
        const int32_t expected = rails == 0 ? 1 : static_cast<int32_t>(rails);
        if (ho_comm_rail_count(comm) != expected) {
          throw std::runtime_error("not as many rails as expected");
        }
        sweep(comm, {1, 1000, 20000});
      });
    }
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
    sweep(node, {1000});
    ho_comm_destroy(odd_or_even);
    ho_comm_destroy(node);
  });
}

TEST_CASE("sizes around piece borders") {
  // Pieces are of at least 8 KiB: 2048 floats.
  require_job({"2x2"}, [](ho_comm* comm) { sweep(comm, {2047, 2048, 2049, 8192, 40000, 300001}); });
  require_job({"1+3"}, [](ho_comm* comm) { sweep(comm, {2049, 40000}); });
}

TEST_CASE("every type and operation") {
  require_job({"2x2"}, [](ho_comm* comm) {
    for (uint8_t d = 0; d < kDTypeCount; ++d) {
      for (uint8_t o = 0; o < kReduceOpCount; ++o) {
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<ReduceOp>(o);
        if (!reduction_supported(dtype, op)) {
          continue;
        }
        for (const Algorithm algorithm : {Algorithm::kHoRing, Algorithm::kDirect}) {
          check_case(comm, {Collective::kAllReduce, algorithm, dtype, op, 501, false, 0});
          check_case(comm, {Collective::kReduceScatter, algorithm, dtype, op, 501, true, 0});
        }
      }
      check_case(comm,
                 {Collective::kAllGather,
                  Algorithm::kHoRing,
                  static_cast<DType>(d),
                  ReduceOp::kSum,
                  777,
                  false,
                  0});
    }
  });
}

TEST_CASE("windows bound the scratch memory") {
  ::setenv("HORING_SCRATCH_BYTES", "65536", 1);
  ::setenv("HORING_PIECE_BYTES", "4096", 1);
  require_job({"3x2"}, [](ho_comm* comm) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kMultiRing, Algorithm::kHierarchical, Algorithm::kHoRing}) {
      check_case(comm,
                 {Collective::kReduceScatter,
                  algorithm,
                  DType::kFloat32,
                  ReduceOp::kSum,
                  70001,
                  false,
                  0});
      check_case(
          comm,
          {Collective::kAllReduce, algorithm, DType::kFloat32, ReduceOp::kSum, 300007, true, 0});
    }
    if (ho_comm_memory_bytes(comm) > (16U << 20)) {
      throw std::runtime_error("more than 16 MiB held");
    }
  });
  ::unsetenv("HORING_SCRATCH_BYTES");
  ::unsetenv("HORING_PIECE_BYTES");
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
        must(ho_recv(comm, &came[i], 1, HO_FLOAT32, (rank + 3) % 4, nullptr, &requests[2 * i]));
        must(ho_send(comm, &mine, 1, HO_FLOAT32, (rank + 1) % 4, nullptr, &requests[2 * i + 1]));
      }
      Case c;
      c.count = 100;
      check_all_gather(comm, c, HO_CALL_OPTIONS_INIT);
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
