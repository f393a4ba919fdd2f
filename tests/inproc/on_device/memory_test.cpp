// Memory for states on a device: what it holds, and what it says where there is none.
#include <functional>

#include "caught_stderr.hpp"
#include "on_double.hpp"

using namespace paro;
using namespace ho;

TEST_CASE("a state that finds no memory on the device is named with what there is") {
  StatesOnDouble on({.memory_bytes = size_t{3} << 20U});
  Ledger ledger(*on.memory);
  const auto masters = ledger.allocate(Purpose::kOptimizer, size_t{1} << 20U);
  REQUIRE(masters.ok());
  const auto too_much = ledger.allocate(Purpose::kGathered, size_t{2} << 20U);
  CHECK(too_much.status().code() == StatusCode::kOutOfMemory);
  const std::string message = too_much.status().message();
  INFO(message);
  for (const char* words : {"2097152 bytes of gathered parameters",
                            "on device 0",
                            "3145728 bytes in all",
                            "holds 1048576 bytes of states"}) {
    CHECK(message.find(words) != std::string::npos);
  }
  // What there was is there, and what fits is found.
  CHECK(ledger.allocate(Purpose::kScratch, 1000).ok());
  CHECK(on.memory->state_bytes() == size_t{1} << 20U);
  CHECK(on.memory->operations().finish().ok());
}

TEST_CASE("a state that is not allocated for another cause than memory says that cause") {
  // Of the context, of the allocation and of the operation that zeroes it.
  for (const char* call : {"context_push", "memory_allocate", "launch"}) {
    StatesOnDouble on;
    Ledger ledger(*on.memory);
    cuda_double::fail_call(call, 1, device::kInvalidContext);
    const Status state = ledger.allocate(Purpose::kGathered, 64).status();
    CHECK(state.code() != StatusCode::kOutOfMemory);
    cuda_double::fail_call(call, 1, device::kInvalidContext);
    const Status control = ControlMemory::make(*on.memory).status();
    CHECK(control.code() != StatusCode::kOutOfMemory);
    for (const Status& status : {state, control}) {
      INFO(call << ": " << status.message());
      CHECK(status.message().find("allocating ") == 0);
      CHECK(status.message().find("CUDA_ERROR_INVALID_CONTEXT") != std::string::npos);
      CHECK(status.message().find("splits more") == std::string::npos);
    }
  }
  static_cast<void>(cuda_double::take_violations());
}

TEST_CASE("slots that no element can pass through are refused") {
  StatesOnDouble on;
  for (const auto& [slots, bytes] :
       {std::pair<size_t, size_t>{0, 4096}, {2, 0}, {2, 4}, {2, 4100}, {SIZE_MAX / 8, 16}}) {
    const Status refused = DeviceOperations::create(
                               on.device, on.stream.handle(), {.slots = slots, .slot_bytes = bytes})
                               .status();
    INFO(refused.message());
    CHECK(refused.code() == StatusCode::kInvalidArgument);
    CHECK(refused.message().find(std::to_string(slots) + " slots of " + std::to_string(bytes)) !=
          std::string::npos);
  }
}

TEST_CASE("memory is zeroed, counted by place, and given back") {
  cuda_double::reset({.mode = cuda_double::Mode::kLazy});
  {
    const auto device = open_device();
    const auto stream = test::must_have(device::Stream::create(*device));
    const auto memory = test::must_have(DeviceStateMemory::create(device, stream.handle(), {}));
    Ledger ledger(*memory);
    for (int round = 0; round < 2; ++round) {
      const auto buffer = ledger.allocate(Purpose::kGradients, 1000);
      REQUIRE(buffer.ok());
      std::vector<std::byte> bytes;
      memory->operations().fetch(buffer->get(), 1000, bytes);
      CHECK(bytes == std::vector<std::byte>(1000));
      memory->operations().store(std::vector<std::byte>(1000, std::byte{7}), buffer->get());
      CHECK(memory->state_bytes() == 1000);
    }
    CHECK(memory->state_bytes() == 0);
    CHECK(memory->scratch_bytes() > 0);
    CHECK(memory->pinned_bytes() == size_t{4} << 20U);
    const auto control = ControlMemory::make(*memory);
    CHECK((control.ok() && memory->state_bytes() == ControlMemory::kBytes));
  }
  CHECK(cuda_double::live().none());
  CHECK(nothing_violated());
}

TEST_CASE("a stream that is captured is refused when operations are made for it") {
  StatesOnDouble on;
  cuda_double::begin_capture(on.stream.handle());
  const auto refused = DeviceOperations::create(on.device, on.stream.handle());
  CHECK(refused.status().code() == StatusCode::kUnsupported);
  CHECK(cuda_double::end_capture(on.stream.handle()));
}

TEST_CASE("while the stream is captured operations are refused, and the capture is as it was") {
  const auto fetch = [](const Operations& all, void* at) {
    std::vector<std::byte> bytes;
    all.fetch(at, 64, bytes);
  };
  const std::function<void(const Operations&, void*)> calls[] = {
      [](const Operations& all, void* at) { all.zero(at, 64); },
      [](const Operations& all, void* at) { all.store(std::vector<std::byte>(64), at); },
      fetch,
      [](const Operations&, void*) {}};  // finish() alone
  for (const auto& call : calls) {
    StatesOnDouble on;
    void* const at = on.memory->allocate(64);
    const Operations& all = on.memory->operations();
    REQUIRE(all.finish().ok());
    cuda_double::begin_capture(on.stream.handle());
    call(all, at);
    const Status refused = all.finish();
    on.memory->release(at, 64);
    CHECK(on.memory->allocate(64) == nullptr);
    on.memory.reset();
    CHECK(cuda_double::end_capture(on.stream.handle()));
    CHECK(refused.code() == StatusCode::kUnsupported);
    INFO(refused.message());
    CHECK(refused.message().find("the stream is being captured into a graph") != std::string::npos);
    CHECK(nothing_violated());
  }
}

TEST_CASE("memory whose stream never ends is left behind at the deadline and the log says so") {
  cuda_double::reset({});
  std::string circle;
  cuda_double::JointWork endless(2, [](const cuda_double::Translate&) {});
  test::CaughtStderr caught;
  {
    const auto device = open_device();
    const auto stream = test::must_have(device::Stream::create(*device));
    const auto memory = test::must_have(DeviceStateMemory::create(
        device, stream.handle(), {.timeout = std::chrono::milliseconds(100)}));
    Ledger ledger(*memory);
    const auto buffer = ledger.allocate(Purpose::kGradients, 1000);
    REQUIRE(buffer.ok());
    const auto current = test::must_have(device::CurrentContext::enter(*device));
    REQUIRE(endless.enqueue(stream.handle(), "endless", {}, circle) == device::kSuccess);
  }
  const std::string said = caught.end();
  INFO(said);
  CHECK(said.find("device 0: the device was not through with its stream after 100 ms") !=
        std::string::npos);
  CHECK(said.find("end this process") != std::string::npos);
  CHECK(said.find(" bytes are left behind") != std::string::npos);
  CHECK(cuda_double::violations().empty());
  endless.give_up(0);
}
