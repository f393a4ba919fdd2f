// Types that only move, bits of integers, and a factor for each rank's input.
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "cases.hpp"
#include "catch.hpp"
#include "job.hpp"

using namespace ho;
using namespace ho::test;

namespace {

bool says(const std::string& text) {
  return std::string(ho_last_error_message()).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("types that only move arrive in every collective that moves bytes") {
  for (const char* groups : {"2x2", "1+3"}) {
    require_job({groups}, [](ho_comm* comm) {
      for (const DType dtype :
           {DType::kInt16, DType::kUint16, DType::kBool, DType::kComplex64, DType::kComplex128}) {
        for (const Algorithm algorithm : kAlgorithms) {
          for (const Collective collective : {Collective::kAllGather, Collective::kBroadcast}) {
            check_case(comm, {collective, algorithm, dtype, ReduceOp::kSum, 3001, true});
          }
        }
      }
    });
  }
}

TEST_CASE("messages of complex numbers arrive as they were sent") {
  require_job({"2x1"}, [](ho_comm* comm) {
    std::vector<std::complex<double>> numbers(10000, {1.5, -2.5});
    if (ho_comm_rank(comm) == 0) {
      must(ho_send(comm, numbers.data(), numbers.size(), HO_COMPLEX128, 1, 0, nullptr, nullptr));
      return;
    }
    std::vector<std::complex<double>> came(numbers.size());
    must(ho_recv(comm, came.data(), came.size(), HO_COMPLEX128, 0, 0, nullptr, nullptr, nullptr));
    expect(came == numbers, "both parts of every number arrive");
  });
}

TEST_CASE("a reduction that a type does not have is refused with what to do") {
  require_job({"1x2"}, [](ho_comm* comm) {
    std::array<std::byte, 64> data{};
    const auto refused = [&](ho_dtype dtype, ho_op op, const std::string& remedy) {
      const ho_status status =
          ho_all_reduce(comm, data.data(), data.data(), 1, dtype, op, nullptr, nullptr, nullptr);
      expect(status == HO_UNSUPPORTED, "refuses");
      expect(says("all_reduce: no ") && says(remedy), remedy.c_str());
    };
    refused(HO_BOOL, HO_SUM, "sum of bool; reduce it as uint8");
    refused(HO_INT16, HO_MAX, "max of int16; reduce it as int32");
    refused(HO_COMPLEX64, HO_SUM, "sum of complex64; sum it as twice as many floats");
    refused(HO_FLOAT32, HO_BXOR, "bxor of float; bitwise operations take integers");
    refused(HO_INT32, HO_PREMUL_SUM, "premul_sum of int32; sum, and scale the result");
    refused(HO_FLOAT8_E4M3, HO_PREMUL_SUM, "premul_sum of fp8_e4m3; reduce a wider type");
    // The communicator is fine.
    uint8_t any = ho_comm_rank(comm) == 0 ? 4 : 3;
    must(ho_all_reduce(comm, &any, &any, 1, HO_UINT8, HO_BOR, nullptr, nullptr, nullptr));
    expect(any == 7, "has the bits of both ranks");
    const auto beyond = static_cast<ho_dtype>(17);
    expect(ho_dtype_bytes(HO_COMPLEX128) == 16 && ho_dtype_bytes(beyond) == 0, "has sizes");
  });
}

TEST_CASE("factors of the ranks are applied in every place and algorithm, and inputs stay") {
  for (const char* groups : {"1x1", "1x3", "2x2", "1+3"}) {
    require_job({groups}, [](ho_comm* comm) {
      for (const DType dtype :
           {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
        for (const Algorithm algorithm : kAlgorithms) {
          for (const bool in_place : {false, true}) {
            Case c{Collective::kAllReduce, algorithm, dtype, ReduceOp::kPremulSum, 3001, in_place};
            check_case(comm, c);
            c.request = true;
            c.collective = Collective::kReduceScatter;
            check_case(comm, c);
            c.unequal = true;
            check_case(comm, c);
            c.unequal = false;
            c.collective = Collective::kReduce;
            c.root = ho_comm_world_size(comm) - 1;
            check_case(comm, c);
          }
        }
      }
    });
  }
}

TEST_CASE("a factor that is no number makes sums that are none") {
  require_job({"1x3"}, [](ho_comm* comm) {
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    const std::vector<float> in(100, 1);
    std::vector<float> out(in.size());
    const auto sum = [&](double of_rank_1) {
      options.scale = ho_comm_rank(comm) == 1 ? of_rank_1 : 0.25;
      must(ho_all_reduce(comm,
                         in.data(),
                         out.data(),
                         in.size(),
                         HO_FLOAT32,
                         HO_PREMUL_SUM,
                         &options,
                         nullptr,
                         nullptr));
      return out.back();
    };
    expect(sum(2) == 2.5F, "sums what was scaled");
    expect(std::isnan(sum(std::numeric_limits<double>::quiet_NaN())), "keeps NaN");
    expect(std::isinf(sum(std::numeric_limits<double>::infinity())), "keeps infinity");
  });
}

TEST_CASE("ranks that disagree about scaling all hear of both operations") {
  const auto errors = run_job({"1x2"}, [](ho_comm* comm) {
    float value = 1;
    const ho_op op = ho_comm_rank(comm) == 0 ? HO_PREMUL_SUM : HO_SUM;
    const ho_status status =
        ho_all_reduce(comm, &value, &value, 1, HO_FLOAT32, op, nullptr, nullptr, nullptr);
    expect(status == HO_MISMATCH, "is a mismatch");
    expect(says("premul_sum") && says(" sum"), "names both operations");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("the scaled copy of a reduce-scatter counts as memory until the operation ends") {
  constexpr size_t kElements = 100'000;
  std::promise<void> looked;
  const std::shared_future<void> begin(looked.get_future());
  require_job({"1x2"}, [&](ho_comm* comm) {
    const std::vector<float> in(2 * kElements, 1);
    std::vector<float> out(kElements);
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    options.scale = 0.5;
    const auto start = [&] {
      ho_request* request = nullptr;
      must(ho_reduce_scatter(comm,
                             in.data(),
                             out.data(),
                             kElements,
                             HO_FLOAT32,
                             HO_PREMUL_SUM,
                             &options,
                             nullptr,
                             &request));
      return request;
    };
    if (ho_comm_rank(comm) == 1) {
      begin.wait();
      must(ho_request_wait(start(), 0));
      return;
    }
    const uint64_t before = ho_comm_memory_bytes(comm);
    ho_request* request = start();
    const uint64_t under_way = ho_comm_memory_bytes(comm);
    looked.set_value();
    must(ho_request_wait(request, 0));
    expect(under_way >= before + in.size() * sizeof(float), "counts the copy");
    expect(ho_comm_memory_bytes(comm) < before + in.size() * sizeof(float), "frees the copy");
    expect(out.back() == 1, "sums halves of both ranks");
  });
}
