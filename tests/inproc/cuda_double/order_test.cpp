// What is not ordered is found out, in each mode, whatever order the work really runs in.
#include "on_double.hpp"

namespace ho::test {
namespace {

using cuda_double::host_reads;
using cuda_double::host_writes;

struct TwoStreams {
  explicit TwoStreams(const cuda_double::Config& config) : on(config) {}
  OnDouble on;
  device::Stream first = on.stream();
  device::Stream second = on.stream();
  device::Event event = on.event();
  device::PinnedMemory pinned = on.pinned(256);
  device::DeviceMemory memory = on.memory(256);

  [[nodiscard]] std::byte* host(size_t offset = 0) const { return pinned.bytes().data() + offset; }
  [[nodiscard]] void* at(size_t offset = 0) const {
    return device::pointer_to(memory.address() + offset);
  }
  void end() const {
    finish(on, first);
    finish(on, second);
  }
};

}  // namespace

TEST_CASE("A read on another stream without an event is a violation that names both") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const TwoStreams t(config);
    must(t.first.copy(t.at(), t.host(), 64));
    CHECK(!t.second.copy(t.host(128), t.at(60), 64).ok());
    CHECK(violated(
        {"copy_async of 64 bytes from device memory+60 to pinned memory+128 (operation 2, stream 2",
         "is not ordered after copy_async of 64 bytes",
         "(operation 1, stream 1",
         "which writes it"}));
    t.end();
  }
}

TEST_CASE("An event between two streams orders what they do") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const TwoStreams t(config);
    must(t.first.copy(t.at(), t.host(), 64));
    must(t.event.record(t.first.handle()));
    must(t.second.wait(t.event));
    must(t.second.copy(t.host(128), t.at(), 64));
    t.end();
    CHECK(nothing_violated());
  }
}

TEST_CASE("A wait that is dropped is noticed by number and by place") {
  const auto use = [](const TwoStreams& t) {
    must(t.first.copy(t.at(), t.host(), 64));
    must(t.event.record(t.first.handle()));
    must(t.second.wait(t.event));
    return t.second.copy(t.host(128), t.at(), 64);
  };
  // From one place, so that the site is the same: as it is, by number, by site, by another site.
  uint64_t site = 0;
  for (const char* how : {"kept", "by number", "by site", "another site"}) {
    INFO(how);
    const TwoStreams t({});
    const std::string which = how;
    const bool dropped = which == "by number" || which == "by site";
    if (which == "by number") {
      cuda_double::drop_wait(1);
    } else if (which != "kept") {
      cuda_double::drop_waits_of(which == "by site" ? site : site + 1);
    }
    CHECK(use(t).ok() == !dropped);
    CHECK(cuda_double::dropped_waits() == (dropped ? 1 : 0));
    const auto sites = cuda_double::wait_sites();
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].waits == 1);
    CHECK(!sites[0].text.empty());
    site = sites[0].id;
    if (dropped) {
      CHECK(violated({"is not ordered after"}));
    }
    CHECK(nothing_violated());
    t.end();
  }
}

TEST_CASE("Two reads and ranges that only touch need no order") {
  const TwoStreams t({});
  must(t.first.copy(t.at(0), t.host(0), 32));
  must(t.second.copy(t.at(32), t.host(0), 32));
  must(t.second.copy(t.at(64), t.host(0), 32));
  t.end();
  CHECK(nothing_violated());
}

TEST_CASE("A write after an unordered read is a violation") {
  const TwoStreams t({});
  must(t.first.copy(t.host(), t.at(), 64));
  CHECK(!t.second.copy(t.at(), t.host(128), 64).ok());
  CHECK(violated({"which writes, is not ordered after", "which reads it"}));
  t.end();
}

TEST_CASE("A write over part of an older one keeps the rest in memory") {
  const TwoStreams t({});
  must(t.first.copy(t.at(), t.host(), 96));
  must(t.first.copy(t.at(32), t.host(128), 32));
  CHECK(!t.second.copy(t.host(200), t.at(70), 8).ok());
  CHECK(violated({"is not ordered after copy_async of 96 bytes"}));
  CHECK(!t.second.copy(t.host(200), t.at(40), 8).ok());
  CHECK(violated({"is not ordered after copy_async of 32 bytes"}));
  t.end();
}

