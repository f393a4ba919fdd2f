// One connect() under way: opens the comm's connections side by side and proves the listener's
// secret on each. Never blocks; tries again while the listener's host is not to be reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "connect/connector.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/net_options.hpp"
#include "core/builtin/send_comm.hpp"

namespace ho::plugin {

class CommConnector {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CommConnector>> start(const BuiltinDevice& device,
                                                                    const Handle& handle,
                                                                    const JobKey& job,
                                                                    const NetOptions& options);

  // Null: not yet. An error is final, and names device, peer and what to do.
  [[nodiscard]] Result<std::unique_ptr<SendComm>> step();

 private:
  CommConnector(BuiltinDevice device, Handle handle, NetOptions options);
  [[nodiscard]] std::vector<std::byte> claim_of(uint32_t connection) const;
  [[nodiscard]] Status failed(const Status& why) const;

  BuiltinDevice device_;
  Handle handle_;
  NetOptions options_;
  uint64_t connection_id_ = 0;
  std::vector<std::unique_ptr<Connector>> connectors_;  // by connection
  std::vector<std::unique_ptr<Socket>> sockets_;        // those that are ready
};

}  // namespace ho::plugin
