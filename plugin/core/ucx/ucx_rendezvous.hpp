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
#include "core/ucx/side_connection.hpp"
#include "core/ucx/ucx_comm.hpp"
#include "core/ucx/ucx_handshake.hpp"
#include "transport/ucx/worker.hpp"

namespace ho::plugin {

struct UcxEnd {
  std::string device;
  std::shared_ptr<ho::ucx::Context> context;  // of the device
  std::chrono::milliseconds timeout{60000};
};

// The connecting end: sends the handshake, and waits for the answer.
class UcxCall {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxCall>> start(const UcxEnd& end,
                                                              SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<UcxSendComm>> step();

 private:
  explicit UcxCall(UcxConnections connections) : connections_(std::move(connections)) {}
  [[nodiscard]] Result<bool> advance();

  UcxConnections connections_;
  int64_t deadline_ns_ = 0;
  UcxHandshake handshake_;
  std::vector<std::byte> said_;
  bool is_said_ = false;
  std::vector<std::byte> answer_;
  ho::ucx::Request answered_;
};

// The accepting end: receives, and answers over UCX.
class UcxAnswer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxAnswer>> start(const UcxEnd& end,
                                                                SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<UcxRecvComm>> step();

 private:
  explicit UcxAnswer(UcxConnections connections) : connections_(std::move(connections)) {}
  [[nodiscard]] Result<bool> advance();
  [[nodiscard]] Status answer(const UcxHandshake& handshake);

  UcxConnections connections_;
  int64_t deadline_ns_ = 0;
  std::vector<std::byte> heard_;
  std::vector<std::byte> said_;
  ho::ucx::Request answered_;
};

}  // namespace ho::plugin
