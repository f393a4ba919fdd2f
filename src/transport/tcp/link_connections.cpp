#include "transport/tcp/link_connections.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <utility>

#include "connect/rail_interface.hpp"
#include "os/clock.hpp"
#include "os/interface_bytes.hpp"
#include "os/socket.hpp"
#include "os/tcp_progress.hpp"

namespace ho::tcp {
namespace {

// A peer's kernel acknowledges several segments at once, but one alone only when its process reads.
// A message that is too long to be sent as one could end with a single segment; so its last part is
// written for itself.
size_t next_part(const OutgoingMessage& message) {
  constexpr size_t kSentAsOne = 60'000;
  constexpr size_t kLastPart = 16'384;
  const size_t rest = message.bytes - message.offset;
  return message.bytes > kSentAsOne && rest >= 2 * kLastPart ? rest - kLastPart : rest;
}

}  // namespace

LinkConnections::LinkConnections(Context& context, const LinkKey& key, bool& event)
    : LinkConnections(context,
                      key,
                      event,
                      {.shares = std::vector<Share>(context.options.connections_per_link,
                                                    {.path = {key.rail, key.rail}}),
                       .dials = opens(context.options.self, key.peer, key.channel),
                       .reach_within = context.options.connect_timeout}) {}

LinkConnections::LinkConnections(Context& context, const LinkKey& key, bool& event, Way way)
    : context_(context), key_(key), event_(event), way_(std::move(way)) {
  connections_.resize(way_.shares.size());
  paced_.resize(way_.shares.size());
}

LinkConnections::~LinkConnections() {
  context_.open_connections -= static_cast<uint32_t>(std::ranges::count_if(
      connections_, [](const auto& each) { return each != nullptr && !each->drained(); }));
}

LinkClaim LinkConnections::claim_of(size_t connection) const {
  LinkClaim claim;
  claim.from = context_.options.self;
  claim.to = key_.peer;
  claim.rail = key_.rail;
  claim.communicator = key_.communicator;
  claim.channel = key_.channel;
  claim.connection = static_cast<uint8_t>(connection);
  claim.connection_count = static_cast<uint8_t>(connections_.size());
  claim.job_id = context_.options.job_id;
  claim.fails_over = context_.options.failover.on;
  claim.epoch = way_.epoch;
  claim.from_rail = way_.shares[connection].path.own;
  claim.to_rail = way_.shares[connection].path.peer;
  claim.weight = way_.shares[connection].weight;
  return claim;
}

// Only reaching the peer's host and port is bounded. A peer that is reached but busy elsewhere
// answers when it next drives its transport; the operation's deadline covers that.
Result<std::unique_ptr<Connector>> LinkConnections::connector_of(size_t connection) {
  const Path& path = way_.shares[connection].path;
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  Connector::Options options;
  options.name = link_text(context_, key_);
  options.from = own_rail(path);
  HORING_ASSIGN(options.to, address_on(options.from, peer_address(path), peer.port));
  options.purpose = kHandshakePurpose;
  options.key = context_.options.key;
  options.deadline_ns = now_ns() + ns_of(way_.reach_within);
  options.peer_may_be_busy = true;
  options.keeps_interface = way_.keeps_interface;
  if (way_.leaves_interface) {
    options.from.name.clear();
  }
  options.watch = [this](Socket& socket) {
    socket.event = &event_;
    return context_.poller->add(socket);
  };
  options.claim = [this, connection] {
    const auto claim = encode(claim_of(connection));
    return std::vector<std::byte>(claim.begin(), claim.end());
  };
  return std::make_unique<Connector>(options);
}

Status LinkConnections::cannot_connect(const Path& path, const Status& why) const {
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const RailInterface& rail = own_rail(path);
  const std::string& host = peer_address(path);
  // Both ranks proved one key when the job began.
  if (why.code() == StatusCode::kUnauthenticated &&
      context_.options.key->allows_address(host).ok()) {
    return why.with_context(peer_text(context_, key_.peer) +
                            " is probably gone (see its output), and its port is another job's or "
                            "program's now");
  }
  if (why.code() != StatusCode::kConnection && why.code() != StatusCode::kTimeout) {
    return why;
  }
  const auto to = address_on(rail, host, peer.port);
  const std::string ours = to.ok() ? address_is_ours_text(rail, *to) : "";
  return {StatusCode::kConnection,
          "cannot connect from " + rail.address +
              (rail.name.empty() ? "" : " (" + rail.name + ")") + " to " +
              (to.ok() ? to->to_string() : host) + " within " +
              std::to_string(way_.reach_within.count()) + " ms: " + why.message() + "; " +
              (!ours.empty()
                   ? ours
                   : "check that " + peer_text(context_, key_.peer) +
                         " is running, that both ends of rail " + std::to_string(path.own.value()) +
                         " are up and in one network, and that no firewall drops its port")};
}

Status LinkConnections::dial() {
  state_ = State::kOpening;
  for (size_t i = connectors_.size(); i < connections_.size(); ++i) {
    HORING_ASSIGN(auto connector, connector_of(i));
    connectors_.push_back(std::move(connector));
  }
  for (size_t i = 0; i < connectors_.size(); ++i) {
    if (connections_[i] != nullptr) {
      continue;
    }
    Result<std::unique_ptr<Socket>> socket = connectors_[i]->step(now_ns());
    if (!socket.ok()) {
      return cannot_connect(way_.shares[i].path, socket.status());
    }
    if (*socket == nullptr) {
      context_.poller->wake_at(connectors_[i]->next_deadline_ns());
      continue;
    }
    tune_data_socket((*socket)->fd.get());
    take(i, *std::move(socket));
    if (open()) {
      break;  // the connectors are gone
    }
  }
  return {};
}

std::vector<Path> LinkConnections::refused() const {
  std::vector<Path> paths;
  for (size_t i = 0; i < connectors_.size(); ++i) {
    if (connectors_[i]->was_refused()) {
      paths.push_back(way_.shares[i].path);
    }
  }
  return paths;
}

std::vector<Path> LinkConnections::unanswered_paths() const {
  std::vector<Path> paths;
  for (size_t i = 0; i < connectors_.size(); ++i) {
    if (!connectors_[i]->was_taken() && !connectors_[i]->was_refused()) {
      paths.push_back(way_.shares[i].path);
    }
  }
  return paths;
}

bool LinkConnections::left_interface() const {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (!own_rail(way_.shares[i].path).name.empty() &&
        !is_bound_to_interface(connections_[i]->socket().fd.get())) {
      return true;
    }
  }
  return false;
}

