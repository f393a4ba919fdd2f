// What every transport offers the executor: links, each an ordered pair of byte-message FIFOs
// between this rank and one peer. Nothing here blocks; one thread at a time drives a transport and
// all its links (the executor's driver), so no implementation locks for its callers.
//
// The calls are "try" calls: they move what can be moved now and return whether the whole message
// is through. The caller repeats a call with the same arguments until it is; only the head message
// of each direction is ever in progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "os/clock.hpp"
#include "os/peer_memory.hpp"
#include "transport/frame.hpp"
#include "transport/rail_use.hpp"

namespace ho {

// Names one link. Both ends use equal values except for `peer`.
struct LinkKey {
  GlobalRank peer;
  RailIndex rail;  // inter: whose NICs; intra: 0
  uint16_t communicator = 0;
  uint8_t channel = 0;  // below kLinkChannelCount
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
};
inline constexpr uint8_t kChannelCount = 4;

// Messages point to point. In shared memory one link carries them both ways. Over a network each
// direction has a link of its own, which the rank opens whose messages it carries: so nobody needs
// a connection to a rank that might send, and a receive from any rank opens none.
inline constexpr uint8_t kMessageChannel = 3;        // over a network: of the lower rank's messages
inline constexpr uint8_t kHigherMessageChannel = 4;  // over a network only: of the higher rank's
inline constexpr uint8_t kLinkChannelCount = 5;

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

class DeviceLink;
class OffsetMessages;

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  // One read of another process's memory takes a whole message.
  static constexpr size_t kMaxParts = kMaxPeerRanges;
  // Sends one message; the payload may lie in several parts (scatter-gather, at most kMaxParts).
  // true: accepted; the payload must stay unchanged until released() has counted it.
  // false: not all of it is on its way yet; call again with the same arguments.
  [[nodiscard]] virtual Result<bool> try_send(const Frame& frame,
                                              std::span<const ConstBytes> payload) = 0;
  // How many accepted messages no longer need their payload, counted from the link's birth; they
  // are released in order.
  [[nodiscard]] virtual uint64_t released() = 0;

  // Receives the next message into `parts`, whose sizes add up to expected.payload_bytes.
  // true: all of it is there. false: not yet; call again with the same arguments.
  // The frame is checked with check_expected before any payload byte is believed; never writes
  // outside `parts`.
  [[nodiscard]] virtual Result<bool> try_recv(const Frame& expected,
                                              std::span<const Bytes> parts) = 0;
  // The header of the next message once it is here, decoded but not compared with anything; the
  // message stays, for try_recv with this very frame. Not while a message is in progress.
  // `awaited`: the caller cannot go on without one, which is a use of the link as a try_recv is.
  // Else it is none: it opens no link that was closed while idle, and keeps none from being closed.
  [[nodiscard]] virtual Result<std::optional<Frame>> try_peek(bool awaited) = 0;
  // The same without a destination: a view of the whole payload in memory of the transport (the
  // shared-memory ring itself, or staging). Empty-optional-like: view.data() == nullptr means not
  // yet (a message of 0 bytes gives a non-null pointer). The view is valid until release_view().
  [[nodiscard]] virtual Result<ConstBytes> try_view(const Frame& expected) = 0;
  // The oldest view.
  virtual void release_view() = 0;

  // What the link has for device memory (device_link.hpp); null: nothing.
  [[nodiscard]] virtual DeviceLink* for_device() { return nullptr; }
  [[nodiscard]] virtual OffsetMessages* offsets() { return nullptr; }

  // How many messages may be viewed at once: try_view() gives the next one's while earlier ones are
  // not released.
  [[nodiscard]] virtual size_t most_views() const { return 1; }
  // Not ok: a message that was accepted cannot go on, and no other call will say so.
  [[nodiscard]] virtual Status went_wrong() const { return {}; }

  // Whether its progress is announced by the transport's wait_fd (true) or by the doorbell (false).
  [[nodiscard]] virtual bool over_network() const { return true; }

