// What is refused before NCCL gets it, and what ranks must have in common.
#include <array>

#include "catch.hpp"
#include "has.hpp"
#include "on_nccl.hpp"

using namespace ho;
using namespace ho::test;

namespace {

// Of the rank that has one.
std::string error_of(const Status& status, StatusCode code) {
  if (status.code() != code) {
    throw std::runtime_error("no such error: " + status.to_string());
  }
  return status.message();
}

}  // namespace

TEST_CASE("unequal parts are refused with what to do, and the communicator goes on") {
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "gathers");
    const DeviceFloats all(on, 7);
    const std::array<size_t, 2> counts{3, 4};
    paro::Pending pending;
    const std::string text =
        error_of(over->begin_all_gather(
                     on.options(), DType::kFloat32, all.data(), all.data(), counts, pending),
                 StatusCode::kUnsupported);
    if (text !=
            "gathers: ncclAllGather wants equal parts, and rank 1 there has 4 elements, rank 0 3: "
            "take groups of equal size and pad units to equal parts, or keep states on the host" ||
        pending.request != nullptr) {
      throw std::runtime_error(text);
    }
    must_be_ok(over->begin_all_reduce(on.options(), DType::kFloat32, all.data(), 7, pending));
    must_join(*over, pending);
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("memory and streams that are not of the rank's device are refused by name") {
  reset_doubles();
  require_job({"1x2"}, [&](ho_comm* job) {
    const OnNccl on(job);
    const auto over = on.over(on.world(), "sums");
    const DeviceFloats all(on, 8);
    std::array<float, 8> host{};
    const auto begin = [&](void* memory, size_t count, void* stream) {
      paro::Pending pending;
      paro::CollectiveOptions options;
      options.stream = stream;
      return over->begin_all_reduce(options, DType::kFloat32, memory, count, pending);
    };
    const std::string of_host =
        error_of(begin(host.data(), 8, on.stream()), StatusCode::kInvalidArgument);
    const std::string too_long =
        error_of(begin(all.data(), 9, on.stream()), StatusCode::kInvalidArgument);
    const auto other =
        must_have(device::Device::open(cuda_double::driver(), on.device().ordinal() == 0 ? 1 : 0));
    const auto memory = must_have(device::DeviceMemory::create(*other, 32));
    const std::string of_other =
        error_of(begin(memory.pointer(), 8, on.stream()), StatusCode::kInvalidArgument);
    const auto stream = must_have(device::Stream::create(*other));
    const std::string other_stream =
        error_of(begin(all.data(), 8, stream.handle()), StatusCode::kInvalidArgument);
    cuda_double::begin_capture(on.stream());
    const std::string captured =
        error_of(begin(all.data(), 8, on.stream()), StatusCode::kUnsupported);
    static_cast<void>(cuda_double::end_capture(on.stream()));
    paro::Pending pending;
    const std::string small =
        error_of(over->begin_all_reduce(on.options(), DType::kFloat8E4m3, all.data(), 8, pending),
                 StatusCode::kUnsupported);
    const auto must_say = [](const std::string& text, const char* words) {
      if (text.find(words) == std::string::npos) {
        throw std::runtime_error(text);
      }
    };
    must_say(of_host, "sums: ncclAllReduce got memory of a host");
    must_say(too_long, "needs 36 bytes of memory that ends after 32");
    must_say(of_other, "got memory of device ");
    must_say(other_stream, "sums: the stream belongs to another context");
    must_say(captured, "the stream is being captured");
    must_say(small, "adds no fp8_e4m3: convert it");
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("ranks with different versions of NCCL are named on every rank") {
  reset_doubles();
  const auto errors = run_job({"1x3"}, [&](ho_comm* job) {
    nccl_double::use_version(ho_comm_rank(job) == 2 ? 22707 : 0);
    const OnNccl on(job);
  });
  for (const std::string& error : errors) {
    CHECK(has(error, "rank 2 has NCCL 2.27.7, and rank 0 has 2.28.9: install one version"));
  }
  CHECK(left_on_doubles() == "");
}

TEST_CASE("ranks with GPUs of different models are named on every rank") {
  reset_doubles();
  cuda_double::reset({});
  const auto errors = run_job({"1x2"}, [&](ho_comm* job) { const OnNccl on(job); });
  for (const std::string& error : errors) {
    CHECK(has(error, "rank 1 runs on double 1 with 1024 MiB, and rank 0 runs on double 0 with"));
  }
  CHECK(left_on_doubles() == "");
}

TEST_CASE("two ranks on one GPU are named with the settings that permit it") {
  reset_doubles();
  const auto errors =
      run_job({"1x3"}, [&](ho_comm* job) { const OnNccl on(job, 60000, ho_comm_rank(job) % 2); });
  for (const std::string& error : errors) {
    CHECK(has(error, "rank 0 and rank 2 have the same GPU, which NCCL refuses"));
    CHECK(has(error, "NCCL_HOSTID"));
  }
  CHECK(left_on_doubles() == "");
}
