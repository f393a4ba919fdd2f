#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "on_double.hpp"

namespace ho::test {
namespace {

using device::address_of;
using device::DeviceMemory;
using device::pointer_to;

// Whether this process may read the byte; asks the kernel, which answers with an error.
bool is_readable(const void* address) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const bool readable = ::write(ends[1], address, 1) == 1;
  const bool refused = !readable && errno == EFAULT;
  ::close(ends[0]);
  ::close(ends[1]);
  REQUIRE(readable != refused);
  return readable;
}

void fill(std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + 3);
  }
}

}  // namespace

TEST_CASE("The host cannot touch device memory before or after it is freed") {
  const OnDouble on;
  DeviceMemory memory = on.memory(10000);
  const void* const address = memory.pointer();
  CHECK(!is_readable(address));
  CHECK(!is_readable(static_cast<const char*>(address) + 9999));
  memory = DeviceMemory();
  CHECK(!is_readable(address));
  CHECK(nothing_violated());
}

TEST_CASE("Pinned memory is zeroed, the host's while it lives and nobody's afterwards") {
  const OnDouble on;
  auto pinned = on.pinned(5000);
  const void* const address = pinned.bytes().data();
  CHECK(is_readable(address));
  for (const std::byte byte : pinned.bytes()) {
    REQUIRE(byte == std::byte{0});
  }
  pinned = device::PinnedMemory();
  CHECK(!is_readable(address));
  CHECK(nothing_violated());
}

TEST_CASE("Bytes come back from the device as they went there in every mode") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const OnDouble on(config);
    const auto stream = on.stream();
    const auto from = on.pinned(3000);
    const auto to = on.pinned(3000);
    const auto memory = on.memory(3000);
    fill(from.bytes());
    must(stream.copy(memory.pointer(), from.bytes().data(), 3000));
    must(stream.copy(to.bytes().data(), memory.pointer(), 3000));
    finish(on, stream);
    CHECK(std::ranges::equal(to.bytes(), from.bytes()));
    CHECK(nothing_violated());
  }
}

TEST_CASE("A copy of memory that was freed names the call that freed it") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto pinned = on.pinned(64);
  void* freed = nullptr;
  {
    const auto memory = on.memory(64);
    freed = memory.pointer();
  }
  const Status status = stream.copy(freed, pinned.bytes().data(), 64);
  CHECK(!status.ok());
  CHECK(violated({"copy_async of 64 bytes", "touches memory that call", "freed"}));
}

TEST_CASE("A copy beyond the end of an allocation is refused") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto pinned = on.pinned(128);
  const auto memory = on.memory(100);
  CHECK(!stream.copy(memory.pointer(), pinned.bytes().data(), 101).ok());
  CHECK(violated({"touches bytes 0 to 101 of memory of 100 bytes"}));
  CHECK(stream.copy(memory.pointer(), pinned.bytes().data(), 100).ok());
}

TEST_CASE("After a violation every call fails and says what it was") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto pinned = on.pinned(128);
  const auto memory = on.memory(100);
  CHECK(!stream.copy(memory.pointer(), pinned.bytes().data(), 101).ok());
  const Status later = stream.copy(memory.pointer(), pinned.bytes().data(), 100);
  CHECK(later.message().find("the CUDA double saw: copy_async of 101 bytes") != std::string::npos);
  CHECK(!device::Event::create(*on.device).ok());
  CHECK(cuda_double::take_violations().size() == 1);
}

TEST_CASE("A copy of pageable memory is a violation unless it is permitted") {
  std::vector<std::byte> ordinary(32, std::byte{5});
  {
    const OnDouble on;
    const auto stream = on.stream();
    const auto memory = on.memory(32);
    CHECK(!stream.copy(memory.pointer(), ordinary.data(), 32).ok());
    CHECK(violated({"copy_async of 32 bytes from ordinary memory", "touches pageable memory"}));
  }
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.allow_pageable = true;
  const OnDouble on(config);
  const auto stream = on.stream();
  const auto memory = on.memory(32);
  must(stream.copy(memory.pointer(), ordinary.data(), 32));
  std::ranges::fill(ordinary, std::byte{9});  // staged: it may be used again at once
  must(stream.copy(ordinary.data(), memory.pointer(), 32));
  CHECK(std::ranges::all_of(ordinary, [](std::byte byte) { return byte == std::byte{5}; }));
  CHECK(nothing_violated());
}

TEST_CASE("Memory that is freed twice or was never allocated is a violation") {
  const OnDouble on;
  const auto& driver = cuda_double::driver();
  device::DeviceAddress address = 0;
  REQUIRE(driver.memory_allocate(&address, 16) == device::kSuccess);
  CHECK(driver.memory_free(address + 8) != device::kSuccess);
  CHECK(violated({"memory_free of an address that it did not allocate"}));
  CHECK(driver.memory_free(address) == device::kSuccess);
  CHECK(driver.memory_free(address) != device::kSuccess);
  CHECK(violated({"memory_free of memory that call", "has freed"}));
  int local = 0;
  CHECK(driver.host_free(&local) != device::kSuccess);
  CHECK(violated({"host_free of an address that it did not allocate"}));
}

TEST_CASE("A device has no more memory than it says") {
  cuda_double::Config config;
  config.memory_bytes = 1 << 20;
  const OnDouble on(config);
  const auto first = on.memory(1 << 19);
  const auto second = device::DeviceMemory::create(*on.device, (1 << 19) + 1);
  CHECK(second.status().code() == StatusCode::kOutOfMemory);
  CHECK(second.status().message().find("device 0: cuMemAlloc of 524289 bytes: ") == 0);
  CHECK(device::DeviceMemory::create(*on.device, 1 << 19).ok());
}

TEST_CASE("A test reads and writes what is in device memory") {
  const OnDouble on;
  const auto memory = on.memory(8);
  const std::vector<std::byte> bytes(4, std::byte{17});
  cuda_double::set_device_bytes(memory.address() + 2, bytes);
  CHECK(cuda_double::device_bytes(memory.address() + 2, 4) == bytes);
  CHECK(nothing_violated());
}

}  // namespace ho::test
