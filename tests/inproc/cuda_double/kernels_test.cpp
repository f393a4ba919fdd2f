#include <cstring>

#include "on_double.hpp"

namespace ho::test {
namespace {

using cuda_double::driver;

struct AddArguments {
  unsigned* out;
  const unsigned* in;
  int count;
};

// out[i] += in[i] * scale
void register_add() {
  cuda_double::register_kernel(
      "test_add",
      {sizeof(AddArguments), sizeof(unsigned)},
      [](void** arguments, const cuda_double::Translate& translate) {
        const auto& all = *static_cast<const AddArguments*>(arguments[0]);
        const unsigned scale = *static_cast<const unsigned*>(arguments[1]);
        auto* const out = static_cast<unsigned*>(translate(all.out));
        const auto* const in = static_cast<const unsigned*>(translate(all.in));
        for (int i = 0; i < all.count; ++i) {
          out[i] += in[i] * scale;
        }
      },
      [](void** arguments) -> std::vector<cuda_double::TouchedRange> {
        const auto& all = *static_cast<const AddArguments*>(arguments[0]);
        const size_t bytes = static_cast<size_t>(all.count) * sizeof(unsigned);
        return {{all.out, bytes, false}, {all.out, bytes, true}, {all.in, bytes, false}};
      });
}

struct Loaded {
  explicit Loaded(const cuda_double::Config& config, int ordinal = 0) : on(config, ordinal) {
    register_add();
    REQUIRE(driver().module_load(&module, driver().kernels.data()) == device::kSuccess);
    REQUIRE(driver().module_function(&function, module, "test_add") == device::kSuccess);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { static_cast<void>(driver().module_unload(module)); }

  [[nodiscard]] device::DriverResult add(const device::Stream& stream,
                                         void* out,
                                         const void* in,
                                         int count,
                                         unsigned blocks = 1,
                                         unsigned threads = 32) const {
    AddArguments all{static_cast<unsigned*>(out), static_cast<const unsigned*>(in), count};
    unsigned scale = 2;
    void* arguments[] = {&all, &scale};
    const auto result = driver().launch(
        function, blocks, 1, 1, threads, 1, 1, 0, stream.handle(), arguments, nullptr);
    all = {};  // copied by now
    scale = 0;
    return result;
  }

  OnDouble on;
  device::ModuleHandle module = nullptr;
  device::FunctionHandle function = nullptr;
};

}  // namespace

TEST_CASE(
    "A kernel adds pinned memory to device memory with arguments as they were at the launch") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const Loaded t(config);
    const auto stream = t.on.stream();
    const auto pinned = t.on.pinned(8);
    const auto memory = t.on.memory(8);
    const int values[] = {20, 40};
    std::memcpy(pinned.bytes().data(), values, 8);
    must(stream.copy(memory.pointer(), pinned.bytes().data(), 8));
    CHECK(t.add(stream, memory.pointer(), pinned.bytes().data(), 2) == device::kSuccess);
    finish(t.on, stream);
    const auto bytes = cuda_double::device_bytes(memory.address(), 8);
    int sums[2] = {};
    std::memcpy(sums, bytes.data(), 8);
    CHECK(sums[0] == 60);
    CHECK(sums[1] == 120);
    CHECK(nothing_violated());
  }
}

TEST_CASE("A kernel that is not ordered after a copy is a violation") {
  const Loaded t({});
  const auto copying = t.on.stream();
  const auto adding = t.on.stream();
  const auto pinned = t.on.pinned(8);
  const auto memory = t.on.memory(8);
  must(copying.copy(memory.pointer(), pinned.bytes().data(), 8));
  CHECK(t.add(adding, memory.pointer(), pinned.bytes().data(), 2) != device::kSuccess);
  CHECK(
      violated({"launch of test_add (operation 2", "is not ordered after copy_async of 8 bytes"}));
  finish(t.on, copying);
}

TEST_CASE("Of what a launch does at once, nothing touches what another part writes") {
  for (const bool apart : {true, false}) {
    const Loaded t({});
    const auto stream = t.on.stream();
    const auto memory = t.on.memory(64);
    auto* const begin = static_cast<std::byte*>(memory.pointer());
    cuda_double::register_kernel(
        "test_add",
        {sizeof(AddArguments), sizeof(unsigned)},
        [](void**, const cuda_double::Translate&) {},
        [=](void**) -> std::vector<cuda_double::TouchedRange> {
          return {{begin, 16, true, 0},
                  {begin, 16, false, 0},
                  {begin + (apart ? 16 : 15), 16, false, 1},
                  {begin + 16, 16, false, 2}};
        });
    const auto result = t.add(stream, memory.pointer(), memory.pointer(), 0);
    CHECK((result == device::kSuccess) == apart);
    if (apart) {
      CHECK(nothing_violated());
    } else {
      CHECK(violated({"launch of test_add", "what range 0 writes, range 1 touches"}));
    }
  }
}

TEST_CASE("A kernel must not touch pageable memory or more than an allocation") {
  const Loaded t({});
  const auto stream = t.on.stream();
  const auto memory = t.on.memory(8);
  int ordinary[2] = {};
  CHECK(t.add(stream, memory.pointer(), ordinary, 2) != device::kSuccess);
  CHECK(violated({"launch of test_add", "touches pageable memory"}));
  const auto pinned = t.on.pinned(64);
  CHECK(t.add(stream, memory.pointer(), pinned.bytes().data(), 3) != device::kSuccess);
  CHECK(violated({"touches bytes 0 to 12 of memory of 8 bytes"}));
}

TEST_CASE("A kernel reaches another device's memory once that was made accessible") {
  const Loaded t({}, 1);
  const auto other = must(device::Device::open(driver(), 0));
  const auto far = must(device::DeviceMemory::create(*other, 8));
  const auto near = t.on.memory(8);
  const auto stream = t.on.stream();
  CHECK(t.add(stream, near.pointer(), far.pointer(), 2) != device::kSuccess);
  CHECK(violated({"touches memory of device 0, which was not made accessible"}));
  must(stream.copy(near.pointer(), far.pointer(), 8));  // copies need nothing
  REQUIRE(driver().context_enable_peer(other->context(), 0) == device::kSuccess);
  CHECK(driver().context_enable_peer(other->context(), 0) == device::kPeerAccessAlreadyEnabled);
  CHECK(t.add(stream, near.pointer(), far.pointer(), 2) == device::kSuccess);
  finish(t.on, stream);
  CHECK(nothing_violated());
}

TEST_CASE("A launch of a shape that no device has is refused") {
  const Loaded t({});
  const auto stream = t.on.stream();
  const auto memory = t.on.memory(8);
  CHECK(t.add(stream, memory.pointer(), memory.pointer(), 0, 0) == device::kInvalidValue);
  CHECK(t.add(stream, memory.pointer(), memory.pointer(), 0, 1, 1025) == device::kInvalidValue);
  CHECK(t.add(stream, memory.pointer(), memory.pointer(), 0) == device::kSuccess);
  finish(t.on, stream);
}

TEST_CASE("Only the double's own image has kernels and only those registered") {
  const Loaded t({});
  device::ModuleHandle module = nullptr;
  const char image[] =
      "\x7f"
      "ELF is no image of the double";
  CHECK(driver().module_load(&module, image) == device::kInvalidImage);
  device::FunctionHandle function = nullptr;
  CHECK(driver().module_function(&function, t.module, "no_such_kernel") == device::kNotFound);
}

}  // namespace ho::test
