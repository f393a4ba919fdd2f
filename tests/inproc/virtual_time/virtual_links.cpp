#include "virtual_links.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ho::test {

class VirtualLink final : public Link, public OffsetMessages {
 public:
  using Path = VirtualNetwork::Path;
  VirtualLink(VirtualNetwork& network, Path& out, Path& in)
      : network_(network), out_(out), in_(in) {}

  Result<bool> try_send(const Frame& frame, std::span<const ConstBytes> payload) override {
    if (!out_.sent_ns) {
      if (out_.egress == nullptr) {
        return Status(StatusCode::kInternal, to_string() + ": only device memory is sent inside");
      }
      (void)network_.begin(out_, frame.payload_bytes);
      return false;
    }
    if (network_.now_ns() < *out_.sent_ns) {
      return false;
    }
    VirtualNetwork::Message message{frame, network_.now_ns()};
    for (const ConstBytes part : payload) {
      message.payload.insert(message.payload.end(), part.begin(), part.end());
    }
    out_.messages.push_back(std::move(message));
    out_.held.emplace_back(network_.now_ns());
    network_.finish(out_);
    return true;
  }

  uint64_t released() override {
    while (!out_.held.empty() && out_.held.front() && *out_.held.front() <= network_.now_ns()) {
      out_.held.pop_front();
      ++out_.released;
    }
    return out_.released;
  }

  Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override {
    HORING_ASSIGN(const VirtualNetwork::Message* const head, look(expected));
    if (head == nullptr) {
      return false;
    }
    if (head->offset) {
      return Status(StatusCode::kProtocol, to_string() + ": a message in device memory");
    }
    const std::byte* from = head->payload.data();
    for (const Bytes part : parts) {
      std::memcpy(part.data(), from, part.size());
      from += part.size();
    }
    in_.messages.pop_front();
    network_.set_due(in_.from);
    return true;
  }

  OffsetMessages* offsets() override { return this; }
  Result<bool> try_send_offset(const Frame& frame, uint64_t offset) override {
    const int64_t there_ns = network_.now_ns(out_.from) + network_.rates_.inside_ns;
    out_.messages.push_back({frame, there_ns, offset});
    out_.held.emplace_back();
    network_.set_due_at(there_ns, out_.to);
    return true;
  }

  Result<Message> try_recv_offset(const Frame& expected) override {
    HORING_ASSIGN(const VirtualNetwork::Message* const head, look(expected));
    if (head == nullptr || !head->offset) {
      return Message{head != nullptr};
    }
    const uint64_t offset = *head->offset;
    in_.messages.pop_front();
    return Message{false, offset};
  }

  void release_offset() override {
    const int64_t known_ns = network_.now_ns(out_.from) + network_.rates_.inside_ns;
    *std::find(in_.held.begin(), in_.held.end(), std::nullopt) = known_ns;
    network_.set_due_at(known_ns, in_.from);
  }

  // Answered at once, in the call.
  Result<bool> try_offer(ConstBytes offer) override {
    HORING_ASSIGN(const bool taken, out_.taker(offer));
    out_.answer = taken ? OfferAnswer::kTaken : OfferAnswer::kRefused;
    return true;
  }
  Result<OfferAnswer> offer_answer() override { return out_.answer; }
  void take_offers(OfferTaker taker) override { in_.taker = std::move(taker); }

  // StagedLink views through try_recv().
  Result<ConstBytes> try_view(const Frame& /*expected*/) override {
    return Status(StatusCode::kInternal, to_string() + ": has no views");
  }
  void release_view() override {}
  Result<std::optional<Frame>> try_peek(bool /*awaited*/) override {
    return std::optional<Frame>();
  }
  [[nodiscard]] bool over_network() const override { return out_.egress != nullptr; }
  [[nodiscard]] std::string to_string() const override {
    return "virtual link " + std::to_string(out_.from.value()) + " -> " +
           std::to_string(out_.to.value());
  }

 private:
  // The next message, if it is here and the expected one.
  Result<const VirtualNetwork::Message*> look(const Frame& expected) const {
    if (in_.messages.empty() || in_.messages.front().there_ns > network_.now_ns()) {
      return static_cast<const VirtualNetwork::Message*>(nullptr);
    }
    HORING_TRY(check_expected(expected, in_.messages.front().frame));
    return &std::as_const(in_.messages).front();
  }

  VirtualNetwork& network_;
  Path& out_;
  Path& in_;
};

VirtualNetwork::Path* VirtualNetwork::path(GlobalRank from,
                                           GlobalRank to,
                                           Lane lane,
                                           RailIndex rail) {
  Path& found = paths_[{from, to, lane, rail}];
  found.from = from;
  found.to = to;
  if (lane == Lane::kInter) {
    found.egress = &ports_[{map_.group_of(from), rail, false}];
    found.ingress = &ports_[{map_.group_of(to), rail, true}];
  }
  return &found;
}

Link* VirtualNetwork::link(GlobalRank self, GlobalRank peer, Lane lane, RailIndex rail) {
  links_.push_back(std::make_unique<VirtualLink>(
      *this, *path(self, peer, lane, rail), *path(peer, self, lane, rail)));
  return links_.back().get();
}

bool VirtualNetwork::begin(Path& path, uint64_t bytes) {
  if (!path.messages.empty()) {
    return false;  // its reader makes the sender due
  }
  for (Port* port : {path.egress, path.ingress}) {
    if (port->busy) {
      port->waiting.insert(path.from);
      return false;
    }
  }
  for (Port* port : {path.egress, path.ingress}) {
    port->busy = true;
    port->bytes += bytes;
  }
  path.sent_ns = now_ns(path.from) + std::llround(static_cast<double>(bytes) / rates_.between);
  set_due_at(*path.sent_ns, path.from);
  return true;
}

void VirtualNetwork::finish(Path& path) {
  path.sent_ns.reset();
  for (Port* port : {path.egress, path.ingress}) {
    port->busy = false;
    due_.merge(port->waiting);
    port->waiting.clear();
  }
  due_.insert(path.to);
}

std::optional<int64_t> VirtualNetwork::next_event_ns() const {
  return events_.empty() ? std::nullopt : std::optional(events_.begin()->first);
}

void VirtualNetwork::advance(int64_t to_ns) {
  now_ns_ = to_ns;
  while (!events_.empty() && events_.begin()->first <= to_ns) {
    due_.insert(events_.begin()->second);
    events_.erase(events_.begin());
  }
}

std::optional<GlobalRank> VirtualNetwork::take_due() {
  if (due_.empty()) {
    return std::nullopt;
  }
  const GlobalRank rank = *due_.begin();
  due_.erase(due_.begin());
  return rank;
}

uint64_t VirtualNetwork::most_sent_bytes() const {
  uint64_t most = 0;
  for (const auto& [at_index, port] : ports_) {
    most = std::max(most, port.bytes);
  }
  return most;
}

}  // namespace ho::test