std::vector<Path> LinkConnections::missing() const {
  std::vector<Share> missing;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] == nullptr) {
      missing.push_back(way_.shares[i]);
    }
  }
  return paths_of(missing);
}

bool LinkConnections::can_attach(const LinkClaim& claim) const {
  return !way_.dials && !open() && claim.connection_count == connections_.size() &&
         claim.connection < connections_.size() && connections_[claim.connection] == nullptr;
}

void LinkConnections::attach(const LinkClaim& claim, std::unique_ptr<Socket> socket) {
  way_.shares.at(claim.connection) = {{claim.to_rail, claim.from_rail}, claim.weight};
  take(claim.connection, std::move(socket));
}

void LinkConnections::take(size_t connection, std::unique_ptr<Socket> socket) {
  socket->event = &event_;
  connections_.at(connection) = std::make_unique<Connection>(std::move(socket));
  ++context_.open_connections;
  const bool all =
      std::ranges::all_of(connections_, [](const auto& each) { return each != nullptr; });
  state_ = all ? State::kOpen : State::kOpening;
  if (all) {
    std::vector<uint8_t> weights;
    for (const Share& share : way_.shares) {
      weights.push_back(share.weight);
    }
    striping_.emplace(weights);
    event_ = true;
    connectors_.clear();
  }
}

void LinkConnections::close() {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      context_.open_connections -= connection->drained() ? 0U : 1U;
      connection.reset();
    }
  }
  connectors_.clear();
  state_ = State::kClosed;
}

