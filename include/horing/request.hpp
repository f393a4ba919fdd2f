// An operation that goes on while the program does; programs include horing/communicator.hpp.
#pragma once

#include <horing.h>

#include <chrono>
#include <cstdint>
#include <horing/types.hpp>
#include <utility>

namespace horing {

// An operation under way. Move-only. The destructor waits for it and drops its error: call wait().
class Request {
 public:
  Request() = default;
  explicit Request(ho_request* request) noexcept : request_(request) {}
  Request(Request&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      finish();
      request_ = std::exchange(other.request_, nullptr);
    }
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { finish(); }

  // Whether it holds an operation that wait() has not ended yet.
  [[nodiscard]] bool pending() const noexcept { return request_ != nullptr; }

  // True once the operation is over, well or not; wait() then returns at once. Never blocks.
  [[nodiscard]] bool test() {
    if (request_ == nullptr) {
      return true;
    }
    int32_t done = 0;
    check(ho_request_test(request_, &done));
    return done != 0;
  }

  // Of a call with device memory: what the stream is given from now on comes after it. May wait for
  // data from other ranks, and until the call's stream has got to it.
  void join(void* stream) {
    if (request_ != nullptr) {
      check(ho_request_join(request_, stream, 0));
    }
  }

  // Waits at most `timeout` (at least 1 ms). False: not yet, and the stream is as it was.
  [[nodiscard]] bool join_for(void* stream, std::chrono::milliseconds timeout) {
    if (request_ == nullptr) {
      return true;
    }
    const ho_status status = ho_request_join(request_, stream, at_least_one(timeout));
    if (status != HO_IN_PROGRESS) {
      check(status);
    }
    return status != HO_IN_PROGRESS;
  }

  // Waits until the operation ends or its own deadline passes. Throws its error.
  void wait() {
    if (request_ != nullptr) {
      check(ho_request_wait(std::exchange(request_, nullptr), 0));
    }
  }

  // Waits at most `timeout` (at least 1 ms). False: not over yet, the operation goes on and the
  // request stays valid. Throws the operation's error; the request has then ended.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds timeout) {
    if (request_ == nullptr) {
      return true;
    }
    const ho_status status = ho_request_wait(request_, at_least_one(timeout));
    if (status == HO_IN_PROGRESS) {
      return false;
    }
    request_ = nullptr;  // freed, also where the operation's own deadline has passed
    check(status);
    return true;
  }

 private:
  static uint64_t at_least_one(std::chrono::milliseconds timeout) noexcept {
    return timeout.count() > 0 ? static_cast<uint64_t>(timeout.count()) : 1;
  }

  void finish() noexcept {
    if (request_ != nullptr) {
      static_cast<void>(ho_request_wait(std::exchange(request_, nullptr), 0));
    }
  }

  ho_request* request_ = nullptr;
};

}  // namespace horing
