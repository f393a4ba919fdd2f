// Memory that two processes share. The child is forked while the double has no thread.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "on_double.hpp"

namespace ho::test {
namespace {

using cuda_double::driver;
using device::DriverResult;

// Bytes between parent and child, in both directions.
struct Pipes {
  Pipes() {
    REQUIRE(::pipe(down.data()) == 0);
    REQUIRE(::pipe(up.data()) == 0);
  }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  ~Pipes() {
    for (const int end : {down[0], down[1], up[0], up[1]}) {
      ::close(end);
    }
  }
  template <typename T>
  static bool put(int end, const T& value) {
    return ::write(end, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
  }
  template <typename T>
  static bool take(int end, T& value) {
    return ::read(end, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
  }
  std::array<int, 2> down{};
  std::array<int, 2> up{};
};

constexpr size_t kBytes = 5000;

// What the child found at each step; 0 is as it should be.
int use_shared_memory(const Pipes& pipes) {
  cuda_double::reset();
  const auto device = device::Device::open(driver(), 1);
  const auto current = device::CurrentContext::enter(**device);
  device::IpcMemory shared{};
  device::DeviceAddress address = 0;
  if (!Pipes::take(pipes.down[0], shared) ||
      driver().ipc_open(&address, shared, device::kIpcLazyPeerAccess) != device::kSuccess) {
    return 1;
  }
  device::DeviceAddress again = 0;
  if (driver().ipc_open(&again, shared, device::kIpcLazyPeerAccess) != device::kSuccess ||
      again != address || driver().ipc_close(again) != device::kSuccess) {
    return 2;
  }
  if (cuda_double::device_bytes(address + kBytes - 1, 1)[0] != std::byte{77}) {
    return 3;
  }
  const std::vector<std::byte> answer(1, std::byte{78});
  cuda_double::set_device_bytes(address, answer);
  const auto facts = device::facts_of(**device, device::pointer_to(address + 5));
  if (!facts.ok() || facts->base != address || facts->bytes != kBytes) {
    return 4;
  }
  char turn = 'w';
  if (!Pipes::put(pipes.up[1], turn) || !Pipes::take(pipes.down[0], turn)) {
    return 5;
  }
  // The exporter has freed it by now.
  if (!cuda_double::violations().empty() || !cuda_double::device_bytes(address, 1).empty()) {
    return 6;
  }
  const auto violations = cuda_double::take_violations();
  if (violations.empty() || violations[0].find("its exporter has freed") == std::string::npos) {
    return 7;
  }
  if (driver().ipc_close(address) != device::kSuccess ||
      driver().ipc_close(address) == device::kSuccess ||
      cuda_double::take_violations().size() != 1) {
    return 8;
  }
  return driver().ipc_open(&again, shared, device::kIpcLazyPeerAccess) == device::kSuccess ? 9 : 0;
}

// A test program that the environment makes fail, and that then violates something.
void misbehave() {
  static_cast<void>(std::freopen("/dev/null", "w", stderr));
  ::setenv("HORING_TEST_CUDA_FAIL", "event_create:2:801", 1);
  ::setenv("HORING_TEST_CUDA_DROP_WAIT", "1", 1);
  if (!cuda_double::start_from_environment().ok()) {
    std::_Exit(1);
  }
  const auto device = device::Device::open(driver(), 0);
  const auto event = device::Event::create(**device);
  const auto second = device::Event::create(**device);
  const auto current = device::CurrentContext::enter(**device);
  const auto stream = device::Stream::create(**device);
  if (!event.ok() || second.status().code() != StatusCode::kUnsupported ||
      !event->record(stream->handle()).ok() || !stream->wait(*event).ok() ||
      cuda_double::dropped_waits() != 1 || !cuda_double::violations().empty()) {
    std::_Exit(2);
  }
  static_cast<void>(driver().memory_free(16));
  std::exit(0);
}

}  // namespace

TEST_CASE("A test program that violates something ends with a status of its own") {
  cuda_double::reset();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    misbehave();
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == cuda_double::kViolationExit);
}

TEST_CASE("Two processes share memory until its exporter frees it") {
  const Pipes pipes;
  cuda_double::reset();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(use_shared_memory(pipes));
  }
  {
    const OnDouble on;
    auto memory = on.memory(kBytes);
    cuda_double::set_device_bytes(memory.address() + kBytes - 1,
                                  std::vector<std::byte>(1, std::byte{77}));
    device::IpcMemory shared{};
    CHECK(driver().ipc_export(&shared, memory.address() + 8) == device::kInvalidValue);
    REQUIRE(driver().ipc_export(&shared, memory.address()) == device::kSuccess);
    device::DeviceAddress here = 0;
    CHECK(driver().ipc_open(&here, shared, device::kIpcLazyPeerAccess) == device::kInvalidContext);
    REQUIRE(Pipes::put(pipes.down[1], shared));
    char turn = 0;
    REQUIRE(Pipes::take(pipes.up[0], turn));
    CHECK(cuda_double::device_bytes(memory.address(), 1)[0] == std::byte{78});
    memory = device::DeviceMemory();
    REQUIRE(Pipes::put(pipes.down[1], turn));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(nothing_violated());
}

TEST_CASE("What is no export of the double cannot be opened") {
  const OnDouble on;
  device::DeviceAddress address = 0;
  const device::IpcMemory nothing{};
  CHECK(driver().ipc_open(&address, nothing, device::kIpcLazyPeerAccess) == device::kInvalidValue);
}

TEST_CASE("Without sharing between processes an export says so") {
  cuda_double::Config config;
  config.ipc = false;
  const OnDouble on(config);
  const auto memory = on.memory(8);
  device::IpcMemory shared{};
  CHECK(driver().ipc_export(&shared, memory.address()) == device::kNotSupported);
  unsigned capable = 1;
  REQUIRE(driver().pointer_attribute(
              &capable, device::kPointerIsLegacyIpcCapable, memory.address()) == device::kSuccess);
  CHECK((capable & 0xffU) == 0);
}

}  // namespace ho::test