Result<bool> LinkConnections::write(uint64_t number,
                                    OutgoingMessage& message,
                                    std::span<const ConstBytes> payload) {
  const size_t index = index_of_message(number);
  Connection& connection = *connections_[index];
  Paced& paced = paced_[index];
  while (message.offset < message.bytes) {
    size_t limit = next_part(message);
    if (const auto& rate = own_rail(way_.shares[index].path).pace) {
      limit = pace(*rate, paced, limit);
      if (limit == 0) {
        return false;
      }
    }
    failed_ = index;
    HORING_ASSIGN(const size_t written,
                  connection.write(message.header, payload, message.offset, limit));
    if (written == 0) {
      return false;
    }
    message.offset += written;
    paced.bytes -= std::min(paced.bytes, written);
  }
  return true;
}

// How much may leave now; 0: the timer is set for when it may.
size_t LinkConnections::pace(const RailPace& rate, Paced& paced, size_t wanted_bytes) {
  const int64_t now = now_ns();
  if (paced.bytes == 0) {
    paced.bytes = std::min(wanted_bytes, Pacer::kSliceBytes);
    paced.from_ns = context_.pacer->reserve(rate, paced.bytes, now);
  }
  if (now < paced.from_ns) {
    context_.poller->wake_at(paced.from_ns);
    return 0;
  }
  return std::min(wanted_bytes, paced.bytes);
}

std::vector<uint64_t> LinkConnections::acknowledged() const {
  std::vector<uint64_t> bytes;
  for (const auto& connection : connections_) {
    bytes.push_back(connection->acknowledged_bytes(context_.options.count_unacknowledged));
  }
  return bytes;
}

uint64_t LinkConnections::drain(uint64_t number) {
  std::vector<size_t> whole;
  for (const auto& connection : connections_) {
    context_.open_connections -= connection->drained() ? 0U : 1U;
    whole.push_back(connection->drain());
  }
  uint64_t count = 0;
  for (size_t at = index_of_message(number); whole[at] > 0; at = index_of_message(number + count)) {
    --whole[at];
    ++count;
  }
  return count;
}

bool LinkConnections::at_message_start() const {
  return std::ranges::all_of(connections_,
                             [](const auto& connection) { return connection->at_message_start(); });
}

Status LinkConnections::ended() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    failed_ = i;
    HORING_TRY(connections_[i]->ended());
  }
  return {};
}

bool LinkConnections::others_at_end(const Connection& connection) const {
  return std::ranges::all_of(
      connections_, [&](const auto& each) { return each.get() == &connection || each->at_end(); });
}

Status LinkConnections::look(bool awaited) {
  const FailoverOptions& failover = context_.options.failover;
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection* const connection = connections_[i].get();
    failed_ = i;
    HORING_TRY(failover.on ? connection->check_alive(context_.options.look, failover.silence)
                           : connection->check_alive(context_.options.look));
    context_.suspects |= connection->suspected();
    if (failover.on) {
      // Both ends have said something once, which is no sign that both of them send messages.
      static_cast<void>(acknowledge_at_once(connection->socket().fd.get()));
    }
    event_ |= awaited && connection->look_below_mark();
  }
  return {};
}

std::optional<RailLooks> LinkConnections::look_at_rails(const Path& home, uint64_t messages) {
  std::map<Path, RailLook> looks;
  for (size_t i = 0; i < connections_.size(); ++i) {
    const Path& path = way_.shares[i].path;
    const auto progress = context_.options.progress(connections_[i]->socket().fd.get());
    if (!progress) {
      return std::nullopt;
    }
    const auto [look, first] = looks.try_emplace(
        path, RailLook{.time_ns = now_ns(), .connection = *progress, .messages = messages});
    if (!first) {
      look->second.connection.acknowledged_bytes += progress->acknowledged_bytes;
    }
    if (first) {
      // The kernel counts segments, and a small message may be one.
      TcpProgress& connection = look->second.connection;
      const uint64_t left = connection.acknowledged_bytes + connection.unsent_bytes;
      const uint64_t written = connections_[i]->written_bytes();
      connection.in_flight_bytes =
          std::min(connection.in_flight_bytes, written > left ? written - left : 0);
    }
    look->second.busy_us += progress->busy_us;
    look->second.peer_full_us += progress->peer_full_us;
    look->second.written_bytes += connections_[i]->written_bytes();
    failed_ = path == home ? i : failed_;
  }
  for (auto& [path, look] : looks) {
    const auto count = std::ranges::count(way_.shares, path, &Share::path);
    const auto connections = std::max<uint64_t>(static_cast<uint64_t>(count), 1);
    look.busy_us /= connections;
    look.peer_full_us /= connections;
  }
  auto own = looks.extract(home);
  if (own.empty()) {
    return std::nullopt;
  }
  RailLooks result{.own = own.mapped()};
  if (may_wait(result.own.connection) || !looks.empty()) {  // else it says nothing
    const auto counts = interface_bytes();
    if (const auto found = counts.find(own_rail(home).name); found != counts.end()) {
      result.own.rail_bytes = found->second.sent;
    }
  }
  for (const auto& [path, look] : looks) {
    result.others.push_back(look);
  }
  return result;
}

