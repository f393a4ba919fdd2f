// CollNet as NCCL uses it, for all versions: the devices of a network, rails among the nodes
// that have them, and calls on those.
//
// Rails work on host memory. Where the network below moves GPU memory itself, NCCL would give that
// up on every device that CollNet offers: then none is offered, unless a setting allows it.
//
// Threads are as NetDriver's. connect() blocks until all members agree, or to its deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/job_key.hpp"
#include "core/collnet/coll_comm.hpp"
#include "core/driver/net_driver.hpp"
#include "core/driver/reply.hpp"
#include "core/driver/turned_off.hpp"
#include "os/socket.hpp"

namespace ho::plugin {

class CollNet {
 public:
  struct Settings {
    std::shared_ptr<const JobKey> job_key;
    std::chrono::milliseconds timeout{60'000};
    uint64_t wanted_piece_bytes = 0;           // 0: by the size of what moves
    bool host_memory_wanted = false;           // HORING_COLLNET_HOST
    std::function<std::string()> consistency;  // gives rail::RailMember::Setup::consistency
    std::optional<TurnedOff> off;              // the plugin cannot work: members get the reason
    // Where a member that uses the device meets the others.
    std::function<Result<SocketAddress>(int32_t device)> rendezvous_address;
  };

  CollNet(NetDriver& driver, Settings settings) : driver_(driver), settings_(std::move(settings)) {}

  // traffic_class: of the rails' connections.
  [[nodiscard]] Reply open(uint64_t comm_id, int32_t traffic_class, void** context);
  [[nodiscard]] Reply close(void* context);
  [[nodiscard]] Reply device_count(int32_t* count);
  [[nodiscard]] Reply properties(int32_t device, DeviceProperties* properties);
  // As the network's, which makes each device once, so that both have the same ones.
  [[nodiscard]] bool has_virtual_devices() const { return driver_.extras().virtual_devices; }
  [[nodiscard]] Reply make_virtual_device(const int32_t* parts, int32_t count, int32_t* device);

  [[nodiscard]] Reply listen(void* context, int32_t device, void* handle, void** listener);
  [[nodiscard]] Reply close_listen(void* listener);
  // handles: one of kHandleBytes per member, in any order.
  [[nodiscard]] Reply connect(
      void* const* handles, int32_t members, int32_t rank, void* listener, void** comm);
  // Of what is open, once, as close_listen(); a null one is closed already.
  [[nodiscard]] Reply close_comm(void* comm);
  // Both numbers are NCCL's.
  [[nodiscard]] static bool reduces(int32_t dtype, int32_t op);
  // Every type with every operation that NCCL reduces with.
  [[nodiscard]] static bool reduces_all();

  [[nodiscard]] Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory);
  [[nodiscard]] Reply deregister(void* comm, void* memory);

  struct Part {
    void* data = nullptr;
    size_t bytes = 0;
    void* memory = nullptr;
  };
  // Of NCCL's numbers.
  struct Reduction {
    int32_t dtype = 0;
    int32_t op = 0;
  };
  // One of the blocks' windows.
  struct Blocks {
    uint64_t block_bytes = 0;
    uint64_t window_offset = 0;
  };
  // A null request means "again".
  [[nodiscard]] Reply all_reduce(void* comm,
                                 const Part& from,
                                 const Part& to,
                                 uint64_t count,
                                 const Reduction& reduction,
                                 void** request);
  [[nodiscard]] Reply all_gather(
      void* comm, const Part& from, const Part& to, const Blocks& blocks, void** request);
  [[nodiscard]] Reply reduce_scatter(void* comm,
                                     const Part& from,
                                     const Part& to,
                                     const Blocks& blocks,
                                     const Reduction& reduction,
                                     void** request);
  // size may be null.
  [[nodiscard]] Reply test(void* request, int32_t* done, int32_t* size);

  // The rails that are open, for `horing status`. Any thread.
  [[nodiscard]] std::vector<WatchedRing> rings() const;
  // Whether a rail of that communicator has been connected here: what a tuner may rely on.
  [[nodiscard]] bool is_connected(uint64_t comm_id) const;
  // Whether a rail of that communicator was refused because its members differ, so that their
  // tuners might too. Not where NCCL does not number communicators (0).
  [[nodiscard]] bool members_differ(uint64_t comm_id) const;

 private:
  struct Context {
    uint64_t comm_id = 0;
    void* of_driver = nullptr;
    bool members_differ = false;
  };
  struct Listener {
    Context* context = nullptr;
    std::unique_ptr<rail::RailListener> rail;  // null: off
    TurnedOff off;                             // what members have got instead
  };
  [[nodiscard]] Result<std::unique_ptr<rail::RailListener>> open_rail(int32_t device) const;
  [[nodiscard]] Result<std::unique_ptr<CollComm>> connect_rail(void* const* handles,
                                                               int32_t members,
                                                               int32_t rank,
                                                               Listener& listener);

  NetDriver& driver_;
  Settings settings_;
  std::atomic<bool> refusal_said_{false};
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Context>> contexts_;
  std::unordered_map<void*, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<void*, std::unique_ptr<CollComm>> comms_;
};

}  // namespace ho::plugin
