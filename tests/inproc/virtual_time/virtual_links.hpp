// Links in virtual time, for any number of ranks in one thread.
//
// Between groups a message takes its bytes divided by the NIC's rate. A NIC sends one message at a
// time and receives one at a time, and begins none while the one before it on the same link lies
// unread: as if sockets held one message. A message is accepted, and released, when its last byte
// has been sent, and is at the receiver then. Inside a group a message that names shared device
// memory is there after a fixed time, and so is the news that it was read.
//
// Whatever happens makes a rank due: it may get further now. Ranks that are not due cannot.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "group/group_map.hpp"
#include "plan/plan.hpp"
#include "transport/device_link.hpp"
#include "transport/transport.hpp"

namespace ho::test {

struct NetworkRates {
  double between = 1;     // bytes per ns, of a NIC in each direction
  int64_t inside_ns = 0;  // until a message inside a group is there; more than 0
};

class VirtualNetwork {
 public:
  // What a rank has spent since now_ns(): what it sends, it sends so much later.
  using SpentNs = std::function<int64_t(GlobalRank)>;
  VirtualNetwork(const GroupMap& map, const NetworkRates& rates, SpentNs spent_ns)
      : map_(map), rates_(rates), spent_ns_(std::move(spent_ns)) {}

  // The end of `self`. Both ends ask with the same lane and rail.
  [[nodiscard]] Link* link(GlobalRank self, GlobalRank peer, Lane lane, RailIndex rail);

  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  [[nodiscard]] int64_t now_ns(GlobalRank rank) const { return now_ns_ + spent_ns_(rank); }
  [[nodiscard]] std::optional<int64_t> next_event_ns() const;
  void advance(int64_t to_ns);
  // One of the ranks that are due, which is due no more.
  [[nodiscard]] std::optional<GlobalRank> take_due();
  void set_due(GlobalRank rank) { due_.insert(rank); }
  void set_due_at(int64_t ns, GlobalRank rank) { events_.emplace(ns, rank); }

  // Of the NIC that sent most.
  [[nodiscard]] uint64_t most_sent_bytes() const;

 private:
  friend class VirtualLink;
  // One direction of a NIC.
  struct Port {
    bool busy = false;
    uint64_t bytes = 0;              // that it has begun to carry
    std::set<GlobalRank> waiting{};  // to send through it
  };
  struct Message {
    Frame frame;
    int64_t there_ns = 0;
    std::optional<uint64_t> offset{};  // of a message in shared memory; else the payload
    std::vector<std::byte> payload{};
  };
  // One direction of a link.
  struct Path {
    GlobalRank from;
    GlobalRank to;
    Port* egress = nullptr;  // null: inside a group
    Port* ingress = nullptr;
    std::optional<int64_t> sent_ns{};  // when the message in progress will have been sent
    std::deque<Message> messages{};    // that are not read
    // By accepted message that is not released: when it will be, once that is known.
    std::deque<std::optional<int64_t>> held{};
    uint64_t released = 0;
    OffsetMessages::OfferTaker taker{};  // of the receiver
    OffsetMessages::OfferAnswer answer = OffsetMessages::OfferAnswer::kNone;
  };

  [[nodiscard]] Path* path(GlobalRank from, GlobalRank to, Lane lane, RailIndex rail);
  [[nodiscard]] bool begin(Path& path, uint64_t bytes);
  void finish(Path& path);
  const GroupMap map_;
  const NetworkRates rates_;
  const SpentNs spent_ns_;
  int64_t now_ns_ = 0;
  std::set<std::pair<int64_t, GlobalRank>> events_;
  std::set<GlobalRank> due_;
  std::map<std::tuple<GroupIndex, RailIndex, bool>, Port> ports_;  // true: towards the group
  std::map<std::tuple<GlobalRank, GlobalRank, Lane, RailIndex>, Path> paths_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace ho::test
