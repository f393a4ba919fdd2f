#include "core/rail/rail_handshake.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "auth/printable.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "core/driver/process_text.hpp"
#include "core/rail/consistency.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"

namespace ho::plugin::rail {
namespace {

using Blob = std::vector<std::byte>;
constexpr std::chrono::microseconds kConnectPause{500};
constexpr std::chrono::seconds kTimeToAgree{5};

// What a member sends of itself when all are connected.
struct RankClaim {
  uint32_t rank = 0;
  uint64_t piece_bytes = 0;
  std::string driver;              // its kind
  std::string process;             // process_text()
  std::vector<HandleBytes> flows;  // where they listen; none: it cannot take part
  std::string consistency;  // what all must have in common; without flows, why there are none

  // "rail member 2 (node1, pid 71)"
  [[nodiscard]] std::string name() const {
    return fmt::format("rail member {} ({})", rank, process);
  }
};

// Where the member before this one connects to, flow by flow.
class FlowListeners {
 public:
  explicit FlowListeners(NetDriver& driver) : driver_(driver) {}
  FlowListeners(const FlowListeners&) = delete;
  FlowListeners& operator=(const FlowListeners&) = delete;
  ~FlowListeners() {
    for (void* const listener : listeners_) {
      (void)driver_.close_listen(listener);
    }
  }

  Status open(void* context, int32_t device) {
    for (size_t i = 0; i < kFlowCount; ++i) {
      HandleBytes handle{};
      void* listener = nullptr;
      const Reply reply = driver_.listen(context, device, handle.data(), &listener);
      if (reply != Reply::kSuccess) {
        return {StatusCode::kConnection,
                fmt::format("{} could not listen on device {}: it reported {}",
                            driver_.name(),
                            device,
                            to_string(reply))};
      }
      listeners_.push_back(listener);
      handles_.push_back(handle);
    }
    return {};
  }
  [[nodiscard]] const std::vector<void*>& listeners() const { return listeners_; }
  [[nodiscard]] const std::vector<HandleBytes>& handles() const { return handles_; }

