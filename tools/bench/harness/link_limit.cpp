#include "bench/harness/link_limit.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "base/env.hpp"
#include "bench/harness/gather.hpp"
#include "bench/harness/rails_here.hpp"
#include "cli/subcommands/table.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho::harness {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kConnectLimit{10'000};
constexpr milliseconds kSettle{500};  // not counted: slow start, full token buckets
constexpr milliseconds kCounted{1200};
constexpr milliseconds kDrain{100};  // queues of the links empty after the last byte
constexpr size_t kBufferBytes = size_t{256} << 10;

// What a rank sends the others about its end of a flow.
struct Endpoint {
  uint32_t listening = 0;  // 1: this rank carries the flow of its group rank's interface
  SocketAddress address;
};

struct Outcome {
  uint32_t worked = 0;
  double bytes_per_second = 0.0;
};

// A socket bound to the rail's address, any port.
Fd bound_socket(const SocketAddress& rail) {
  Fd fd(::socket(rail.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd.valid() && ::bind(fd.get(), rail.get(), rail.size_bytes()) == 0 ? std::move(fd) : Fd();
}

Fd listen_at(const SocketAddress& rail, Endpoint& endpoint) {
  Fd fd = bound_socket(rail);
  if (!fd.valid() || ::listen(fd.get(), 1) != 0) {
    return {};
  }
  const auto bound = local_address(fd.get());
  if (!bound.ok()) {
    return {};
  }
  endpoint = {1, *bound};
  return fd;
}

Fd start_connect(const SocketAddress& from, const Endpoint& to) {
  Fd fd = bound_socket(from);
  if (!fd.valid() || to.listening == 0 || to.address.size_bytes() > sizeof(sockaddr_storage) ||
      (::connect(fd.get(), to.address.get(), to.address.size_bytes()) != 0 &&
       errno != EINPROGRESS)) {
    return {};
  }
  return fd;
}

bool ready(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  const auto limit = std::chrono::ceil<milliseconds>(left(deadline)).count();
  return ::poll(&entry, 1, static_cast<int>(limit)) == 1 && (entry.revents & events) != 0;
}

// Both ends of this rank's flow: what it sends to the node ahead, what arrives from the one behind.
struct Flow {
  Fd out;
  Fd in;
};

std::optional<Flow> open_flow(const SocketAddress& rail, Fd listener, const Endpoint& ahead) {
  const Deadline deadline = deadline_after(kConnectLimit);
  Flow flow{.out = start_connect(rail, ahead), .in = {}};
  if (!flow.out.valid() || !ready(listener.get(), POLLIN, deadline)) {
    return std::nullopt;
  }
  flow.in = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!flow.in.valid() || !ready(flow.out.get(), POLLOUT, deadline)) {
    return std::nullopt;
  }
  return flow;
}

bool would_block(ssize_t moved) {
  return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

// Payload that arrived between two moments, counted from the first arrival after `from`.
struct Arrivals {
  Clock::time_point from;
  std::optional<Clock::time_point> since;
  Clock::time_point until;
  uint64_t bytes = 0;

  void add(uint64_t count) {
    const auto now = Clock::now();
    if (since) {
      bytes += count;
      until = now;
    } else if (now >= from) {
      since = now;
      until = now;
    }
  }
  [[nodiscard]] double rate() const {
    const std::chrono::duration<double> span = until - since.value_or(until);
    return span.count() > 0.0 ? static_cast<double>(bytes) / span.count() : 0.0;
  }
};

// Sends both ways until the time is over. Nothing if the flow broke.
std::optional<double> send_both_ways(const Flow& flow) {
  std::vector<std::byte> buffer(kBufferBytes);
  Arrivals arrivals;
  arrivals.from = Clock::now() + kSettle;
  const auto end = arrivals.from + kCounted;
  while (Clock::now() < end) {
    std::array<pollfd, 2> entries{{{flow.in.get(), POLLIN, 0}, {flow.out.get(), POLLOUT, 0}}};
    if (::poll(entries.data(), entries.size(), 20) <= 0) {
      continue;
    }
    if (entries[0].revents != 0) {
      const ssize_t moved = ::recv(flow.in.get(), buffer.data(), buffer.size(), 0);
      if (moved > 0) {
        arrivals.add(static_cast<uint64_t>(moved));
      } else if (moved == 0 || !would_block(moved)) {
        return std::nullopt;
      }
    }
    if (entries[1].revents != 0) {
      const ssize_t moved = ::send(flow.out.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
      if (moved < 0 && !would_block(moved)) {
        return std::nullopt;
      }
    }
  }
  return arrivals.rate();
}

// The rank that carries this rank's rail in the next group.
int32_t rank_ahead(const horing::Communicator& comm) {
  const int32_t rank = comm.rank();
  const int32_t group = (comm.group_of(rank) + 1) % comm.group_count();
  for (int32_t other = 0; other < comm.world_size(); ++other) {
    if (comm.group_of(other) == group && comm.group_rank_of(other) == comm.group_rank_of(rank)) {
      return other;
    }
  }
  return -1;
}

Outcome run_flow(horing::Communicator& comm, const SocketAddress* rail, uint32_t& flows) {
  Endpoint mine;
  Fd listener = rail != nullptr ? listen_at(*rail, mine) : Fd();
  const auto endpoints = gather_all(comm, mine);
  const int32_t ahead = rank_ahead(comm);
  const bool carries = rail != nullptr && listener.valid() && ahead >= 0;
  flows = 0;
  for (int32_t rank = 0; rank < comm.world_size(); ++rank) {
    const bool first_group = comm.group_of(rank) == 0;
    flows += first_group ? endpoints[static_cast<size_t>(rank)].listening : 0;
  }
  std::optional<Flow> flow;
  if (carries) {
    flow = open_flow(*rail, std::move(listener), endpoints[static_cast<size_t>(ahead)]);
  }
  comm.barrier();
  Outcome outcome{.worked = rail == nullptr ? 1U : 0U};
  if (flow) {
    const auto rate = send_both_ways(*flow);
    outcome = {.worked = rate ? 1U : 0U, .bytes_per_second = rate.value_or(0.0)};
  }
  // No rank closes a flow that its sender still fills.
  comm.barrier();
  return outcome;
}

// The least over the groups of the sum over a group's flows.
LinkLimit evaluate(const horing::Communicator& comm,
                   const std::vector<Outcome>& outcomes,
                   uint32_t flows) {
  std::vector<double> of_group(static_cast<size_t>(comm.group_count()), 0.0);
  LinkLimit limit;
  for (int32_t rank = 0; rank < comm.world_size(); ++rank) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    if (outcome.worked == 0) {
      limit.how = "not measured: rank " + std::to_string(rank) +
                  " could not send to the next node over its rail; try horing doctor";
      return limit;
    }
    of_group[static_cast<size_t>(comm.group_of(rank))] += outcome.bytes_per_second;
  }
  limit.bytes_per_second = *std::min_element(of_group.begin(), of_group.end());
  limit.rails = flows;
  limit.how = "payload of plain TCP on " + std::to_string(flows) +
              " interface(s) per node, all at once, measured now";
  return limit;
}

LinkLimit paced_limit(const horing::Communicator& comm, uint64_t mbit, size_t interfaces) {
  const size_t rails = std::min(static_cast<size_t>(comm.rail_count()), interfaces);
  LinkLimit limit;
  limit.rails = static_cast<uint32_t>(rails);
  limit.bytes_per_second = static_cast<double>(mbit) * 1e6 / 8.0 * static_cast<double>(rails);
  limit.how = "the rate at which senders pace themselves (no links to measure)";
  return limit;
}

}  // namespace

std::string limit_text(const LinkLimit& limit) {
  return limit.bytes_per_second > 0.0 ? fixed(limit.bytes_per_second / 1e6, 2) +
                                            " MB/s per node and direction (" + limit.how + ")"
                                      : limit.how;
}

std::string emulation_mode() {
  return env::text(env::kEmulation);
}

uint32_t nics_per_node(horing::Communicator& comm) {
  return std::ranges::min(gather_all(comm, static_cast<uint32_t>(rails_here().size())));
}

LinkLimit measure_link_limit(horing::Communicator& comm) {
  LinkLimit none{.how = "none: one node, nothing crosses a network"};
  if (comm.group_count() < 2) {
    return none;
  }
  const auto rails = rails_here();
  if (!rails.empty() && rails.front().pace_mbit > 0) {
    return paced_limit(comm, rails.front().pace_mbit, rails.size());
  }
  const size_t here = std::min(rails.size(), static_cast<size_t>(comm.rail_count()));
  const uint32_t usable = std::ranges::min(gather_all(comm, static_cast<uint32_t>(here)));
  if (usable == 0) {
    none.how = "not measured: a node has no interface that may be a rail; see horing topo";
    return none;
  }
  const auto index = static_cast<size_t>(comm.group_rank_of(comm.rank()));
  uint32_t flows = 0;
  const Outcome outcome = run_flow(comm, index < usable ? &rails[index].address : nullptr, flows);
  LinkLimit limit = evaluate(comm, gather_all(comm, outcome), flows);
  std::this_thread::sleep_for(kDrain);
  comm.barrier();
  return limit;
}

}  // namespace ho::harness
