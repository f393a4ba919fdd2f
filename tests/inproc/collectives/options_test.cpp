// The options of calls and communicators that change the way of the data, not the result: each is
// set here once with all collectives it applies to. docs/design/contributing.md has the table of
// them.
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cases.hpp"
#include "catch.hpp"
#include "horing.h"
#include "job.hpp"
#include "port_block.hpp"
#include "reduce/reduce.hpp"
#include "sanitizers.hpp"
#include "scoped_variable.hpp"
#include "temporary_folder.hpp"

using namespace ho;
using namespace ho::test;

namespace {

// Everything that takes fp32_sums, with about `per_rank` elements in a chunk. Each type and each
// operation is in place and out of place with every algorithm; another `turn` has them the other
// way round.
void sweep_fp32_sums(ho_comm* comm, uint64_t per_rank, size_t turn) {
  const uint64_t world = static_cast<uint64_t>(ho_comm_world_size(comm));
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kDirect) {
      continue;  // refused: see below
    }
    for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
      ++turn;
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum}) {
        const bool in_place = ++turn % 2 == 0;
        Case c{Collective::kAllReduce, algorithm, dtype, op, per_rank * world, in_place};
        c.fp32_sums = true;
        check_case(comm, c);
        c.collective = Collective::kReduce;
        c.root = ho_comm_world_size(comm) - 1;
        check_case(comm, c);
        c.collective = Collective::kReduceScatter;
        c.count = per_rank;
        check_case(comm, c);
        c.unequal = true;
        check_case(comm, c);
      }
    }
  }
}

// All collectives at counts below, at and beyond one piece, by every algorithm that is asked for.
void sweep_all(ho_comm* comm, const std::vector<std::optional<Algorithm>>& algorithms) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{2048}, uint64_t{30001}}) {
    for (const Collective collective : kCollectives) {
      for (const auto& algorithm : algorithms) {
        check_case(comm,
                   {collective, algorithm, DType::kFloat32, ReduceOp::kSum, count, count == 2048});
      }
    }
  }
}

uint16_t bfloat16(float value) {
  uint16_t narrowed = 0;
  narrow(DType::kBfloat16, &narrowed, &value, 1);
  return narrowed;
}

}  // namespace

TEST_CASE(
    "fp32_sums: results are right in all collectives, algorithms, types and places, in many "
    "tiles",
    "[sizes]") {
  // Sums to the output go through a tile of 2,048 elements. A piece has 4,096 here.
  const std::vector<const char*> shapes =
      kThreadSanitizer ? std::vector{"2x2", "1+3"} : std::vector{"1x2", "1x4", "2x1", "2x2", "1+3"};
  size_t turn = 0;
  for (const char* groups : shapes) {
    require_job({groups}, [turn](ho_comm* comm) { sweep_fp32_sums(comm, 5003, turn); });
    ++turn;
  }
  // Three tiles and a part of a fourth in each piece, windows of scratch, and the last piece short.
  const ScopedVariable piece("HORING_PIECE_BYTES", "14336");
  const ScopedVariable scratch("HORING_SCRATCH_BYTES", "131072");
  require_job({"2x2"}, [](ho_comm* comm) { sweep_fp32_sums(comm, 17501, 0); });
}

TEST_CASE("fp32_sums: sums of a group are rounded once") {
  require_job({"1x4"}, [](ho_comm* comm) {
    // 256 + 1 is 256 in bf16, whose values are 2 apart there: 259 needs all of the sum.
    for (int32_t large = 0; large < 4; ++large) {
      const std::vector<uint16_t> in(5000, bfloat16(ho_comm_rank(comm) == large ? 256.0F : 1.0F));
      std::vector<uint16_t> out(in.size());
      ho_call_options options = HO_CALL_OPTIONS_INIT;
      options.fp32_sums = 1;
      must(ho_all_reduce(
          comm, in.data(), out.data(), in.size(), HO_BFLOAT16, HO_SUM, &options, nullptr, nullptr));
      expect(out == std::vector<uint16_t>(in.size(), bfloat16(259.0F)), "rounds once");
    }
  });
}

TEST_CASE("fp32_sums: a type, operation or algorithm that has none says so") {
  require_job({"2x1"}, [](ho_comm* comm) {
    std::array<uint16_t, 4> data{};
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.fp32_sums = 1;
    const auto refused = [&](ho_dtype dtype, ho_op op, const char* words) {
      const ho_status status =
          ho_all_reduce(comm, data.data(), data.data(), 1, dtype, op, &options, nullptr, nullptr);
      expect(status == HO_UNSUPPORTED, "refuses");
      expect(std::strstr(ho_last_error_message(), words) != nullptr, words);
    };
    refused(HO_FLOAT32, HO_SUM, "fp32_sums is for sum, avg and premul_sum of half and bfloat16");
    refused(HO_BFLOAT16, HO_MAX, "fp32_sums is for sum, avg and premul_sum of half and bfloat16");
    options.algorithm = HO_ALGORITHM_DIRECT;
    refused(HO_BFLOAT16, HO_SUM, "the direct algorithm has no fp32_sums");
    options.algorithm = HO_ALGORITHM_AUTO;  // small: direct without fp32_sums
    data.fill(bfloat16(3.0F));
    must(ho_all_reduce(comm,
                       data.data(),
                       data.data(),
                       data.size(),
                       HO_BFLOAT16,
                       HO_SUM,
                       &options,
                       nullptr,
                       nullptr));
    expect(data.front() == bfloat16(6.0F), "auto takes an algorithm that has fp32_sums");
  });
}

