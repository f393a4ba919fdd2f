#include "core/builtin/listener.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "connect/rail_interface.hpp"
#include "core/driver/process_text.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"
#include "os/socket.hpp"

namespace ho::plugin {
namespace {

// With the name that it gives itself, proven or not.
std::string claim_text(const Acceptor::Arrival& arrival) {
  const std::string from = arrival.peer.to_string();
  const auto claim = decode_connection_claim(arrival.claim);
  return claim.ok() && !claim->who.empty() ? from + " (" + claim->who + ")" : from;
}

bool whole(const std::vector<std::unique_ptr<Socket>>& sockets) {
  return std::ranges::all_of(sockets, [](const auto& socket) { return socket != nullptr; });
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const BuiltinDevice& device,
                                                 const JobKey& job,
                                                 const NetOptions& options) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Listener> made(new Listener(device, options));
  HORING_ASSIGN(const SocketAddress address, own_address(device));
  std::vector<Fd> listeners(1);
  HORING_ASSIGN(listeners[0], listen_on(address));
  HORING_ASSIGN(const SocketAddress bound, local_address(listeners[0].get()));
  HORING_ASSIGN(made->handle_, handle_of(bound));
  made->handle_.carrier = options.carrier;
  made->handle_.who = rank_on_host_text(kMaxWhoBytes);
  HORING_TRY(fill_random(made->handle_.secret));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&made->handle_.listener_id, 1))));
  HORING_ASSIGN(auto key, connection_key(made->handle_.secret, job));
  HORING_ASSIGN(made->acceptor_,
                Acceptor::open(std::move(listeners), made->acceptor_options(std::move(key))));
  return made;
}

// There is no poller: each call of accept() tries everything.
Acceptor::Options Listener::acceptor_options(std::shared_ptr<const JobKey> key) {
  Acceptor::Options options;
  options.name = "device " + device_.properties.name;
  options.purpose = kHandshakePurpose;
  options.key = std::move(key);
  options.handshake_time = options_.handshake_timeout;
  options.max_handshakes = kMaxHandshakes;
  options.on_shortage = "each connection of a communicator takes descriptors";
  options.judge = [this](const Acceptor::Arrival& arrival) { return judge(arrival); };
  options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
    deliver(arrival, std::move(socket));
  };
  options.claim_text = claim_text;
  return options;
}

Result<std::unique_ptr<RecvComm>> Listener::accept() {
  const int64_t now = now_ns();
  if (deadline_ns_ == 0) {
    deadline_ns_ = now + ns_of(options_.connect_timeout);
  }
  acceptor_->step(now);
  std::erase_if(halves_,
                [&](const Half& half) { return now >= half.deadline_ns && !whole(half.sockets); });
  HORING_TRY(std::exchange(off_, {}));
  HORING_ASSIGN(auto comm, take_whole());
  if (comm != nullptr) {
    deadline_ns_ = 0;
    acceptor_->refusals().clear();
  } else if (now >= deadline_ns_) {
    return nobody_came();
  }
  return comm;
}

Status Listener::judge(const Acceptor::Arrival& arrival) {
  // Proven: whoever says it has this listener's handle.
  if (Status off = check_not_off(arrival.claim); !off.ok()) {
    off_ = off;
    return off;
  }
  HORING_ASSIGN(const ConnectionClaim claim, decode_connection_claim(arrival.claim));
  if (claim.listener_id != handle_.listener_id) {
    return {StatusCode::kMismatch, "the connection is for a listener that was here before"};
  }
  const auto half = std::ranges::find_if(
      halves_, [&](const Half& each) { return each.connection_id == claim.connection_id; });
  if (half == halves_.end()) {
    return halves_.size() < kMaxHalves
               ? Status()
               : Status(StatusCode::kMismatch,
                        "too many connections begin here at once; try again later");
  }
  if (half->sockets.size() != claim.connection_count ||
      half->sockets[claim.connection] != nullptr) {
    return {StatusCode::kMismatch, "that connection of the comm is here already"};
  }
  return {};
}

void Listener::deliver(const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
  const Result<ConnectionClaim> claim = decode_connection_claim(arrival.claim);
  auto half = std::ranges::find_if(
      halves_, [&](const Half& each) { return each.connection_id == claim->connection_id; });
  if (half == halves_.end()) {
    half = halves_.insert(halves_.end(), Half{});
    half->connection_id = claim->connection_id;
    half->sockets.resize(claim->connection_count);
    half->deadline_ns = now_ns() + ns_of(options_.connect_timeout);
  }
  // Two of one name may both have been let in while the word of it was on its way.
  if (half->sockets.size() != claim->connection_count ||
      half->sockets[claim->connection] != nullptr) {
    return;
  }
  bind_accepted(arrival.fd, device_.rail);
  set_traffic_class(arrival.fd, device_.rail.traffic_class);
  tune_data_socket(arrival.fd);
  if (claim->connection == 0) {
    half->from = claim_text(arrival);
  }
  half->sockets[claim->connection] = std::move(socket);
}

Result<std::unique_ptr<RecvComm>> Listener::take_whole() {
  const auto half =
      std::ranges::find_if(halves_, [](const Half& each) { return whole(each.sockets); });
  if (half == halves_.end()) {
    return std::unique_ptr<RecvComm>();
  }
  Half taken = std::move(*half);
  halves_.erase(half);
  HORING_ASSIGN(
      ConnectionSet connections,
      make_connections(device_.properties.name, std::move(taken.from), std::move(taken.sockets)));
  return std::make_unique<RecvComm>(std::move(connections));
}

Status Listener::nobody_came() const {
  std::string who_came = acceptor_->refusals().text();
  if (!acceptor_->shortage().ok()) {
    who_came += (who_came.empty() ? "" : "; ") + acceptor_->shortage().message();
  }
  return {StatusCode::kTimeout,
          fmt::format("device {}: nobody connected to {} within {} ms "
                      "(HORING_CONNECT_TIMEOUT_MS); {}",
                      device_.properties.name,
                      handle_.to_string(),
                      options_.connect_timeout.count(),
                      who_came.empty() ? "nobody came at all: look at the logs of the other ranks, "
                                         "and check that no firewall drops the port"
                                       : who_came)};
}

}  // namespace ho::plugin