 private:
  NetDriver& driver_;
  std::vector<void*> listeners_;
  std::vector<HandleBytes> handles_;
};

constexpr size_t kMaxDriverBytes = 32;
constexpr size_t kMaxProcessBytes = 160;

Blob encode(const RankClaim& one) {
  ByteWriter writer;
  writer.number(one.rank, 4);
  writer.number(one.piece_bytes, 8);
  writer.text(one.driver, kMaxDriverBytes);
  writer.text(one.process, kMaxProcessBytes);
  writer.number(one.flows.size(), 4);
  for (const HandleBytes& handle : one.flows) {
    writer.append(handle);
  }
  writer.text(one.consistency, kMaxConsistencyBytes);
  return writer.take();
}

Result<RankClaim> decode(const Blob& blob) {
  ByteReader reader(blob);
  RankClaim decoded;
  decoded.rank = reader.number<uint32_t>();
  decoded.piece_bytes = reader.number<uint64_t>();
  decoded.driver = printable(as_text(reader.blob(kMaxDriverBytes)), kMaxDriverBytes);
  decoded.process = printable(as_text(reader.blob(kMaxProcessBytes)), kMaxProcessBytes);
  decoded.flows.resize(reader.count(kFlowCount, kHandleBytes));
  for (HandleBytes& handle : decoded.flows) {
    std::ranges::copy(reader.bytes(handle.size()), handle.begin());
  }
  decoded.consistency = as_text(reader.blob(kMaxConsistencyBytes));
  reader.finish();
  if (!reader.ok()) {
    return Status(StatusCode::kProtocol, "its handshake message " + reader.fault());
  }
  return decoded;
}

struct Unlike {
  std::string_view what;
  std::string_view first;
  std::string_view second;
};

Status differ(const RankClaim& first, const RankClaim& second, const Unlike& unlike) {
  return {StatusCode::kMismatch,
          fmt::format("{} of {} and {} differ: {} and {}; set them to the same value on all nodes",
                      unlike.what,
                      first.name(),
                      second.name(),
                      unlike.first,
                      unlike.second)};
}

// What all members must have as the first has it.
Status check_like_first(const RankClaim& one, const RankClaim& first) {
  if (one.driver != first.driver) {
    return differ(first, one, {"networks", first.driver, one.driver});
  }
  if (one.flows.size() != kFlowCount) {
    return {StatusCode::kConnection, one.name() + ": " + one.consistency};
  }
  if (one.piece_bytes != first.piece_bytes) {
    return differ(
        first,
        one,
        {"piece sizes", std::to_string(first.piece_bytes), std::to_string(one.piece_bytes)});
  }
  if (const auto other = first_difference(first.consistency, one.consistency)) {
    return differ(first, one, {other->what, other->first, other->second});
  }
  return {};
}

// Members by their position in the ring. Every member gets the same result.
Result<std::vector<RankClaim>> in_ring_order(const std::vector<Blob>& blobs) {
  std::vector<RankClaim> members;
  members.reserve(blobs.size());
  for (const Blob& blob : blobs) {
    auto one = decode(blob);
    if (!one.ok()) {
      return one.status().with_context(fmt::format("the member of handle {}", members.size()));
    }
    members.push_back(*std::move(one));
  }
  std::vector<RankClaim> ring(members.size());
  std::vector<bool> taken(members.size(), false);
  for (size_t i = 0; i < members.size(); ++i) {
    const uint32_t position = members[i].rank;
    if (position >= ring.size() || taken[position]) {
      return Status(StatusCode::kMismatch,
                    fmt::format("{} of {} {}",
                                members[i].name(),
                                ring.size(),
                                position < ring.size() ? "is there twice" : "is out of range"));
    }
    HORING_TRY(check_like_first(members[i], members.front()));
    taken[position] = true;
    ring[position] = members[i];
  }
  return ring;
}

// One attempt at what is missing of a flow. handle: where the next member listens.
Reply connect_flow(const RailMember::Setup& setup,
                   int32_t device,
                   HandleBytes& handle,
                   void* listener,
                   FlowLink& flow) {
  void* device_handle = nullptr;
  if (flow.to_next == nullptr) {
    const Reply reply = setup.driver->connect(
        setup.context, device, kNoTrafficClass, handle.data(), &flow.to_next, &device_handle);
    if (reply != Reply::kSuccess) {
      return reply;
    }
  }
  return flow.from_previous != nullptr
             ? Reply::kSuccess
             : setup.driver->accept(listener, &flow.from_previous, &device_handle);
}

// All flows to the next member and from the previous one.
Result<RailLinks> connect_flows(const RailMember::Setup& setup,
                                int32_t device,
                                const FlowListeners& flow_listeners,
                                const std::vector<RankClaim>& members,
                                uint32_t rank,
                                Deadline deadline) {
  if (members.size() == 1) {
    return RailLinks(*setup.driver, {});
  }
  // A copy: NCCL lets a driver keep notes in the handle it connects to.
  std::vector<HandleBytes> next = members[(rank + 1) % members.size()].flows;
  // Owned from the first connection on.
  RailLinks links(*setup.driver, std::vector<FlowLink>(kFlowCount));
  while (true) {
    size_t missing = 0;
    for (size_t i = 0; i < kFlowCount; ++i) {
      FlowLink& flow = links.flow(i);
      const Reply reply = connect_flow(setup, device, next[i], flow_listeners.listeners()[i], flow);
      if (reply != Reply::kSuccess) {
        return Status(StatusCode::kConnection,
                      fmt::format("flow {} could not be connected: {} reported {}",
                                  i,
                                  setup.driver->name(),
                                  to_string(reply)));
      }
      missing += (flow.to_next == nullptr ? 1U : 0U) + (flow.from_previous == nullptr ? 1U : 0U);
    }
    if (missing == 0) {
      return links;
    }
    if (passed(deadline)) {
      return Status(StatusCode::kTimeout,
                    fmt::format("{} of {} connections to its neighbours were not there in time",
                                missing,
                                2 * kFlowCount));
    }
    std::this_thread::sleep_for(kConnectPause);
  }
}

// Every member reports whether it can; if one cannot, that is the error of all.
Status agree(ControlPlane& plane, const Status& own, uint32_t rank, Deadline deadline) {
  const std::string text =
      own.ok() ? "" : fmt::format("rail member {} ({}): {}", rank, process_text(), own.message());
  const auto bytes = std::as_bytes(std::span(text));
  HORING_ASSIGN(const auto answers, plane.all_gather("rail connected", bytes, {}, deadline));
  for (const auto& answer : answers) {
    if (!answer.empty()) {
      return {own.ok() ? StatusCode::kConnection : own.code(),
              std::string(reinterpret_cast<const char*>(answer.data()), answer.size())};
    }
  }
  return {};
}

struct Invitation {
  Rendezvous rendezvous;
  std::shared_ptr<const JobKey> key;
};

// The plane's ranks are places among the handles, since the member numbers are not known before all
// have connected; a member that connects sends its number.
Result<Invitation> invitation(const RailMember::Setup& setup,
                              std::span<const HandleBytes> handles,
                              uint32_t rank,
                              const RailListener& listener) {
  Invitation made;
  made.rendezvous.called = fmt::format("rail member {}", rank);
  made.rendezvous.host = host_text();
  made.rendezvous.world_size = static_cast<uint32_t>(handles.size());
  made.rendezvous.rank = made.rendezvous.world_size;
  made.rendezvous.source = "NCCL's handles";
  made.rendezvous.remedy =
      "see whether the node of that address loads this plugin too and has CollNet on "
      "(NCCL_DEBUG=INFO there), and whether this host reaches it (a firewall, or another network "
      "than HORING_SOCKET_IFNAME should name)";
  for (uint32_t i = 0; i < handles.size(); ++i) {
    auto handle = decode_handle(handles[i]);
    if (!handle.ok()) {
      return handle.status().with_context(fmt::format("handle {} of the rail", i));
    }
    if (handle->address.is_link_local()) {
      // That of the handle is a number of its own host.
      handle->address.set_scope(listener.handle.address.scope());
    }
    if (i == 0) {
      made.rendezvous.address = "tcp://" + handle->address.to_string();
      HORING_ASSIGN(made.key, connection_key(handle->secret, *setup.job_key));
    }
    if (handle->id == listener.handle.id) {
      made.rendezvous.rank = i;
    }
  }
  if (made.rendezvous.rank == made.rendezvous.world_size) {
    return invalid("this member's own handle is not among those that NCCL passed");
  }
  return made;
}

}  // namespace

Result<std::unique_ptr<RailListener>> RailListener::open(int32_t device, SocketAddress address) {
  auto listener = std::make_unique<RailListener>();
  address.set_port(0);
  HORING_ASSIGN(listener->socket, listen_on(address));
  HORING_ASSIGN(listener->handle.address, local_address(listener->socket.get()));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&listener->handle.id, 1))));
  HORING_ASSIGN(listener->handle.secret, make_handle_secret());
  listener->device = device;
  return listener;
}