// 64 MiB and a byte, of which nothing is moved.
TEST_CASE("all_to_all_counts of more than its algorithm can move is refused, and the job goes on") {
  require_job({"2x2"}, [](ho_comm* comm) {
    const auto world = static_cast<size_t>(ho_comm_world_size(comm));
    const auto self = static_cast<size_t>(ho_comm_rank(comm));
    std::vector<size_t> counts(world, 0);
    counts[self] = self == 1 ? (size_t{64} << 20U) + 1 : 0;
    const auto* const nothing = reinterpret_cast<const void*>(uintptr_t{1} << 40U);
    auto* const nowhere = reinterpret_cast<void*>(uintptr_t{4096});
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.algorithm = HO_ALGORITHM_DIRECT;
    for (int turn = 0; turn < 2; ++turn) {
      expect(ho_all_to_all_counts(comm,
                                  nothing,
                                  counts.data(),
                                  nowhere,
                                  counts.data(),
                                  HO_INT8,
                                  &options,
                                  nullptr,
                                  nullptr) == HO_UNSUPPORTED,
             "refuses");
      expect(std::string(ho_last_error_message()).find("use auto or ho_ring") != std::string::npos,
             ho_last_error_message());
      expect(ho_barrier(comm, nullptr, nullptr) == HO_OK, "goes on");
    }
  });
}

TEST_CASE("all_to_all_counts with another algorithm on one rank is a mismatch on all") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const std::vector<size_t> counts(static_cast<size_t>(ho_comm_world_size(comm)), 1);
    const std::vector<int32_t> in(counts.size(), 1);
    std::vector<int32_t> out(counts.size());
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.algorithm = ho_comm_rank(comm) == 1 ? HO_ALGORITHM_DIRECT : HO_ALGORITHM_AUTO;
    expect(ho_all_to_all_counts(comm,
                                in.data(),
                                counts.data(),
                                out.data(),
                                counts.data(),
                                HO_INT32,
                                &options,
                                nullptr,
                                nullptr) == HO_MISMATCH,
           "differs");
    expect(std::string(ho_last_error_message())
                   .find("rank 0 wants the algorithm auto, rank 1 direct") != std::string::npos,
           ho_last_error_message());
  });
}

TEST_CASE("unequal counts and requests give right results with every algorithm", "[sizes]") {
  for (const char* groups : {"2x2", "1+3"}) {
    require_job({groups}, [](ho_comm* comm) {
      size_t turn = 0;  // in place at one count, out of place at the other
      for (const uint64_t count : {uint64_t{1}, uint64_t{5000}}) {
        ++turn;
        for (const Collective collective : kCollectives) {
          for (const Algorithm algorithm : kAlgorithms) {
            const bool in_place = ++turn % 2 == 0;
            Case c{collective, algorithm, DType::kInt32, ReduceOp::kSum, count, in_place};
            c.request = true;
            check_case(comm, c);
            c.root = 1;
            c.unequal = takes_counts(collective);
            check_case(comm, c);
            c.request = false;
            check_case(comm, c);
          }
        }
      }
    });
  }
}

TEST_CASE("settings change the way of the data, not the result") {
  struct Setting {
    const char* name;
    const char* value;
  };
  constexpr std::array kSettings{
      Setting{"HORING_PIECE_BYTES", "1024"},
      Setting{"HORING_DIRECT_MAX_BYTES", "0"},
      Setting{"HORING_DIRECT_MAX_BYTES", "900000"},
      Setting{"HORING_TCP_STREAMS", "3"},
      Setting{"HORING_TCP_MAX_CONNECTIONS", "2"},
      Setting{"HORING_FAILOVER", "0"},
      Setting{"HORING_RAIL_PACE_MBIT", "10000"},
      Setting{"HORING_SHM_RING_BYTES", "8192"},
      Setting{"HORING_SHM_SINGLE_COPY", "0"},
      Setting{"HORING_SHM_SINGLE_COPY", "1"},
      Setting{"HORING_SPIN_US", "0"},
      Setting{"HORING_SPIN_US", "50"},
      Setting{"HORING_PROGRESS_CPU", "none"},
  };
  for (const Setting& setting : kSettings) {
    INFO(setting.name << "=" << setting.value);
    const ScopedVariable variable(setting.name, setting.value);
    require_job({"2x2"}, [](ho_comm* comm) {
      if (kThreadSanitizer) {
        sweep_all(comm, {std::nullopt});  // direct when small, then HO-Ring
      } else {
        sweep_all(comm, {std::nullopt, Algorithm::kHoRing, Algorithm::kDirect});
      }
    });
  }
  const TemporaryFolder folder;
  const ScopedVariable trace("HORING_TRACE", folder.path("trace.%r.json"));
  require_job({"2x2"}, [](ho_comm* comm) { sweep_all(comm, {std::nullopt}); });
}

