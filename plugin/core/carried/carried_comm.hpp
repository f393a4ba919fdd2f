// What the two directions of a comm share where a carrier of its own moves the data: the life of a
// request, and failing once for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/builtin/comm.hpp"
#include "core/driver/reply.hpp"
#include "status/network.hpp"

namespace ho::plugin {

// Request: a BasicRequest, whose owner is derived from this.
template <typename Owner, typename Request>
class CarriedComm {
 public:
  CarriedComm() = default;
  CarriedComm(const CarriedComm&) = delete;
  CarriedComm& operator=(const CarriedComm&) = delete;
  virtual ~CarriedComm() = default;

  // A request that was complete before the comm failed still says so; all others, and all later
  // calls, answer with the one failure.
  [[nodiscard]] Reply test(Request& request, int32_t* done, int32_t* sizes) {
    *done = 0;
    if (request.state == Request::State::kActive) {
      progress_unless_watched();
      // What is complete is so although the comm has failed since.
      if (const Status status = finish(request); !status.ok()) {
        fail(status);
      }
    }
    if (request.state == Request::State::kComplete) {
      *done = 1;
      release(request);
      request.hand_over(sizes);
    }
    return *done == 0 && failed() ? failure() : Reply::kSuccess;
  }

  // Any thread, before it is destroyed.
  void read_watched(WatchedConnection& into) const {
    set_ends(into);
    counts_.read(into);
  }

 protected:
  // Device and peer, which do not change.
  virtual void set_ends(WatchedConnection& into) const = 0;
  // Nothing where there is a caller that looks (NetDriver::progress_fd()).
  virtual void progress_unless_watched() = 0;
  // How far a message of a request is. An error is the comm's.
  [[nodiscard]] virtual Result<bool> is_done(Request& request, uint32_t message) = 0;
  // What the carrier keeps for a request that is over.
  virtual void release(Request& /*request*/) {}
  // "device eth0 (UCX), peer node7 eth0 (pid 12)", for messages.
  [[nodiscard]] virtual std::string origin_text() const = 0;
  virtual void on_failure() {}

  // bytes: of its buffers.
  void begin(Request& request, uint32_t count, uint64_t bytes) {
    request.comm = static_cast<Owner*>(this);
    request.state = Request::State::kActive;
    request.count = count;
    request.begun_bytes = bytes;
    request.sizes = {};
    counts_.begin(bytes);
    ++active_;
  }
  void fail(const Status& why) {
    if (failed()) {
      return;
    }
    failure_ = why.with_context(origin_text());
    counts_.fail();
    on_failure();
    if (active_ > 0) {
      static_cast<void>(failure());
    }
  }
  [[nodiscard]] bool failed() const { return !failure_.ok(); }
  [[nodiscard]] StatusCode failure_code() const { return failure_.code(); }
  // The reply to every call after the failure; the first one logs it.
  [[nodiscard]] Reply failure() {
    if (!std::exchange(logged_, true)) {
      log_error("{}", failure_.message());
    }
    return reply_of(failure_.code());
  }
  [[nodiscard]] uint32_t active() const { return active_; }
  [[nodiscard]] ConnectionCounts& counts() { return counts_; }

 private:
  // Complete where all of its messages are.
  [[nodiscard]] Status finish(Request& request) {
    for (uint32_t i = 0; i < request.count; ++i) {
      HORING_ASSIGN(const bool done, is_done(request, i));
      if (!done) {
        return {};
      }
    }
    request.state = Request::State::kComplete;
    counts_.end(request.begun_bytes, request.bytes());
    --active_;
    return {};
  }

  ConnectionCounts counts_;
  Status failure_;
  bool logged_ = false;
  uint32_t active_ = 0;
};

}  // namespace ho::plugin
