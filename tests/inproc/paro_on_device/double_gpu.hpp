// What examples/gpu has of CUDA, on the double of the driver: its kernels run as functions of the
// host, and what each of them reads and writes is what its parameters say.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cuda_double.hpp"
#include "device/device.hpp"
#include "kernels.hpp"
#include "must_have.hpp"

namespace ho::test {

using cuda_double::TouchedRange;
using cuda_double::Translate;

// A parameter with the addresses of the host; and what of it is touched.
template <class T>
T on_host(T value, const Translate& /*translate*/) {
  return value;
}
template <class T>
example::Input<T> on_host(example::Input<T> input, const Translate& translate) {
  return {static_cast<const T*>(translate(input.data)), input.count};
}
template <class T>
example::Array<T> on_host(example::Array<T> array, const Translate& translate) {
  return {static_cast<T*>(translate(array.data)), array.count};
}
template <class T>
void add_range(const T& /*value*/, std::vector<TouchedRange>& /*ranges*/) {}
template <class T>
void add_range(const example::Input<T>& input, std::vector<TouchedRange>& ranges) {
  ranges.push_back({input.data, input.count * sizeof(T), false});
}
template <class T>
void add_range(const example::Array<T>& array, std::vector<TouchedRange>& ranges) {
  ranges.push_back({array.data, array.count * sizeof(T), true});
}

// A function of the example's as a kernel of the double.
template <auto kFunction>
struct DoubleKernel;
template <class... Parameters, void (*kFunction)(uint32_t, Parameters...)>
struct DoubleKernel<kFunction> {
  static std::string name() {
    static const bool kKnown =
        (cuda_double::register_kernel(
             typeid(DoubleKernel).name(), {sizeof(uint32_t), sizeof(Parameters)...}, &run, &ranges),
         true);
    static_cast<void>(kKnown);
    return typeid(DoubleKernel).name();
  }
  template <class Use>
  static void with_parameters(void** arguments, const Use& use) {
    [&]<size_t... kIs>(std::index_sequence<kIs...>) {
      use(*static_cast<const Parameters*>(arguments[kIs + 1])...);
    }
    (std::index_sequence_for<Parameters...>());
  }
  static void run(void** arguments, const Translate& translate) {
    with_parameters(arguments, [&](const Parameters&... parameters) {
      const uint32_t threads = *static_cast<const uint32_t*>(arguments[0]);
      for (uint32_t i = 0; i < threads; ++i) {
        kFunction(i, on_host(parameters, translate)...);
      }
    });
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    std::vector<TouchedRange> touched;
    with_parameters(
        arguments, [&](const Parameters&... parameters) { (add_range(parameters, touched), ...); });
    return touched;
  }
  // Arguments become what the function takes.
  static device::DriverResult launch(device::FunctionHandle function,
                                     device::StreamHandle stream,
                                     uint32_t threads,
                                     Parameters... parameters) {
    void* arguments[] = {&threads, &parameters...};
    return cuda_double::driver().launch(
        function, (threads + 127) / 128, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr);
  }
};

// A device of the double with a stream, as a program has them.
class DoubleGpu {
 public:
  explicit DoubleGpu(int ordinal)
      : device_(must_have(device::Device::open(*must_have(device::driver()), ordinal))),
        stream_(must_have(device::Stream::create(*device_))) {
    const auto current = must_have(device::CurrentContext::enter(*device_));
    check("cuModuleLoadData", driver().module_load(&module_, driver().kernels.data()));
  }
  DoubleGpu(const DoubleGpu&) = delete;
  DoubleGpu& operator=(const DoubleGpu&) = delete;
  ~DoubleGpu() {
    const auto current = device::CurrentContext::enter(*device_);
    driver().stream_synchronize(stream_.handle());
    driver().module_unload(module_);
  }

  [[nodiscard]] device::StreamHandle stream() const { return stream_.handle(); }
  template <class T>
  [[nodiscard]] example::Array<T> allocate(uint32_t count) {
    memory_.push_back(must_have(device::DeviceMemory::create(*device_, count * sizeof(T))));
    return {static_cast<T*>(memory_.back().pointer()), count};
  }
  template <class T>
  void upload(example::Array<T> to, const std::vector<T>& from) const {
    finish();
    cuda_double::set_device_bytes(reinterpret_cast<uintptr_t>(to.data),
                                  std::as_bytes(std::span(from)));
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(example::Array<T> from) const {
    finish();
    std::vector<T> to(from.count);
    const auto bytes =
        cuda_double::device_bytes(reinterpret_cast<uintptr_t>(from.data), from.count * sizeof(T));
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return to;
  }
  template <auto kFunction, class... Arguments>
  void launch(uint32_t threads, Arguments... arguments) const {
    using Kernel = DoubleKernel<kFunction>;
    const auto current = must_have(device::CurrentContext::enter(*device_));
    device::FunctionHandle function = nullptr;
    check("cuModuleGetFunction",
          driver().module_function(&function, module_, Kernel::name().c_str()));
    check("cuLaunchKernel", Kernel::launch(function, stream(), threads, arguments...));
  }

 private:
  [[nodiscard]] const device::Driver& driver() const { return device_->driver(); }
  void check(const char* call, device::DriverResult result) const {
    must_be_ok(device_->check(call, result));
  }
  void finish() const {
    const auto current = must_have(device::CurrentContext::enter(*device_));
    check("cuStreamSynchronize", driver().stream_synchronize(stream()));
  }

  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  std::vector<device::DeviceMemory> memory_;
  device::ModuleHandle module_ = nullptr;
};

}  // namespace ho::test
