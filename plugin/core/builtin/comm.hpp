// What the two directions of a comm share: its connections, the life of a request, failing once for
// all requests, and the descriptor that one of our own threads may sleep on.
//
// One thread at a time calls a comm; progress is made inside those calls. Nothing is allocated
// between connecting and closing.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/builtin/net_connection.hpp"
#include "core/builtin/records.hpp"
#include "core/driver/reply.hpp"
#include "os/clock.hpp"
#include "status/network.hpp"
#include "transport/tcp/pacer.hpp"
#include "transport/tcp/poller.hpp"

namespace ho::plugin {

class Comm;

enum class RequestState : uint8_t { kFree, kActive, kComplete };

template <typename Owner>
struct BasicRequest {
  using State = RequestState;
  Owner* comm = nullptr;
  State state = State::kFree;
  uint32_t count = 1;
  uint64_t begun_bytes = 0;  // of the buffers
  std::array<uint64_t, kMaxReceives> sizes{};

  [[nodiscard]] uint64_t bytes() const {
    return std::accumulate(sizes.begin(), sizes.begin() + count, uint64_t{0});
  }
  // Of a complete one: tells the sizes where these are wanted, and is free.
  void hand_over(int32_t* wanted) {
    for (uint32_t i = 0; wanted != nullptr && i < count; ++i) {
      wanted[i] = static_cast<int32_t>(sizes.at(i));  // NCCL's type
    }
    state = State::kFree;
  }
};
using Request = BasicRequest<Comm>;

// Null: all are under way.
template <typename Requests>
[[nodiscard]] auto* find_free(Requests& requests) {
  const auto found = std::ranges::find_if(
      requests, [](const auto& request) { return request.state == RequestState::kFree; });
  return found == requests.end() ? nullptr : &*found;
}

// Connections that have passed the handshake, ready to become a comm.
struct ConnectionSet {
  std::string device;
  std::string peer;  // "10.1.0.2:4000"
  std::unique_ptr<tcp::Poller> poller;
  std::vector<std::unique_ptr<NetConnection>> all;
  std::shared_ptr<tcp::Pacer> pacer;
  std::optional<RailPace> pace{};  // of what is sent, by the pacer; nothing: as fast as it goes
};
[[nodiscard]] Result<ConnectionSet> make_connections(std::string device,
                                                     std::string peer,
                                                     std::vector<std::unique_ptr<Socket>> sockets);

class Comm {
 public:
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  // A request that was complete before the comm failed still says so; all others, and all later
  // calls, answer with the one failure.
  [[nodiscard]] Reply test(Request& request, int32_t* done, int32_t* sizes);
  // NetDriver::promise_order().
  void promise_order() { ordered_ = true; }
  // NetDriver::progress_fd(), has_pending() and look().
  [[nodiscard]] int progress_fd();
  [[nodiscard]] bool has_pending() const { return has_pending_; }
  void look();
  // BuiltinNet's.
  [[nodiscard]] bool is_open();
  // What was reported as sent arrives, if the peer's host takes it within a second. Where requests
  // are left behind nothing is waited for. Says that this end closes.
  void finish();
  // Tells the peer that this end closes on purpose; nothing where requests are left behind. Nothing
  // can be sent after it.
  void say_leaving(Deadline deadline);
  // Whether the peer's process has ended, or given up, without having said that it closes. Any
  // thread, at any time before the comm is destroyed; NCCL's threads may be in a call.
  [[nodiscard]] bool peer_is_lost() const;
  [[nodiscard]] const std::string& peer() const { return connections_.peer; }
  // Any thread, as peer_is_lost().
  void read_watched(WatchedConnection& into) const {
    into.device = connections_.device;
    into.peer = connections_.peer;
    counts_.read(into);
  }

 protected:
  // Bytes that one call moves per connection at most, so that it ends.
  static constexpr size_t kTurnBytes = size_t{4} << 20U;

  explicit Comm(ConnectionSet connections);

  // Moves what can be moved. An error fails the comm.
  [[nodiscard]] virtual Status advance() = 0;
  // About once a second while a request is active.
  [[nodiscard]] virtual Status check(int64_t now_ns);
  // The oldest active request, for messages: "tag 3, 4096 bytes"; "" for none.
  [[nodiscard]] virtual std::string oldest() const = 0;
  // The record by which this end says that it closes, and its size.
  [[nodiscard]] virtual size_t encode_leaving(LeavingBytes& bytes) const = 0;
  // Whether what waits to be read ends with the record by which the peer says so.
  [[nodiscard]] virtual bool is_leaving(std::span<const std::byte> waiting) const = 0;
  void note_peer_leaves() { peer_leaves_.store(true, std::memory_order_release); }

  void progress();
  // After something was begun: moves it, or leaves it to look() where there is a caller that looks.
  void progress_or_leave();
  // Messages are received in the order sent, so that no buffer need be announced.
  [[nodiscard]] bool ordered() const { return ordered_; }
  void begin(Request& request, uint64_t bytes);
  void complete(Request& request);
  [[nodiscard]] bool failed() const { return !failure_.ok(); }
  // The reply to every call after the failure; the first one logs it.
  [[nodiscard]] Reply failure();
  [[nodiscard]] uint32_t active() const { return active_; }
  [[nodiscard]] std::vector<std::unique_ptr<NetConnection>>& all_connections() {
    return connections_.all;
  }
  [[nodiscard]] bool paced() const { return connections_.pace.has_value(); }
  // From when on that many bytes may leave.
  [[nodiscard]] int64_t reserve_pace(size_t bytes, int64_t now_ns) {
    return connections_.pacer->reserve(*connections_.pace, bytes, now_ns);
  }
  // A sleeper, at the latest.
  void wake_at(int64_t time_ns) { connections_.poller->wake_at(time_ns); }

  // Whether the last call said "again".
  void note_again(bool again) { again_ = again; }
  // Something happened that such a call may have waited for.
  void note_news() { has_pending_ = has_pending_ || again_; }
  // There is more to do though no descriptor will say so.
  void note_more() {
    more_ = true;
    has_pending_ = true;
  }

 private:
  void fail(const Status& status);
  [[nodiscard]] Status tick();

  ConnectionSet connections_;
  ConnectionCounts counts_;
  Status failure_;
  bool logged_ = false;
  bool ordered_ = false;
  uint32_t active_ = 0;
  bool watched_ = false;  // progress_fd() has been asked for
  bool has_pending_ = false;
  bool again_ = false;
  bool more_ = false;
  bool check_due_ = false;  // next_check_ns_ is set
  int64_t next_check_ns_ = 0;
  std::atomic<bool> peer_leaves_{false};  // it has said so
};

}  // namespace ho::plugin
