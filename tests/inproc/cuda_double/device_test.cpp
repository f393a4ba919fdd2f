// src/device's owners on the double.
#include <utility>

#include "on_double.hpp"

namespace ho::test {

using device::PointerFacts;

TEST_CASE("A device says who it is and lets go of its context") {
  {
    const OnDouble on({}, 1);
    CHECK(on.device->ordinal() == 1);
    CHECK(on.device->name() == "double 1");
    CHECK(on.device->pci_bus_id() == "0000:3b:00.0");
    CHECK(on.device->facts().uuid == "GPU-d0d0d0d0-d0d0-d0d0-d0d0-d0d0d0d0d001");
    CHECK(on.device->memory_bytes() == size_t{1} << 30U);
    CHECK(&on.device->driver() == &cuda_double::driver());
    CHECK(cuda_double::live().contexts == 1);
  }
  CHECK(cuda_double::live().none());
}

TEST_CASE("What belongs to a device keeps it and leaves nothing") {
  cuda_double::reset();
  {
    auto device = must(device::Device::open(cuda_double::driver(), 0));
    const auto stream = must(device::Stream::create(*device));
    const auto event = must(device::Event::create(*device));
    const auto memory = must(device::DeviceMemory::create(*device, 100));
    const auto pinned = must(device::PinnedMemory::create(*device, 100));
    device.reset();
    const auto live = cuda_double::live();
    CHECK(live.contexts == 1);
    CHECK(live.streams == 1);
    CHECK(live.events == 1);
    CHECK(live.device_memory == 1);
    CHECK(live.pinned_memory == 1);
  }
  CHECK(cuda_double::live().none());
  CHECK(nothing_violated());
}

TEST_CASE("What is left behind stays with whatever holds it by another of the context's devices") {
  cuda_double::reset();
  {
    const auto device = must(device::Device::open(cuda_double::driver(), 0));
    const auto same = must(device::Device::open(cuda_double::driver(), 0));
    const auto other = must(device::Device::open(cuda_double::driver(), 1));
    const auto memory = must(device::DeviceMemory::create(*same, 100));
    const auto stream = must(device::Stream::create(*same));
    const auto another = must(device::DeviceMemory::create(*other, 100));
    device->leave_behind(Status(StatusCode::kTimeout, "for this test"));
    CHECK(same->is_left_behind());
    CHECK_FALSE(other->is_left_behind());
  }
  CHECK(must(device::Device::open(cuda_double::driver(), 0))->is_left_behind());
  const auto live = cuda_double::live();
  CHECK(live.contexts == 3);  // what each of the three had retained
  CHECK(live.device_memory == 1);
  CHECK(live.streams == 1);
  cuda_double::reset();
}

TEST_CASE("Owners can be moved and what they held before is let go") {
  const OnDouble on;
  auto stream = on.stream();
  auto event = on.event();
  auto memory = on.memory(8);
  auto pinned = on.pinned(8);
  const auto address = memory.address();
  auto moved = std::move(memory);
  CHECK(moved.address() == address);
  CHECK(moved.size() == 8);
  stream = on.stream();
  event = on.event();
  moved = on.memory(16);
  pinned = on.pinned(16);
  const auto live = cuda_double::live();
  CHECK(live.streams == 1);
  CHECK(live.events == 1);
  CHECK(live.device_memory == 1);
  CHECK(live.pinned_memory == 1);
  CHECK(nothing_violated());
}

TEST_CASE("Memory of no bytes takes no call of the driver") {
  const OnDouble on;
  cuda_double::forget_counts();
  CHECK(on.memory(0).size() == 0);
  CHECK(on.pinned(0).bytes().empty());
  CHECK(cuda_double::all_calls() == 0);
}

TEST_CASE("A stream that ends waits for what it was given") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.idle_ms = 3'600'000;
  const OnDouble on(config);
  const auto pinned = on.pinned(8);
  const auto memory = on.memory(8);
  {
    const auto stream = on.stream();
    must(stream.copy(memory.pointer(), pinned.bytes().data(), 8));
    CHECK(cuda_double::live().pending == 1);
  }
  CHECK(cuda_double::live().pending == 0);
  CHECK(nothing_violated());
}

TEST_CASE("The context of the thread is what it was before another one was entered") {
  const OnDouble on({}, 0);
  const auto other = must(device::Device::open(cuda_double::driver(), 1));
  const auto here = must(device::Stream::create(*on.device));
  {
    const auto current = must(device::CurrentContext::enter(*other));
    const auto there = must(device::Stream::create(*other));
    CHECK(device::check_stream(*other, there.handle()).ok());
    CHECK(device::check_stream(*on.device, there.handle()).code() == StatusCode::kInvalidArgument);
  }
  CHECK(device::check_stream(*on.device, here.handle()).ok());
  const auto event = on.event();
  CHECK(event.record(here.handle()).ok());  // in on.device's context again
  finish(on, here);
}

TEST_CASE("The driver's facts tell four kinds of memory apart") {
  const OnDouble on({}, 1);
  const auto memory = on.memory(1000);
  const auto pinned = on.pinned(1000);
  int ordinary = 0;
  CHECK(must(device::facts_of(*on.device, &ordinary)).kind == PointerFacts::Kind::kPageable);
  const auto of_pinned = must(device::facts_of(*on.device, pinned.bytes().data() + 7));
  CHECK(of_pinned.kind == PointerFacts::Kind::kPinned);
  const auto of_device =
      must(device::facts_of(*on.device, device::pointer_to(memory.address() + 10)));
  CHECK(of_device.kind == PointerFacts::Kind::kDevice);
  CHECK(of_device.ordinal == 1);
  CHECK(of_device.base == memory.address());
  CHECK(of_device.bytes == 1000);
  CHECK_FALSE(of_device.mapped);
  const auto managed = cuda_double::allocate_managed(64);
  CHECK(must(device::facts_of(*on.device, device::pointer_to(managed))).kind ==
        PointerFacts::Kind::kManaged);
  CHECK(cuda_double::driver().memory_free(managed) == device::kSuccess);
  CHECK(must(device::facts_of(*on.device, device::pointer_to(managed))).kind ==
        PointerFacts::Kind::kPageable);
  CHECK(nothing_violated());
}

}  // namespace ho::test