Result<std::unique_ptr<RailMember>> RailMember::connect(const Setup& setup,
                                                        std::span<const HandleBytes> handles,
                                                        uint32_t rank,
                                                        RailListener& listener) {
  const Deadline deadline = deadline_after(setup.timeout);
  HORING_ASSIGN(const Invitation invited, invitation(setup, handles, rank, listener));
  std::vector<Fd> own_listener;
  if (invited.rendezvous.rank == 0) {
    own_listener.push_back(std::move(listener.socket));
  }
  auto joined =
      ControlPlane::create(invited.rendezvous, invited.key, deadline, std::move(own_listener));
  if (!joined.ok()) {
    return joined.status().with_context(
        fmt::format("the {} members of a rail, one per node, did not all connect (a member that "
                    "has not connected is named by its position among NCCL's handles, as a rank)",
                    handles.size()));
  }
  std::unique_ptr<ControlPlane> plane = *std::move(joined);
  FlowListeners flow_listeners(*setup.driver);
  const Status opened = flow_listeners.open(setup.context, listener.device);
  const RankClaim self{.rank = rank,
                       .piece_bytes = setup.wanted_piece_bytes,
                       .driver = setup.driver->kind(),
                       .process = process_text(),
                       .flows = opened.ok() ? flow_listeners.handles() : std::vector<HandleBytes>(),
                       .consistency = opened.ok() ? setup.consistency : opened.message()};
  HORING_ASSIGN(const auto blobs, plane->all_gather("rail members", encode(self), {}, deadline));
  // All members see the same blobs, so they refuse for the same reason.
  HORING_ASSIGN(const auto members, in_ring_order(blobs));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<RailMember> member(new RailMember(std::move(plane)));
  auto links = connect_flows(setup, listener.device, flow_listeners, members, rank, deadline);
  const RailRing::Shape shape{
      static_cast<uint32_t>(members.size()), rank, setup.wanted_piece_bytes};
  const Status own =
      links.ok() ? member->start_ring(setup, *std::move(links), shape) : links.status();
  // Members whose neighbours failed reach this as late as the deadline.
  HORING_TRY(agree(*member->plane_, own, rank, deadline + kTimeToAgree));
  ControlPlane::Callbacks callbacks;
  callbacks.on_decision = [ring = member->ring_.get()](const FailureDecision& decision) {
    ring->fail(decision.cause);
  };
  callbacks.state_of = [] { return std::vector<RankState>(); };
  member->plane_->start(std::move(callbacks));
  return member;
}

Status RailMember::start_ring(const Setup& setup, RailLinks links, RailRing::Shape shape) {
  const auto on_failure = [this](const Status& why) {
    plane_->report(
        {why.code(), GlobalRank(plane_->rendezvous().rank), std::nullopt, why.message()});
  };
  // Not the context itself: NCCL may close it first, and open another communicator's in its
  // place.
  const auto look_around = [driver = setup.driver, self = setup.driver->owner_of(setup.context)] {
    return driver->lost_peer(self);
  };
  HORING_ASSIGN(ring_, RailRing::start(std::move(links), shape, on_failure, look_around));
  return {};
}

// The ring's thread reports to the plane, whose thread ends the ring: each must have ended before
// the other's object goes. The shutdown is sent before the connections close.
RailMember::~RailMember() {
  if (ring_ != nullptr) {
    ring_->stop();
  }
  plane_.reset();
}

}  // namespace ho::plugin::rail
