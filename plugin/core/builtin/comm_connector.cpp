#include "core/builtin/comm_connector.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "connect/rail_interface.hpp"
#include "core/driver/process_text.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"

namespace ho::plugin {

CommConnector::CommConnector(BuiltinDevice device, Handle handle, NetOptions options)
    : device_(std::move(device)),
      handle_(std::move(handle)),
      options_(std::move(options)),
      sockets_(std::clamp<uint32_t>(options_.connections, 1, kMaxConnections)) {}

Result<std::unique_ptr<CommConnector>> CommConnector::start(const BuiltinDevice& device,
                                                            const Handle& handle,
                                                            const JobKey& job,
                                                            const NetOptions& options) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<CommConnector> made(new CommConnector(device, handle, options));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&made->connection_id_, 1))));
  Connector::Options each;
  each.name = "device " + device.properties.name;
  each.to = address_on(device.rail, handle.socket_address());
  each.from = device.rail;
  each.purpose = kHandshakePurpose;
  HORING_ASSIGN(each.key, connection_key(handle.secret, job));
  each.deadline_ns = now_ns() + ns_of(options.connect_timeout);
  for (uint32_t connection = 0; connection < made->sockets_.size(); ++connection) {
    each.claim = [raw = made.get(), connection] { return raw->claim_of(connection); };
    made->connectors_.push_back(std::make_unique<Connector>(each));
  }
  return made;
}

Result<std::unique_ptr<SendComm>> CommConnector::step() {
  bool ready = true;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    if (sockets_[i] != nullptr) {
      continue;
    }
    Result<std::unique_ptr<Socket>> socket = connectors_[i]->step(now_ns());
    if (!socket.ok()) {
      return failed(socket.status());
    }
    sockets_[i] = *std::move(socket);
    ready = ready && sockets_[i] != nullptr;
  }
  if (!ready) {
    return std::unique_ptr<SendComm>();
  }
  for (const auto& socket : sockets_) {
    tune_data_socket(socket->fd.get());
  }
  HORING_ASSIGN(
      ConnectionSet connections,
      make_connections(device_.properties.name, handle_.to_string(), std::move(sockets_)));
  connections.pacer = options_.pacer;
  connections.pace = device_.rail.pace;
  return std::make_unique<SendComm>(std::move(connections));
}

std::vector<std::byte> CommConnector::claim_of(uint32_t connection) const {
  if (options_.off) {
    return plugin::claim_of(*options_.off);
  }
  ConnectionClaim claim;
  claim.listener_id = handle_.listener_id;
  claim.connection_id = connection_id_;
  claim.connection = connection;
  claim.connection_count = static_cast<uint32_t>(sockets_.size());
  claim.who = process_text();
  return encode(claim);
}

Status CommConnector::failed(const Status& why) const {
  const bool timed_out = why.code() == StatusCode::kTimeout;
  const bool unreachable = timed_out || why.code() == StatusCode::kConnection;
  const std::string ours =
      address_is_ours_text(device_.rail, address_on(device_.rail, handle_.socket_address()));
  const std::string todo =
      !ours.empty() ? ours
                    : "check that the process there is running, that both interfaces are up and in "
                      "one network (HORING_SOCKET_IFNAME chooses them), and that no firewall drops "
                      "the port";
  return {why.code(),
          fmt::format("device {}: cannot connect from {} to {}: {}{}",
                      device_.properties.name,
                      device_.rail.address,
                      handle_.to_string(),
                      timed_out ? fmt::format("not within {} ms (HORING_CONNECT_TIMEOUT_MS): {}",
                                              options_.connect_timeout.count(),
                                              why.message())
                                : why.message(),
                      unreachable ? "; " + todo : "")};
}

}  // namespace ho::plugin
