// Calls that fail, lost contexts, streams that are captured or another context's.
#include "on_double.hpp"

namespace ho::test {
namespace {

using cuda_double::driver;

}  // namespace

TEST_CASE("The chosen call fails once and is counted") {
  const OnDouble on;
  cuda_double::forget_counts();
  cuda_double::fail_call("event_create", 2, device::kOutOfDeviceMemory);
  CHECK(device::Event::create(*on.device).ok());
  const auto second = device::Event::create(*on.device);
  CHECK(second.status().code() == StatusCode::kOutOfMemory);
  CHECK(second.status().message().find("device 0: cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY") == 0);
  CHECK(device::Event::create(*on.device).ok());
  CHECK(cuda_double::calls("event_create") == 3);
  CHECK(cuda_double::calls("stream_create") == 0);
  CHECK(cuda_double::all_calls() >= 9);  // each with its context pushed and popped
}

TEST_CASE("After an illegal address every call fails until the process ends") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto memory = on.memory(8);
  const auto pinned = on.pinned(8);
  cuda_double::fail_call("copy_async", 1, device::kIllegalAddress);
  const Status first = stream.copy(memory.pointer(), pinned.bytes().data(), 8);
  CHECK(first.message().find("the context is lost; end this process") != std::string::npos);
  CHECK(!stream.copy(memory.pointer(), pinned.bytes().data(), 8).ok());
  CHECK(!device::Event::create(*on.device).ok());
  CHECK(!device::facts_of(*on.device, memory.pointer()).ok());
}

TEST_CASE("A context is lost between two calls of its user") {
  const OnDouble on;
  cuda_double::lose_context();
  CHECK(device::Event::create(*on.device).status().code() == StatusCode::kSystem);
}

TEST_CASE("Whatever call fails while things are made has its error and leaves nothing") {
  const auto make = [](std::string& what) -> Status {
    HORING_ASSIGN(const auto device, device::Device::open(driver(), 1));
    HORING_ASSIGN(const auto current, device::CurrentContext::enter(*device));
    // Memory first: it ends after the stream whose work uses it.
    HORING_ASSIGN(const auto memory, device::DeviceMemory::create(*device, 64));
    HORING_ASSIGN(const auto pinned, device::PinnedMemory::create(*device, 64));
    HORING_ASSIGN(const auto stream, device::Stream::create(*device));
    HORING_ASSIGN(const auto event, device::Event::create(*device));
    HORING_TRY(stream.copy(memory.pointer(), pinned.bytes().data(), 64));
    HORING_TRY(event.record(stream.handle()));
    HORING_TRY(stream.wait(event));
    HORING_ASSIGN(const bool passed, event.passed());
    what = passed ? "passed" : "pending";
    HORING_TRY(device::check_stream(*device, stream.handle()));
    HORING_ASSIGN(const auto facts, device::facts_of(*device, memory.pointer()));
    return facts.bytes == 64 ? Status() : invalid("other bytes");
  };
  uint64_t k = 0;
  for (bool failed = true; failed;) {
    cuda_double::reset();
    cuda_double::fail_call("", ++k, device::kNotPermitted);
    std::string what;
    const Status status = make(what);
    failed = !status.ok();
    INFO("call " << k << ": " << status.message());
    if (failed) {
      CHECK(status.message().find("device 1: cu") == 0);
      CHECK(status.message().find("CUDA_ERROR_NOT_PERMITTED") != std::string::npos);
      CHECK(cuda_double::live().none());
      CHECK(nothing_violated());
    }
    REQUIRE(k < 100);
  }
  CHECK(k > 25);
}

TEST_CASE("A device that does not exist is named with how many there are") {
  cuda_double::reset();
  const Status status = device::Device::open(driver(), 2).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message().find("there is no device 2: the driver shows 2") == 0);
}

TEST_CASE("Calls without a context or before the driver is initialized are refused") {
  cuda_double::reset();
  device::StreamHandle stream = nullptr;
  CHECK(driver().stream_create(&stream, 0, 0) == device::kNotInitialized);
  REQUIRE(driver().init(0) == device::kSuccess);
  CHECK(driver().stream_create(&stream, 0, 0) == device::kInvalidContext);
  CHECK(nothing_violated());
}

TEST_CASE("A captured stream is refused and what is enqueued to it is a violation") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto event = on.event();
  CHECK(device::check_stream(*on.device, stream.handle()).ok());
  CHECK(device::check_stream(*on.device, nullptr).ok());
  cuda_double::begin_capture(stream.handle());
  const Status refused = device::check_stream(*on.device, stream.handle());
  CHECK(refused.code() == StatusCode::kUnsupported);
  CHECK(refused.message().find("captured into a graph") != std::string::npos);
  CHECK(!event.record(stream.handle()).ok());
  CHECK(violated({"event_record on a stream that is being captured"}));
  CHECK(cuda_double::end_capture(stream.handle()));
  CHECK(event.record(stream.handle()).ok());
  finish(on, stream);
}