TEST_CASE("A wait stands for what was recorded before it and not for later records") {
  const TwoStreams t({});
  must(t.event.record(t.first.handle()));
  must(t.second.wait(t.event));
  must(t.first.copy(t.at(), t.host(), 64));
  must(t.event.record(t.first.handle()));
  CHECK(!t.second.copy(t.host(128), t.at(), 64).ok());
  CHECK(violated({"is not ordered after"}));
  must(t.second.wait(t.event));
  must(t.second.copy(t.host(128), t.at(), 64));
  t.end();
}

TEST_CASE("The host reads what a copy wrote only after the event has passed") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const TwoStreams t(config);
    must(t.first.copy(t.host(), t.at(), 64));
    must(t.event.record(t.first.handle()));
    host_reads(t.host(), 64);
    CHECK(violated({"a read by the host", "is not ordered after copy_async of 64 bytes"}));
    wait_until_passed(t.event);
    host_reads(t.host(), 64);
    CHECK(nothing_violated());
  }
}

TEST_CASE("A source in pinned memory must not be written before its copy is done") {
  const TwoStreams t({});
  host_writes(t.host(), 64);
  must(t.first.copy(t.at(), t.host(), 64));
  host_writes(t.host(63), 8);
  CHECK(violated({"a write by the host", "which reads it"}));
  t.end();
  host_writes(t.host(), 64);
  CHECK(nothing_violated());
}

TEST_CASE("Hosts know of each other by messages alone") {
  const TwoStreams t({});
  cuda_double::use_host(1);
  host_writes(t.host(), 64);
  const cuda_double::Clock sent = cuda_double::take_clock();
  std::thread([&] {
    cuda_double::use_host(2);
    host_reads(t.host(), 64);
  }).join();
  CHECK(violated({"a read by the host", "is not ordered after a write by the host"}));
  std::thread([&] {
    cuda_double::use_host(2);
    cuda_double::join_clock(*cuda_double::Clock::unpacked(sent.packed()));
    host_reads(t.host(), 64);
  }).join();
  CHECK(nothing_violated());
  // The message told of nothing that came after it.
  host_writes(t.host(), 64);
  CHECK(violated({"a write by the host", "is not ordered after a read by the host"}));
}

TEST_CASE("Bytes that are no clock are told from one") {
  CHECK(cuda_double::Clock::unpacked({}).has_value());
  CHECK(!cuda_double::Clock::unpacked(std::vector<std::byte>(15)).has_value());
}

TEST_CASE("Threads of one device share what they know") {
  const TwoStreams t({});
  must(t.first.copy(t.host(), t.at(), 64));
  must(t.event.record(t.first.handle()));
  std::thread([&] {
    const auto current = must(device::CurrentContext::enter(*t.on.device));
    wait_until_passed(t.event);
  }).join();
  host_reads(t.host(), 64);
  CHECK(nothing_violated());
}

TEST_CASE("The default stream waits for streams that were not made apart from it") {
  const TwoStreams t({});
  const auto& driver = cuda_double::driver();
  device::StreamHandle blocking = nullptr;
  REQUIRE(driver.stream_create(&blocking, 0, 0) == device::kSuccess);
  const auto from = device::address_of(t.host());
  REQUIRE(driver.copy_async(t.memory.address(), from, 64, blocking) == device::kSuccess);
  CHECK(driver.copy_async(t.memory.address(), from, 64, nullptr) == device::kSuccess);
  CHECK(driver.copy_async(t.memory.address(), from, 64, blocking) == device::kSuccess);
  CHECK(nothing_violated());
  CHECK(!t.first.copy(t.at(), t.host(128), 64).ok());
  CHECK(violated({"is not ordered after"}));
  CHECK(driver.stream_synchronize(blocking) == device::kSuccess);
  CHECK(driver.stream_destroy(blocking) == device::kSuccess);
  CHECK(driver.stream_synchronize(nullptr) == device::kSuccess);
}

TEST_CASE("Memory is not freed before its last use is known to be over") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  const OnDouble on(config);
  const auto stream = on.stream();
  const auto pinned = on.pinned(64);
  device::DeviceAddress address = 0;
  REQUIRE(cuda_double::driver().memory_allocate(&address, 64) == device::kSuccess);
  must(stream.copy(device::pointer_to(address), pinned.bytes().data(), 64));
  CHECK(cuda_double::driver().memory_free(address) != device::kSuccess);
  CHECK(violated(
      {"memory_free of memory without knowing that this is over: copy_async of 64 bytes"}));
  finish(on, stream);
}

}  // namespace ho::test
