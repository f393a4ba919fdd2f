// A device of the double with its context current, and what tests do with its memory.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "cuda_double/cuda_double.hpp"
#include "device/address.hpp"
#include "device/device.hpp"

namespace ho::test {

template <typename T>
T must(Result<T> result) {
  INFO(result.status().message());
  REQUIRE(result.ok());
  return std::move(result).value();
}
inline void must(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}

struct OnDouble {
  explicit OnDouble(const cuda_double::Config& config = {}, int ordinal = 0)
      : device((cuda_double::reset(config),
                must(device::Device::open(cuda_double::driver(), ordinal)))),
        current(must(device::CurrentContext::enter(*device))) {}
  std::shared_ptr<device::Device> device;
  device::CurrentContext current;

  [[nodiscard]] device::Stream stream() const { return must(device::Stream::create(*device)); }
  [[nodiscard]] device::Event event() const { return must(device::Event::create(*device)); }
  [[nodiscard]] device::DeviceMemory memory(size_t bytes) const {
    return must(device::DeviceMemory::create(*device, bytes));
  }
  [[nodiscard]] device::PinnedMemory pinned(size_t bytes) const {
    return must(device::PinnedMemory::create(*device, bytes));
  }
};

// As the library waits: by asking again.
inline void wait_until_passed(const device::Event& event) {
  while (!must(event.passed())) {
    std::this_thread::yield();
  }
}
// All that the stream has; the host knows of it afterwards.
inline void finish(const OnDouble& on, const device::Stream& stream) {
  const device::Event event = on.event();
  must(event.record(stream.handle()));
  wait_until_passed(event);
}

// Whether exactly one violation was seen and has these words; forgets it.
inline bool violated(std::initializer_list<std::string> words) {
  const auto all = cuda_double::take_violations();
  std::string text;
  for (const std::string& each : all) {
    text += each + "\n";
  }
  UNSCOPED_INFO(all.size() << " violations: " << text);
  bool has_all = all.size() == 1;
  for (const std::string& word : words) {
    has_all = has_all && text.find(word) != std::string::npos;
  }
  return has_all;
}
inline bool nothing_violated() {
  const auto all = cuda_double::violations();
  UNSCOPED_INFO((all.empty() ? std::string() : all.front()));
  return all.empty();
}

inline std::vector<cuda_double::Config> every_mode() {
  std::vector<cuda_double::Config> all;
  for (const int channels : {0, 1, 2, 8}) {
    for (const auto mode :
         {cuda_double::Mode::kEager, cuda_double::Mode::kRandom, cuda_double::Mode::kLazy}) {
      cuda_double::Config config;
      config.mode = mode;
      config.channels = channels;
      config.seed = static_cast<uint64_t>(channels) + 7;
      all.push_back(config);
    }
  }
  return all;
}
inline std::string to_string(const cuda_double::Config& config) {
  return "mode " + std::to_string(static_cast<int>(config.mode)) + ", channels " +
         std::to_string(config.channels);
}

}  // namespace ho::test