TEST_CASE("What a thread asks for spoils a capture unless the thread is in relaxed mode") {
  const OnDouble on;
  const auto captured = on.stream();
  const auto event = on.event();
  const auto ask = [&](int mode) {
    device::DriverResult result = device::kSuccess;
    std::thread([&] {
      const auto current = must(device::CurrentContext::enter(*on.device));
      CHECK(driver().thread_capture_mode(&mode) == device::kSuccess);
      CHECK(mode == device::kCaptureModeRelaxed);  // as the library's calls are made
      result = driver().event_query(event.handle());
    }).join();
    return result;
  };
  for (const int mode : {device::kCaptureModeGlobal, device::kCaptureModeThreadLocal}) {
    cuda_double::begin_capture(captured.handle(), mode);
    CHECK(ask(device::kCaptureModeRelaxed) == device::kSuccess);
    CHECK(ask(device::kCaptureModeThreadLocal) == device::kSuccess);
    CHECK(cuda_double::end_capture(captured.handle()));
    cuda_double::begin_capture(captured.handle(), mode);
    const bool refused = mode == device::kCaptureModeGlobal;
    CHECK((ask(device::kCaptureModeGlobal) == device::kCaptureUnsupported) == refused);
    CHECK(cuda_double::end_capture(captured.handle()) == !refused);
  }
  CHECK(nothing_violated());
}

TEST_CASE("A device is opened and closed while another thread captures, and the mode is kept") {
  const OnDouble on;
  const auto captured = on.stream();
  cuda_double::begin_capture(captured.handle());
  std::thread([] {
    {
      const auto second = must(device::Device::open(driver(), 1));
      const auto current = must(device::CurrentContext::enter(*second));
      const auto memory = must(device::DeviceMemory::create(*second, 8));
    }
    int mode = device::kCaptureModeRelaxed;
    CHECK(driver().thread_capture_mode(&mode) == device::kSuccess);
    CHECK(mode == device::kCaptureModeGlobal);
  }).join();
  CHECK(cuda_double::end_capture(captured.handle()));
}

TEST_CASE("The default stream is refused while a stream that waits for it is captured") {
  const OnDouble on;
  device::StreamHandle blocking = nullptr;
  REQUIRE(driver().stream_create(&blocking, 0, 0) == device::kSuccess);
  cuda_double::begin_capture(blocking);
  const Status refused = device::check_stream(*on.device, nullptr);
  CHECK(refused.code() == StatusCode::kUnsupported);
  CHECK(refused.message().find("waits for the default stream is being captured") !=
        std::string::npos);
  CHECK(cuda_double::end_capture(blocking));
  CHECK(device::check_stream(*on.device, nullptr).ok());
  CHECK(driver().stream_destroy(blocking) == device::kSuccess);
}

TEST_CASE("A stream of another context is refused with what to do") {
  const OnDouble on;
  const auto other = cuda_double::other_context(0);
  REQUIRE(driver().context_push(other) == device::kSuccess);
  device::StreamHandle stream = nullptr;
  REQUIRE(driver().stream_create(&stream, device::kStreamNonBlocking, 0) == device::kSuccess);
  device::ContextHandle popped = nullptr;
  REQUIRE(driver().context_pop(&popped) == device::kSuccess);
  CHECK(popped == other);
  const Status refused = device::check_stream(*on.device, stream);
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(refused.message().find("give a stream that was made while this device was current") !=
        std::string::npos);
  const auto event = on.event();
  CHECK(!event.record(stream).ok());
  CHECK(driver().stream_destroy(stream) == device::kSuccess);
}

TEST_CASE("A stream or an event that was destroyed is a violation to use") {
  const OnDouble on;
  const auto event = on.event();
  device::StreamHandle gone = nullptr;
  {
    const auto stream = on.stream();
    gone = stream.handle();
  }
  CHECK(!event.record(gone).ok());
  CHECK(violated({"a stream that does not exist is used"}));
  device::EventHandle no_event = nullptr;
  CHECK(driver().event_query(no_event) == device::kInvalidHandle);
  CHECK(violated({"an event that does not exist is used"}));
}

TEST_CASE("The last release of a primary context with objects in it is a violation") {
  cuda_double::reset();
  REQUIRE(driver().init(0) == device::kSuccess);
  device::ContextHandle context = nullptr;
  REQUIRE(driver().primary_context_retain(&context, 0) == device::kSuccess);
  REQUIRE(driver().context_push(context) == device::kSuccess);
  device::EventHandle event = nullptr;
  REQUIRE(driver().event_create(&event, 0) == device::kSuccess);
  static_cast<void>(driver().primary_context_release(0));
  CHECK(violated({"the primary context of device 0 is released for good while it has"}));
}

TEST_CASE("The environment configures the double and what it does not know is refused") {
  ::setenv("HORING_TEST_CUDA_MODE", "lazy", 1);
  ::setenv("HORING_TEST_CUDA_SEED", "12", 1);
  ::setenv("HORING_TEST_CUDA_CHANNELS", "8", 1);
  ::setenv("HORING_TEST_CUDA_IPC", "0", 1);
  const auto config = cuda_double::config_from_environment();
  REQUIRE(config.ok());
  CHECK(config->mode == cuda_double::Mode::kLazy);
  CHECK(config->seed == 12);
  CHECK(config->channels == 8);
  CHECK(!config->ipc);
  CHECK(config->peers);
  ::setenv("HORING_TEST_CUDA_SEED", "12x", 1);
  CHECK(cuda_double::config_from_environment().status().code() == StatusCode::kInvalidArgument);
  ::unsetenv("HORING_TEST_CUDA_SEED");
  ::setenv("HORING_TEST_CUDA_MODE", "slow", 1);
  CHECK(cuda_double::config_from_environment().status().code() == StatusCode::kInvalidArgument);
  for (const char* name : {"MODE", "CHANNELS", "IPC"}) {
    ::unsetenv((std::string("HORING_TEST_CUDA_") + name).c_str());
  }
}

}  // namespace ho::test
