// What probes are made of: a stream that is held, waits for events, and memory to copy between.
#pragma once

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "assumptions.hpp"

namespace ho::device_suite {

using device::Device;
using device::DeviceMemory;
using device::Event;
using device::PinnedMemory;
using device::Stream;
using device::StreamHandle;

inline Status differs(const std::string& how) {
  return {StatusCode::kInternal, how};
}

inline Status expect(bool is_so, const std::string& otherwise) {
  return is_so ? Status() : differs(otherwise);
}

// Holds a stream until it is released or ends. What both sides use outlives either.
class Held {
 public:
  Held() : state_(std::make_shared<State>()) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { release(); }
  Status hold(const Device& device, StreamHandle stream) {
    auto kept = std::make_unique<std::shared_ptr<State>>(state_);
    HORING_TRY(device.check("cuLaunchHostFunc",
                            device.driver().stream_host_function(stream, wait, kept.get())));
    static_cast<void>(kept.release());  // wait() takes it over
    return {};
  }
  void release() {
    if (!std::exchange(released_, true)) {
      state_->open.set_value();
    }
  }
  void wait_until_held() { state_->came.get_future().wait(); }

 private:
  struct State {
    std::promise<void> open;
    std::promise<void> came;
  };
  static void wait(void* argument) {
    const std::unique_ptr<std::shared_ptr<State>> kept(
        static_cast<std::shared_ptr<State>*>(argument));
    (*kept)->came.set_value();
    (*kept)->open.get_future().wait();
  }
  std::shared_ptr<State> state_;
  bool released_ = false;
};

inline Status wait_for(const Event& event) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    HORING_ASSIGN(const bool passed, event.passed());
    if (passed) {
      return {};
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return differs("an event has not passed after 60 seconds");
    }
    std::this_thread::yield();
  }
}

inline Status finish(const Bench& bench, StreamHandle stream) {
  HORING_ASSIGN(const Event event, Event::create(*bench.device));
  HORING_TRY(event.record(stream));
  return wait_for(event);
}

inline Status expect_pending(const Event& event, const char* otherwise) {
  HORING_ASSIGN(const bool passed, event.passed());
  return expect(!passed, otherwise);
}

inline void fill(const PinnedMemory& memory, unsigned seed) {
  unsigned value = seed;
  for (std::byte& byte : memory.bytes()) {
    byte = static_cast<std::byte>(value >> 8U);
    value = value * 1103515245U + 12345U;
  }
}

// Two places on the host, one on the device, two streams. Memory outlives streams, since they are
// declared later.
struct Things {
  PinnedMemory from;
  PinnedMemory to;
  DeviceMemory memory;
  Stream first;
  Stream second;
  Event event;

  static Result<Things> make(const Bench& bench) {
    HORING_ASSIGN(auto from, PinnedMemory::create(*bench.device, bench.bytes));
    HORING_ASSIGN(auto to, PinnedMemory::create(*bench.device, bench.bytes));
    HORING_ASSIGN(auto memory, DeviceMemory::create(*bench.device, bench.bytes));
    HORING_ASSIGN(auto first, Stream::create(*bench.device));
    HORING_ASSIGN(auto second, Stream::create(*bench.device));
    HORING_ASSIGN(auto event, Event::create(*bench.device));
    fill(from, 1);
    return Things{std::move(from),
                  std::move(to),
                  std::move(memory),
                  std::move(first),
                  std::move(second),
                  std::move(event)};
  }
  [[nodiscard]] Status down(const Stream& stream) const {
    return stream.copy(memory.pointer(), from.bytes().data(), memory.size());
  }
  [[nodiscard]] Status up(const Stream& stream) const {
    return stream.copy(to.bytes().data(), memory.pointer(), memory.size());
  }
  [[nodiscard]] bool same() const { return std::ranges::equal(from.bytes(), to.bytes()); }
};

}  // namespace ho::device_suite