TEST_CASE("auto goes by a file of levels, in a split by its part of them") {
  const TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  // Between nodes a message takes as long as a megabyte; inside, direct has the leader's bytes.
  std::ofstream(path) << R"({"levels": [{"size": 2, "rate": "1GB"},
      {"size": 2, "rate": "1GB", "latency": "1ms"}]})";
  const ScopedVariable levels("HORING_LEVELS_FILE", path);
  const auto algorithm_of = [](ho_comm* comm, size_t count) {
    std::vector<float> data(count, 1.0F);
    ho_op_report report = HO_OP_REPORT_INIT;
    must(ho_all_reduce(
        comm, data.data(), data.data(), count, HO_FLOAT32, HO_SUM, nullptr, &report, nullptr));
    expect(data.back() == static_cast<float>(ho_comm_world_size(comm)), "sums");
    return report.algorithm;
  };
  require_job({"2x2"}, [&](ho_comm* comm) {
    expect(algorithm_of(comm, 25'000) == HO_ALGORITHM_DIRECT, "one message fewer is faster");
    expect(algorithm_of(comm, 2'500'000) == HO_ALGORITHM_HO_RING, "fewer bytes are");
    ho_comm* node = nullptr;
    must(ho_comm_split(comm, ho_comm_rank(comm) / 2, 0, &node));
    expect(algorithm_of(node, 16) == HO_ALGORITHM_HO_RING, "no message takes long inside a node");
    ho_comm_destroy(node);
  });
  // As many ranks, in other groups: by bytes, with a warning.
  require_job({"1x4"}, [&](ho_comm* comm) {
    expect(algorithm_of(comm, 16) == HO_ALGORITHM_HO_RING, "the levels hold one group of four");
  });
  require_job({"3x1"}, [&](ho_comm* comm) {
    expect(algorithm_of(comm, 16) == HO_ALGORITHM_DIRECT, "three ranks go by bytes");
  });
  const ScopedVariable bytes("HORING_DIRECT_MAX_BYTES", "64");
  require_job({"2x2"}, [&](ho_comm* comm) {
    expect(algorithm_of(comm, 16) == HO_ALGORITHM_DIRECT, "64 bytes");
    expect(algorithm_of(comm, 17) == HO_ALGORITHM_HO_RING, "more than the user says");
  });
}

TEST_CASE("a job listens in HORING_PORT_RANGE alone, and a split that finds no port names it") {
  // Of each of the four ranks one for data and one for its control connection; they find each other
  // at another one.
  const uint16_t first = free_ports(8);
  const ScopedVariable range("HORING_PORT_RANGE", range_text(first, 8));
  require_job({"2x2"}, [](ho_comm* comm) {
    sweep_all(comm, {std::nullopt});
    ho_comm* part = nullptr;
    expect(ho_comm_split(comm, 0, 0, &part) != HO_OK, "there is no port for another communicator");
    const std::string why = ho_last_error_message();
    expect(why.find("HORING_PORT_RANGE=") != std::string::npos &&
               why.find("all 8 ports are in use") != std::string::npos,
           why.c_str());
  });
}

TEST_CASE("the algorithm of the environment takes every collective", "[sizes]") {
  for (const Algorithm algorithm : kAlgorithms) {
    const ScopedVariable variable("HORING_ALGORITHM", std::string(to_string(algorithm)));
    require_job({"2x2"}, [algorithm](ho_comm* comm) {
      sweep_all(comm, {std::nullopt});
      ho_op_report report = HO_OP_REPORT_INIT;
      std::vector<float> data(5000, 1.0F);
      must(ho_all_reduce(comm,
                         data.data(),
                         data.data(),
                         data.size(),
                         HO_FLOAT32,
                         HO_SUM,
                         nullptr,
                         &report,
                         nullptr));
      expect(report.algorithm == static_cast<ho_algorithm>(algorithm), "is the one asked for");
    });
  }
}

TEST_CASE("UCX on rails that are paced is refused by all ranks, with what to do") {
  const ScopedVariable transport("HORING_TRANSPORT", "ucx");
  const ScopedVariable pace("HORING_RAIL_PACE_MBIT", "100");
  const auto errors = run_job({"2x2"}, [](ho_comm*) {});
  REQUIRE(errors.size() == 4);
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Matchers::Contains("HORING_TRANSPORT=ucx: the rails are to be paced"));
    CHECK_THAT(error, Catch::Matchers::Contains("to 100 Mbit/s (by HORING_EMULATED_RAILS"));
    CHECK_THAT(error, Catch::Matchers::Contains("or by HORING_RAIL_PACE_MBIT)"));
    CHECK_THAT(error, Catch::Matchers::Contains("set HORING_TRANSPORT=tcp"));
  }
  // One group needs no network.
  require_job({"1x2"}, [](ho_comm*) {});
}
