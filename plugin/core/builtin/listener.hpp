// A listening port of one device. Checks whoever comes by a handshake, and hands out a comm once
// all connections of one are there. Strangers cost a bounded handshake each, and no call fails
// because of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "auth/job_key.hpp"
#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/net_options.hpp"
#include "core/builtin/records.hpp"
#include "core/builtin/recv_comm.hpp"
#include "os/fd.hpp"
#include "transport/tcp/poller.hpp"

namespace ho::plugin {

class Listener {
 public:
  // At once; the oldest makes room for a newer one, which tries again.
  static constexpr size_t kMaxHandshakes = 64;
  // Comms of which some connections are there.
  static constexpr size_t kMaxHalves = 64;
  // Reasons of refusals that are kept.
  static constexpr size_t kMaxReasons = 4;

  [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const BuiltinDevice& device,
                                                              const JobKey& job,
                                                              const NetOptions& options);
  [[nodiscard]] const Handle& handle() const { return handle_; }
  // Null: nobody yet. An error: nobody within the timeout, the rank that was to come cannot, or
  // this host is at its limits.
  [[nodiscard]] Result<std::unique_ptr<RecvComm>> accept();

 private:
  struct PendingHandshake {
    std::unique_ptr<tcp::Socket> socket;
    std::unique_ptr<Handshake> handshake;
    std::string from;
    int64_t deadline_ns = 0;
  };
  // The connections of one comm.
  struct Half {
    uint64_t connection_id = 0;
    std::string from;
    std::vector<std::unique_ptr<tcp::Socket>> sockets;
    int64_t deadline_ns = 0;
  };

  Listener(BuiltinDevice device, NetOptions options)
      : device_(std::move(device)), options_(std::move(options)) {}
  void admit_all(int64_t now);
  void forgive_pause(int64_t now);
  // true: dealt with, well or not.
  [[nodiscard]] bool advance(PendingHandshake& pending, int64_t now);
  [[nodiscard]] Status check(const PendingHandshake& pending);
  void deliver(PendingHandshake& pending, int64_t now);
  [[nodiscard]] Result<std::unique_ptr<RecvComm>> take_whole();
  [[nodiscard]] Status nobody_came() const;
  void note_refusal(const PendingHandshake& pending, const std::string& why);
  [[nodiscard]] std::string refusals_text() const;

  BuiltinDevice device_;
  NetOptions options_;
  Handle handle_;
  std::shared_ptr<const JobKey> key_;
  Fd fd_;
  std::list<PendingHandshake> pending_;
  std::list<Half> halves_;
  int64_t deadline_ns_ = 0;  // 0: accept() has not been called since the last comm
  int64_t last_call_ns_ = 0;
  Status off_;  // what the end that was to connect has said, where its plugin cannot work
  // Whoever came for the next comm and was sent away, by reason.
  struct Refusal {
    std::string why;
    std::string from;  // the last one
    uint64_t count = 0;
  };
  std::vector<Refusal> refusals_;  // at most kMaxReasons
  uint64_t other_refusals_ = 0;
  LogQuota refused_said_;
  LogQuota full_said_;
};

}  // namespace ho::plugin
