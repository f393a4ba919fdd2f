// One connect() under way: opens the comm's connections side by side and proves the listener's
// secret on each. Never blocks; tries again while the listener's host is not to be reached.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/net_options.hpp"
#include "core/builtin/send_comm.hpp"
#include "transport/tcp/poller.hpp"

namespace ho::plugin {

class Connector {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Connector>> start(const BuiltinDevice& device,
                                                                const Handle& handle,
                                                                const JobKey& job,
                                                                const NetOptions& options);

  // Null: not yet. An error is final, and names device, peer and what to do.
  [[nodiscard]] Result<std::unique_ptr<SendComm>> step();

 private:
  enum class State : uint8_t { kPausing, kConnecting, kHandshaking, kReady };
  struct Dial {
    uint32_t stream = 0;
    State state = State::kPausing;
    bool bound = true;  // to the device's interface
    int64_t dialled_at_ns = 0;
    int64_t retry_at_ns = 0;
    int64_t pause_ns = 0;
    std::unique_ptr<tcp::Socket> socket;
    std::unique_ptr<Handshake> handshake;
  };

  Connector(BuiltinDevice device, Handle handle, NetOptions options);
  [[nodiscard]] Status advance(Dial& dial, int64_t now);
  [[nodiscard]] Status open(Dial& dial, int64_t now);
  [[nodiscard]] Status finish_connect(Dial& dial, int64_t now);
  [[nodiscard]] Status run_handshake(Dial& dial, int64_t now);
  [[nodiscard]] std::vector<std::byte> claim_of(const Dial& dial) const;
  void retry(Dial& dial, int64_t now, const std::string& reason);
  [[nodiscard]] Status failed(const Status& why) const;

  BuiltinDevice device_;
  Handle handle_;
  NetOptions options_;
  std::shared_ptr<const JobKey> key_;
  uint64_t connection_id_ = 0;
  int64_t deadline_ns_ = 0;
  std::string last_reason_ = "no answer";
  std::vector<Dial> dials_;
};

}  // namespace ho::plugin
