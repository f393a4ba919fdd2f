// What the NCCL plugin has under way: NCCL knows its collectives, the plugin the connections and
// rails that they use.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "os/clock.hpp"
#include "transport/rail_use.hpp"

namespace ho {

struct WatchedConnection {
  uint64_t comm_id = 0;  // NCCL's number of its communicator; 0: not known
  uint64_t context = 0;  // of the network, in which it was opened
  std::string device = {};
  std::string peer = {};
  bool sends = false;
  bool failed = false;
  uint64_t pending = 0;  // requests that are not done
  uint64_t pending_bytes = 0;
  int64_t since_ns = 0;  // since then none of them has become so
  uint64_t completed = 0;
  uint64_t completed_bytes = 0;
  RailUse rail_use{};  // of its link, if that fails over
};

// Of one connection. One thread at a time writes; any thread reads at any time, without a lock.
class ConnectionCounts {
 public:
  void begin(uint64_t bytes) {
    if (pending_.load(std::memory_order_relaxed) == 0) {
      since_ns_.store(now_ns(), std::memory_order_relaxed);
    }
    add(pending_bytes_, bytes);
    add(pending_, 1);
  }
  // begun: what begin() was told; bytes: what it came to.
  void end(uint64_t begun, uint64_t bytes) {
    since_ns_.store(now_ns(), std::memory_order_relaxed);
    add(pending_bytes_, -begun);
    add(pending_, -uint64_t{1});
    add(completed_bytes_, bytes);
    add(completed_, 1);
  }
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  void set_rail_use(const RailUse& use) { rail_use_.set(use); }

  void read(WatchedConnection& into) const {
    into.failed = failed_.load(std::memory_order_relaxed);
    into.pending = pending_.load(std::memory_order_relaxed);
    into.pending_bytes = pending_bytes_.load(std::memory_order_relaxed);
    into.since_ns = since_ns_.load(std::memory_order_relaxed);
    into.completed = completed_.load(std::memory_order_relaxed);
    into.completed_bytes = completed_bytes_.load(std::memory_order_relaxed);
    into.rail_use = rail_use_.get();
  }

 private:
  static void add(std::atomic<uint64_t>& to, uint64_t what) {
    to.store(to.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
  }

  std::atomic<bool> failed_ = false;
  std::atomic<uint64_t> pending_ = 0;
  std::atomic<uint64_t> pending_bytes_ = 0;
  std::atomic<int64_t> since_ns_ = 0;
  std::atomic<uint64_t> completed_ = 0;
  std::atomic<uint64_t> completed_bytes_ = 0;
  SeenRailUse rail_use_;
};

// A call of CollNet's that is not over.
struct WatchedCall {
  std::string name = {};  // "all_reduce"
  uint64_t number = 0;    // on its rail, from 1
  uint64_t bytes = 0;
  int64_t entered_ns = 0;
};

// A rail of CollNet's as one of its members has it.
struct WatchedRing {
  uint64_t comm_id = 0;  // as its connections'
  uint64_t context = 0;
  uint32_t member = 0;
  uint32_t members = 1;
  uint64_t completed = 0;
  uint64_t completed_bytes = 0;
  std::string cause = {};               // why it has ended; "": it has not
  std::vector<WatchedCall> calls = {};  // oldest first
};

struct WatchedNetwork {
  std::vector<WatchedRing> rings = {};
  std::vector<WatchedConnection> connections = {};
};

}  // namespace ho