  // Over how many rails its messages go now, in turn. A large one goes over all of them at once
  // where it is sent as several.
  [[nodiscard]] virtual size_t rails() const { return 1; }

  // For messages: "tcp 10.1.0.1 (rail0) -> 10.1.0.2, connected".
  [[nodiscard]] virtual std::string to_string() const = 0;
  // What is wrong with the way to the peer as far as it shows now, for the message of a wait that
  // took too long: "interface rail0 is down here", or "".
  [[nodiscard]] virtual std::string trouble() const { return {}; }
};

// What a sleeping executor waits for: why peers on shared memory should wake it, and what links of
// the network may do for it.
struct WaitHint {
  // Messages on the shared-memory lane are not urgent: wake for them only when this many more have
  // arrived or a ring that this rank reads is half full. 1 = wake for the next one. 0 = never on
  // count.
  uint32_t intra_arrivals = 1;
  // Some accepted send waits to be released by its reader (single copy), or a ring was full: wake
  // when that changes.
  bool intra_releases = true;
  // Something can go on only when memory of a send over the network is given back: it had better be
  // copied now.
  bool network_releases = false;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // The link for `key`, made on first use. The connection behind it may still be under way (the
  // try calls then answer false); deadline bounds only that. Owned by the transport; valid until
  // the transport ends.
  [[nodiscard]] virtual Result<Link*> link(const LinkKey& key) = 0;
  // Peers that have opened the link for messages point to point, or sent on it, which this rank has
  // not asked for. Cheap where there are none.
  [[nodiscard]] virtual std::vector<LinkKey> unrequested_links() const = 0;
  // Moves connection set-up along, reads readiness. Called once per driver turn. An error names
  // peer, rail and address, and concerns the whole transport only where it cannot go on.
  [[nodiscard]] virtual Status progress() = 0;
  // File descriptor that becomes readable when progress() or a try call may get further; registered
  // edge-triggered or level-triggered in the executor's epoll as a whole (for tcp: its own epoll
  // fd). -1: none (shared memory wakes through the doorbell).
  [[nodiscard]] virtual int wait_fd() const = 0;
  // Right before sleeping. false: something has already happened, do not sleep.
  [[nodiscard]] virtual bool prepare_wait(const WaitHint& hint) = 0;
  virtual void finish_wait() = 0;
  // Right before the transport ends: gives what its links have accepted the time to get to the
  // peers' hosts, so that nothing that a peer still sends can take it back. Until the deadline at
  // most.
  virtual void linger(Deadline /*deadline*/) {}
  // How long that may take: with failover as long as it takes to notice that a rail is lost, and to
  // go on over another one.
  [[nodiscard]] virtual std::chrono::milliseconds linger_time() const {
    return std::chrono::milliseconds(1000);
  }
  // Nobody says any more which peers are gone: from now on the transport looks by itself, where a
  // call waits for a peer that it has no connection to. An error of that link says so.
  virtual void watch_unconnected_peers() {}
  // Whether progress() must be called also while nobody waits for a link: never, now and then, or
  // at once because a link is being mended.
  enum class Service : uint8_t { kNone, kNowAndThen, kSoon };
  [[nodiscard]] virtual Service service() const { return Service::kNone; }
  // By this host's rails, where links fail over; else nothing.
  [[nodiscard]] virtual std::span<const RailUse> rail_use() const { return {}; }
  [[nodiscard]] RailUse all_rail_use() const {
    RailUse all;
    for (const RailUse& rail : rail_use()) {
      all += rail;
    }
    return all;
  }
  [[nodiscard]] uint64_t failovers() const { return all_rail_use().failovers; }
  // Whether a try call that is never repeated touches the caller's memory no more. Where not, the
  // transport must not make progress once the memory is the caller's again.
  [[nodiscard]] virtual bool forgets_abandoned() { return true; }
  // Bytes of memory this transport holds (buffers, rings; kernel memory not counted).
  [[nodiscard]] virtual uint64_t memory_bytes() const = 0;
};

}  // namespace ho
