// A listening port of one device. Hands out a comm once all connections of one have passed their
// handshakes. No call fails because of a stranger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "connect/acceptor.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/net_options.hpp"
#include "core/builtin/records.hpp"
#include "core/builtin/recv_comm.hpp"

namespace ho::plugin {

class Listener {
 public:
  // At once; the oldest makes room for a newer one, which tries again.
  static constexpr size_t kMaxHandshakes = 64;
  // Comms of which some connections are there.
  static constexpr size_t kMaxHalves = 64;

  [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const BuiltinDevice& device,
                                                              const JobKey& job,
                                                              const NetOptions& options);
  [[nodiscard]] const Handle& handle() const { return handle_; }
  // Null: nobody yet. An error: nobody within the timeout, the rank that was to come cannot, or
  // this host is at its limits.
  [[nodiscard]] Result<std::unique_ptr<RecvComm>> accept();

 private:
  // The connections of one comm.
  struct Half {
    uint64_t connection_id = 0;
    std::string from;
    std::vector<std::unique_ptr<Socket>> sockets;
    int64_t deadline_ns = 0;
  };

  Listener(BuiltinDevice device, NetOptions options)
      : device_(std::move(device)), options_(std::move(options)) {}
  [[nodiscard]] Acceptor::Options acceptor_options(std::shared_ptr<const JobKey> key);
  [[nodiscard]] Status judge(const Acceptor::Arrival& arrival);
  void deliver(const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket);
  [[nodiscard]] Result<std::unique_ptr<RecvComm>> take_whole();
  [[nodiscard]] Status nobody_came() const;

  BuiltinDevice device_;
  NetOptions options_;
  Handle handle_;
  std::unique_ptr<Acceptor> acceptor_;
  std::list<Half> halves_;
  int64_t deadline_ns_ = 0;  // 0: accept() has not been called since the last comm
  Status off_;  // what the end that was to connect has said, where its plugin cannot work
};

}  // namespace ho::plugin
