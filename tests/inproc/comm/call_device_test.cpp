// Which buffers a communicator takes as device memory, on the double of the CUDA driver.
#include "comm/call_device.hpp"

#include <memory>
#include <vector>

#include "catch.hpp"
#include "cuda_double/cuda_double.hpp"
#include "must_have.hpp"
#include "silent_link.hpp"

namespace ho::test {
namespace {

std::shared_ptr<device::Device> device_of(int ordinal) {
  CommunicatorConfig config;
  config.device = ordinal;
  return must_have(open_device(config));
}

// A rank alone on its host, with device 0.
struct Prepared {
  Prepared() : shm(alone()), device((cuda_double::reset(), device_of(0))) {
    CommunicatorSettings settings;
    settings.device_adds_pinned = true;
    must_be_ok(device.prepare(settings, GlobalRank(0), *shm));
  }
  static std::unique_ptr<ShmTransport> alone() {
    ShmOptions options;
    options.members = {GlobalRank(0)};
    return must_have(ShmTransport::create(
        options,
        [](std::span<const std::byte>) {
          return Result<std::vector<std::vector<std::byte>>>(
              Status(StatusCode::kInternal, "nobody to exchange with"));
        },
        Deadline::max()));
  }
  std::unique_ptr<ShmTransport> shm;
  CallDevice device;
};

device::DeviceMemory device_memory(const device::Device& device, size_t bytes) {
  const auto current = must_have(device::CurrentContext::enter(device));
  return must_have(device::DeviceMemory::create(device, bytes));
}

}  // namespace

TEST_CASE("a communicator without a device wraps no link and registers no memory") {
  CallDevice none(must_have(open_device({})));
  CHECK_FALSE(none.exists());
  CHECK_FALSE(none.ordinal().has_value());
  CHECK(none.work() == nullptr);
  CHECK(none.check_not_captured(nullptr).ok());
  std::byte memory{};
  CHECK(none.register_memory(&memory, 1).code() == StatusCode::kUnsupported);
  CHECK(none.deregister_memory(&memory).code() == StatusCode::kUnsupported);
  SilentLink link;
  CHECK(must_have(none.staged(GlobalRank(1), &link)) == &link);
}

TEST_CASE("each link is wrapped once, and one that could not be made stays an error") {
  Prepared on;
  SilentLink link;
  Link* const around = must_have(on.device.staged(GlobalRank(1), &link));
  CHECK(around != &link);
  CHECK(must_have(on.device.staged(GlobalRank(1), &link)) == around);
  const Status none(StatusCode::kConnection, "no link");
  CHECK(on.device.staged(GlobalRank(1), none).status().message() == "no link");
}

TEST_CASE(
    "device memory of this rank is found, another device's and what is too short are refused") {
  Prepared on;
  const auto mine = device_memory(*on.device.get(), 64);
  const auto other = device_of(1);
  const auto far = device_memory(*other, 64);
  std::byte host{};
  CHECK(must_have(on.device.is_device_memory("x: send", mine.pointer(), 64)));
  CHECK_FALSE(must_have(on.device.is_device_memory("x: send", &host, 1)));
  const Status elsewhere = on.device.is_device_memory("x: send", far.pointer(), 64).status();
  CHECK(elsewhere.code() == StatusCode::kInvalidArgument);
  CHECK(elsewhere.message().starts_with("x: send is memory of device 1"));
  const Status beyond = on.device.is_device_memory("x: send", mine.pointer(), 65).status();
  CHECK(beyond.message() ==
        "x: send has 64 bytes up to the end of its allocation, the call needs 65");
}

TEST_CASE(
    "a host buffer beside device memory must be pinned, and host buffers alone need nothing") {
  Prepared on;
  const auto mine = device_memory(*on.device.get(), 64);
  std::vector<std::byte> host(64);
  CollectiveCall call;
  call.collective = Collective::kAllReduce;
  call.send = mine.pointer();
  call.recv = host.data();
  const BufferUse use{64, 64};
  const Status pageable = on.device.buffers_of(call, use).status();
  CHECK(pageable.code() == StatusCode::kInvalidArgument);
  CHECK(pageable.message().starts_with("all_reduce: recv is ordinary host memory"));

  must_be_ok(on.device.register_memory(host.data(), host.size()));
  const DeviceBuffers mixed = must_have(on.device.buffers_of(call, use));
  CHECK(mixed.work == on.device.work());
  CHECK(mixed.input);
  CHECK_FALSE(mixed.output);
  CHECK(mixed.mixed);
  CHECK(mixed.adds_pinned);
  must_be_ok(on.device.deregister_memory(host.data()));

  call.send = host.data();
  CHECK(must_have(on.device.buffers_of(call, use)).work == nullptr);
}

}  // namespace ho::test
