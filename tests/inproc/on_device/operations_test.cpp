// Operations on states in device memory: what they give, in every order in which a device may run
// them, what they cost the driver, and what becomes of one that fails.
#include <future>

#include "on_double.hpp"

using namespace paro;
using namespace ho;

namespace {

constexpr cuda_double::Mode kModes[] = {
    cuda_double::Mode::kEager, cuda_double::Mode::kRandom, cuda_double::Mode::kLazy};

}  // namespace

TEST_CASE("operations on a device give the host's results bit for bit", "[sizes]") {
  for (const cuda_double::Mode mode : kModes) {
    StatesOnDouble on({.mode = mode, .seed = 5});
    for (const device_suite::StateCase& one : device_suite::state_cases()) {
      INFO("mode " << static_cast<int>(mode) << ": " << one.name);
      CHECK(one.run(*on.memory).empty());
      CHECK(nothing_violated());
    }
  }
}

TEST_CASE("a step allocates nothing and makes no call that waits for the device") {
  StatesOnDouble on({.mode = cuda_double::Mode::kLazy});
  device_suite::TrainedUnit unit(*on.memory, AdamW{}, DType::kBfloat16, 5000);
  for (int step = 0; step < 3; ++step) {
    unit.put_gradients(static_cast<uint64_t>(step), false);
    REQUIRE(on.memory->operations().finish().ok());
    cuda_double::forget_counts();
    unit.step();
    // Nothing was asked, so nothing was waited for.
    CHECK(cuda_double::calls("event_query") == 0);
    Status status;
    CHECK(unit.finish(status).steps == static_cast<uint64_t>(step) + 1);
    CHECK(status.ok());
    CHECK(cuda_double::synchronizing_calls() == 0);
    CHECK(cuda_double::allocations_while_pending() == 0);
    for (const char* call : {"memory_allocate", "memory_free", "host_allocate", "event_create"}) {
      CHECK(cuda_double::calls(call) == 0);
    }
    CHECK(unit.difference().empty());
  }
}

TEST_CASE("a step that is left out changes nothing, and the host is not asked") {
  StatesOnDouble on({.mode = cuda_double::Mode::kLazy});
  device_suite::TrainedUnit unit(*on.memory, Sgd{.momentum = 0.9}, DType::kFloat32, 1000);
  for (const bool left_out : {false, true, true, false}) {
    unit.put_gradients(left_out ? 1 : 2, left_out);
    unit.step();
  }
  Status status;
  const StepControl control = unit.finish(status);
  CHECK(status.ok());
  CHECK(control.steps == 2);
  CHECK(unit.difference().empty());
}

TEST_CASE("a driver call that fails while operations are made leaves nothing") {
  const auto make = [](uint64_t k) {
    cuda_double::reset({.mode = cuda_double::Mode::kLazy});
    std::string error;
    {
      const auto device = open_device();
      const auto stream = test::must_have(device::Stream::create(*device));
      if (k > 0) {
        cuda_double::fail_call("", k, device::kInvalidValue);
      }
      error = DeviceStateMemory::create(device, stream.handle(), {.slots = 2}).status().message();
    }
    return error;
  };
  CHECK(make(0).empty());
  CHECK(nothing_violated());
  CHECK(cuda_double::live().none());
  uint64_t failed = 0;
  // Until it is a call of the end, where nobody is left to tell.
  for (std::string error = make(1); !error.empty(); error = make(failed + 1)) {
    ++failed;
    INFO(failed << ": " << error);
    CHECK(nothing_violated());
    CHECK(cuda_double::live().none());
    CHECK(error.find("CUDA_ERROR_INVALID_VALUE") != std::string::npos);
  }
  CHECK(failed > 43);  // all kernels
  static_cast<void>(cuda_double::take_violations());
}

TEST_CASE("the first operation that fails is named, and none runs after it") {
  for (const char* call : {"launch", "copy_async", "event_record", "event_query", "context_push"}) {
    uint64_t calls = 1;  // once it is known
    for (uint64_t k = 0; k <= calls; ++k) {
      INFO(call << " " << k);
      cuda_double::reset({.mode = cuda_double::Mode::kLazy});
      {
        const auto device = open_device();
        const auto stream = test::must_have(device::Stream::create(*device));
        const auto memory = test::must_have(
            DeviceStateMemory::create(device, stream.handle(), {.slots = 2, .slot_bytes = 512}));
        auto* const at = static_cast<float*>(memory->allocate(16384));
        REQUIRE(at != nullptr);
        const Operations& all = memory->operations();
        const std::vector<float> numbers(1000, 2.0F);
        std::vector<float> back(1000);
        cuda_double::forget_counts();
        if (k > 0) {
          cuda_double::fail_call(call, k, device::kInvalidValue);
        }
        all.store(DType::kFloat32, numbers, at);
        all.round_in_place(DType::kFloat16, at, 1000);
        all.copy(at + 1000, at, 2000);
        all.fetch(DType::kFloat16, at + 1000, 1, back);
        const Status status = all.finish();
        if (k == 0) {
          calls = cuda_double::calls(call);
          CHECK(status.ok());
          CHECK(back == numbers);
        } else if (status.ok()) {
          CHECK(std::string(call) == "event_query");  // that it was asked so often was chance
        } else {
          CHECK(status.message().find(" on device 0") != std::string::npos);
          cuda_double::forget_counts();
          all.zero(at, 4);
          CHECK(cuda_double::all_calls() == 0);
          CHECK(all.finish().message() == status.message());
          // A state, too, fails by that cause and not for lack of memory.
          Ledger ledger(*memory);
          const Status of_state = ledger.allocate(Purpose::kGradients, 4).status();
          CHECK(of_state.code() == status.code());
          CHECK(of_state.message() == "allocating 4 bytes of gradients: " + status.message());
        }
        memory->release(at, 16384);
      }
      CHECK(nothing_violated());
      CHECK(cuda_double::live().none());
    }
    CHECK(calls > 0);
  }
}

TEST_CASE("operations that are destroyed have waited for what they were given") {
  StatesOnDouble on({.mode = cuda_double::Mode::kLazy});
  auto* const at = static_cast<GradientSums*>(on.memory->allocate(2 * sizeof(GradientSums)));
  auto operations = test::must_have(DeviceOperations::create(on.device, on.stream.handle()));
  operations->norm(DType::kFloat32, at + 1, 1, 1, 0, at);  // by way of their own memory
  operations.reset();
  on.memory->release(at, 2 * sizeof(GradientSums));
  CHECK(nothing_violated());
}

TEST_CASE("a wait for the device that is too long ends with an error") {
  StatesOnDouble on;
  auto* const at = on.memory->allocate(64);
  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  const auto impatient = test::must_have(
      DeviceOperations::create(on.device, on.stream.handle(), {.timeout = {}, .slots = 1}));
  {
    const auto current = test::must_have(device::CurrentContext::enter(*on.device));
    test::must_be_ok(on.stream.call_on_host(
        [](void* gate_of_test) { static_cast<std::future<void>*>(gate_of_test)->wait(); },
        &opened));
  }
  impatient->zero(at, 64);
  CHECK(impatient->finish().code() == StatusCode::kTimeout);
  gate.set_value();
  on.memory->release(at, 64);
  CHECK(nothing_violated());
}