Status LinkConnections::look_for_peer(bool wanted) {
  if (!context_.watches_peers || way_.dials || !wanted) {
    peer_port_.pause();
    return {};
  }
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const Path& path = way_.shares.front().path;
  const RailInterface& rail = own_rail(path);
  HORING_ASSIGN(const SocketAddress address, address_on(rail, peer_address(path), peer.port));
  return peer_port_.check(rail, address);
}

void LinkConnections::await_nothing() {
  for (const auto& connection : connections_) {
    connection->await_nothing();
  }
}

bool LinkConnections::finish_output() {
  bool pending = false;
  for (const auto& connection : connections_) {
    pending |= connection != nullptr && connection->finish_output();
  }
  return pending;
}

uint64_t LinkConnections::memory_bytes() const {
  uint64_t total = 0;
  for (const auto& connection : connections_) {
    total += connection == nullptr
                 ? 0
                 : sizeof(Connection) + sizeof(Socket) + connection->memory_bytes();
  }
  return total;
}

std::string LinkConnections::path_text(const Path& path) const {
  const RailInterface& rail = own_rail(path);
  return rail.address + (rail.name.empty() ? "" : " (" + rail.name + ")") + " -> " +
         peer_address(path);
}

std::string LinkConnections::path() const {
  const std::vector<Path> paths = paths_of(way_.shares);
  const double first = part_over(paths.front(), way_.shares);
  const bool equal = std::ranges::all_of(
      paths, [&](const Path& path) { return part_over(path, way_.shares) == first; });
  std::string text;
  for (const Path& path : paths) {
    text += (text.empty() ? "tcp " : " and ") + path_text(path);
    text += equal ? "" : fmt::format(" with {:.0f} %", 100 * part_over(path, way_.shares));
  }
  return text;
}

std::string LinkConnections::to_string() const {
  switch (state_) {
    case State::kOpening:
      return path() + (way_.dials
                           ? ", connecting"
                           : ", waiting for " + peer_text(context_, key_.peer) + " to connect");
    case State::kOpen:
      return path() + ", connected";
    case State::kClosed:
      return path() + ", closed while idle";
  }
  return path();
}

Status LinkConnections::check_interfaces() {
  for (size_t i = 0; i < way_.shares.size(); ++i) {
    failed_ = i;
    std::string down = context_.options.interface_trouble(own_rail(way_.shares[i].path));
    if (!down.empty()) {
      return {StatusCode::kConnection, std::move(down)};
    }
  }
  return {};
}

std::string LinkConnections::trouble() const {
  for (const Path& path : paths_of(way_.shares)) {
    if (std::string down = context_.options.interface_trouble(own_rail(path)); !down.empty()) {
      return down;
    }
  }
  const bool unanswered = std::ranges::any_of(connections_, [this](const auto& connection) {
    return connection != nullptr && connection->unanswered(context_.options.look);
  });
  return unanswered ? "what is sent there is not answered (check cable, switch port and interface "
                      "on both ends)"
                    : "";
}

Status LinkConnections::with_path(const Status& cause) const {
  return cause.with_context(link_text(context_, key_) + ", tcp " + path_text(failed_path()));
}

}  // namespace ho::tcp
