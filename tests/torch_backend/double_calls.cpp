// What cuda_tensors.py needs of the CUDA double: memory, streams, events, and kernels that are
// functions of Python. Every failure ends the process, with its text.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_double.hpp"
#include "device/address.hpp"
#include "device/device.hpp"

using namespace ho;
using namespace ho::device;

namespace {

constexpr size_t kMaxRanges = 64;

struct RangeOfTensor {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  int32_t writes = 0;
};

// Gets the ranges' places in the order in which they were given.
using PythonKernel = void (*)(uint64_t id, void** indices);

struct LaunchArguments {
  PythonKernel kernel = nullptr;
  uint64_t id = 0;
  size_t count = 0;
  std::array<RangeOfTensor, kMaxRanges> ranges;
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "double_calls: %s\n", text.c_str());
  std::_Exit(2);
}

void must(const Status& status) {
  if (!status.ok()) {
    fail(status.message());
  }
}

template <class Value>
Value must(Result<Value> result) {
  must(result.status());
  return *std::move(result);
}

const LaunchArguments& arguments_of(void** arguments) {
  return *static_cast<const LaunchArguments*>(arguments[0]);
}

void run(void** arguments, const cuda_double::Translate& translate) {
  const LaunchArguments& launch = arguments_of(arguments);
  std::array<void*, kMaxRanges> indices{};
  for (size_t i = 0; i < launch.count; ++i) {
    indices.at(i) = translate(pointer_to(launch.ranges.at(i).begin));
  }
  launch.kernel(launch.id, indices.data());
}

std::vector<cuda_double::TouchedRange> touched(void** arguments) {
  const LaunchArguments& launch = arguments_of(arguments);
  std::vector<cuda_double::TouchedRange> ranges;
  for (size_t i = 0; i < launch.count; ++i) {
    const RangeOfTensor& range = launch.ranges.at(i);
    ranges.push_back({pointer_to(range.begin), range.bytes, range.writes != 0});
  }
  return ranges;
}

// One per device, to the end of the process.
struct Opened {
  std::shared_ptr<Device> device;
  FunctionHandle kernel = nullptr;
};

Opened& opened(int ordinal) {
  static std::mutex mutex;
  static std::map<int, Opened> all;
  const std::lock_guard lock(mutex);
  Opened& one = all[ordinal];
  if (one.device == nullptr) {
    const Driver& table = *must(driver());
    cuda_double::register_kernel("of_python", {sizeof(LaunchArguments)}, run, touched);
    one.device = must(Device::open(table, ordinal));
    const auto current = must(CurrentContext::enter(*one.device));
    ModuleHandle module = nullptr;
    must(one.device->check("cuModuleLoadData", table.module_load(&module, table.kernels.data())));
    must(one.device->check("cuModuleGetFunction",
                           table.module_function(&one.kernel, module, "of_python")));
  }
  return one;
}

// To the end of the process.
template <class Owner>
void* kept(Owner owner) {
  return std::make_unique<Owner>(std::move(owner)).release();
}

const Event& event_of(void* event) {
  return *static_cast<const Event*>(event);
}

}  // namespace

extern "C" {

#define DOUBLE_CALL __attribute__((visibility("default")))

DOUBLE_CALL uint64_t double_allocate(int device, uint64_t bytes) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  DeviceAddress address = 0;
  must(opened(device).device->check(
      "cuMemAlloc", opened(device).device->driver().memory_allocate(&address, bytes)));
  return address;
}

DOUBLE_CALL void* double_make_stream(int device) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  StreamHandle stream = nullptr;
  must(opened(device).device->check(
      "cuStreamCreate",
      opened(device).device->driver().stream_create(&stream, kStreamNonBlocking, 0)));
  return stream;
}

DOUBLE_CALL void double_synchronize(int device, void* stream) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  must(opened(device).device->check(
      "cuStreamSynchronize",
      opened(device).device->driver().stream_synchronize(static_cast<StreamHandle>(stream))));
}

DOUBLE_CALL void* double_make_event(int device) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  return kept(must(Event::create(*opened(device).device)));
}

DOUBLE_CALL void double_record(int device, void* event, void* stream) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  must(event_of(event).record(static_cast<StreamHandle>(stream)));
}

DOUBLE_CALL int double_passed(int device, void* event) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  return must(event_of(event).passed()) ? 1 : 0;
}

DOUBLE_CALL void double_wait(int device, void* stream, void* event) {
  const auto current = must(CurrentContext::enter(*opened(device).device));
  must(opened(device).device->check(
      "cuStreamWaitEvent",
      opened(device).device->driver().stream_wait_event(
          static_cast<StreamHandle>(stream), event_of(event).handle(), 0)));
}

DOUBLE_CALL void double_launch(int device,
                               void* stream,
                               PythonKernel kernel,
                               uint64_t id,
                               const RangeOfTensor* ranges,
                               uint64_t count) {
  LaunchArguments launch;
  if (count > launch.ranges.size()) {
    fail("a kernel of Python with more than " + std::to_string(kMaxRanges) + " ranges");
  }
  launch.kernel = kernel;
  launch.id = id;
  launch.count = count;
  std::memcpy(launch.ranges.data(), ranges, count * sizeof(RangeOfTensor));
  Opened& on = opened(device);
  const auto current = must(CurrentContext::enter(*on.device));
  std::array<void*, 1> arguments{&launch};
  must(on.device->check("cuLaunchKernel",
                        on.device->driver().launch(on.kernel,
                                                   1,
                                                   1,
                                                   1,
                                                   1,
                                                   1,
                                                   1,
                                                   0,
                                                   static_cast<StreamHandle>(stream),
                                                   arguments.data(),
                                                   nullptr)));
}

// The first violation, or nothing. Valid until the next call.
DOUBLE_CALL const char* double_violation() {
  static std::string text;
  const auto all = cuda_double::violations();
  text = all.empty() ? "" : all.front();
  return text.c_str();
}

}  // extern "C"
