// A comm over UCX in the making. Neither end blocks: step() is called until there is a comm or an
// error. What they have to prove, they have proved on the TCP connection that they are given.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/carried/side_connection.hpp"
#include "core/ucx/ucx_comm.hpp"
#include "core/ucx/ucx_handshake.hpp"
#include "transport/ucx/worker.hpp"

namespace ho::plugin {

struct UcxEnd {
  std::string device;
  std::shared_ptr<ho::ucx::Context> context;  // of the device
  std::chrono::milliseconds timeout{60000};
};

// What both ends have.
class UcxHandshaking {
 protected:
  explicit UcxHandshaking(UcxConnections connections) : connections_(std::move(connections)) {}
  // Whether the comm can be made, or the error with which `advanced` or the deadline ended it.
  [[nodiscard]] Result<bool> ready(const Result<bool>& advanced) const;

  UcxConnections connections_;
  int64_t deadline_ns_ = 0;
  std::vector<std::byte> said_;
  ho::ucx::Request answered_;
};

// The connecting end: sends the handshake, and waits for the answer.
class UcxCall : UcxHandshaking {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxCall>> start(const UcxEnd& end,
                                                              SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<UcxSendComm>> step();

 private:
  explicit UcxCall(UcxConnections connections) : UcxHandshaking(std::move(connections)) {}
  [[nodiscard]] Result<bool> advance();

  UcxHandshake handshake_;
  bool is_said_ = false;
  std::vector<std::byte> answer_;
};

// The accepting end: receives, and answers over UCX.
class UcxAnswer : UcxHandshaking {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxAnswer>> start(const UcxEnd& end,
                                                                SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<UcxRecvComm>> step();

 private:
  explicit UcxAnswer(UcxConnections connections) : UcxHandshaking(std::move(connections)) {}
  [[nodiscard]] Result<bool> advance();
  [[nodiscard]] Status answer(const UcxHandshake& handshake);

  std::vector<std::byte> heard_;
};

}  // namespace ho::plugin
