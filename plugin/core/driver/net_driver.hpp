// A network as NCCL knows one: the calls of its newest net version, free of any version. Builtin
// (TCP) and forwarded plugins are drivers; the adapters of each ABI version and CollNet call them.
//
// Pointers are NCCL's: what a driver gives out as a listener, comm, memory or request comes back to
// it unchanged. The ownership rules are NCCL's too: who got a comm closes it, a request ends with
// the test that says done.
//
// Threads: open, close, device_count and properties on any; listen, connect, accept, registration
// and closing of one context on one thread at a time (the proxy service thread); isend, irecv,
// iflush and test of one comm on one thread at a time (a proxy progress thread), which may be
// another than the former, at the same time. Different comms are used by different threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/driver/device_properties.hpp"
#include "core/driver/reply.hpp"
#include "status/network.hpp"

namespace ho::plugin {

inline constexpr size_t kHandleBytes = 128;
// What *request of irecv() holds when NCCL does not need the completion to report sizes.
inline constexpr uintptr_t kOptionalCompletion = 1;
// Messages of one irecv at most, in any version of NCCL's: one per channel.
inline constexpr size_t kMaxGrouped = 64;
inline constexpr int32_t kNoTrafficClass = -1;

// NCCL's functions as it hands them to a network: only a driver that opens another plugin, and
// knows NCCL's types, can call them.
using HostFunction = void (*)();
struct Host {
  HostFunction log = nullptr;       // ncclDebugLogger_t
  HostFunction profiler = nullptr;  // ncclProfilerCallback_t
};

class NetDriver {
 public:
  NetDriver() = default;
  NetDriver(const NetDriver&) = delete;
  NetDriver& operator=(const NetDriver&) = delete;
  virtual ~NetDriver() = default;

  // Lives as long as the driver.
  [[nodiscard]] virtual const char* name() const = 0;

  // What must be the same at both ends of a connection, for messages: "HO-Ring over TCP".
  [[nodiscard]] virtual std::string kind() const { return name(); }

  // What it is and where it comes from, for the log: "net v10 of /usr/lib/libnccl-net-ofi.so".
  [[nodiscard]] virtual std::string origin() const = 0;
  // Devices that this host has and the driver does not offer, and why, for the log; "" for none.
  [[nodiscard]] virtual std::string left_out() const { return {}; }

  // One per communicator where NCCL says so (comm_id is the communicator's hash), otherwise one per
  // process (0). All that is asked of devices comes after the first.
  struct Opening {
    uint64_t comm_id = 0;
    int32_t traffic_class = kNoTrafficClass;  // any negative one: none
    Host host;                                // null where the caller has none of its own
  };
  [[nodiscard]] virtual Reply open(const Opening& opening, void** context) = 0;
  [[nodiscard]] virtual Reply close(void* context) = 0;

  [[nodiscard]] virtual Reply device_count(int32_t* count) = 0;
  [[nodiscard]] virtual Reply properties(int32_t device, DeviceProperties* properties) = 0;

  // handle: kHandleBytes that the driver fills for connect() on another rank.
  [[nodiscard]] virtual Reply listen(void* context,
                                     int32_t device,
                                     void* handle,
                                     void** listener) = 0;
  // Neither blocks: a null comm means "again". device_handle may be left null. traffic_class: of
  // this connection; a negative one is the context's.
  [[nodiscard]] virtual Reply connect(void* context,
                                      int32_t device,
                                      int32_t traffic_class,
                                      void* handle,
                                      void** comm,
                                      void** device_handle) = 0;
  [[nodiscard]] virtual Reply accept(void* listener, void** comm, void** device_handle) = 0;
  [[nodiscard]] virtual Reply close_send(void* comm) = 0;
  [[nodiscard]] virtual Reply close_recv(void* comm) = 0;
  [[nodiscard]] virtual Reply close_listen(void* listener) = 0;

  // kind: kHostMemory or kCudaMemory.
  [[nodiscard]] virtual Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory) = 0;
  struct DmaBuf {
    void* data = nullptr;
    size_t bytes = 0;
    int32_t kind = 0;
    uint64_t offset = 0;
    int32_t fd = -1;
  };
  [[nodiscard]] virtual Reply register_dma_buf(void* comm, const DmaBuf& buffer, void** memory) = 0;
  [[nodiscard]] virtual Reply deregister(void* comm, void* memory) = 0;

  struct Send {
    void* data = nullptr;
    size_t bytes = 0;
    int32_t tag = 0;
    void* memory = nullptr;
    void* profile = nullptr;  // handed on to NCCL's profiler
  };
  // A null request means "again", and nothing has been begun.
  [[nodiscard]] virtual Reply isend(void* comm, const Send& send, void** request) = 0;
  struct Receives {
    int32_t count = 0;
    void** data = nullptr;
    const size_t* bytes = nullptr;
    const int32_t* tags = nullptr;
    void** memories = nullptr;
    void** profiles = nullptr;  // null: none
  };
  // `count` messages at once, at most max_recvs, told apart by their tags: each is the oldest one
  // sent with its tag that no earlier receive has taken. bytes[i] is the room; a longer message is
  // an error. *request may come in as kOptionalCompletion (NCCL does not need the sizes).
  [[nodiscard]] virtual Reply irecv(void* comm, const Receives& receives, void** request) = 0;
  struct Flush {
    int32_t count = 0;
    void** data = nullptr;
    const int32_t* bytes = nullptr;
    void** memories = nullptr;
  };
  [[nodiscard]] virtual Reply iflush(void* comm, const Flush& flush, void** request) = 0;
  // sizes: one per message of the request, may be null.
  [[nodiscard]] virtual Reply test(void* request, int32_t* done, int32_t* sizes) = 0;

  // What NCCL's interface leaves to a plugin to have. Asked for after each open().
  struct Extras {
    bool device_memory = false;
    bool consumption = false;
    bool virtual_devices = false;
    bool attributes = false;
  };
  [[nodiscard]] virtual Extras extras() const { return {}; }
  // Memory handles and consumed receives of devices that the GPU drives.
  [[nodiscard]] virtual Reply device_memory(void* /*comm*/,
                                            void* /*memory*/,
                                            void** /*of_device*/) {
    return Reply::kInvalidUsage;
  }
  [[nodiscard]] virtual Reply consumed(void* /*comm*/, int32_t /*count*/, void* /*request*/) {
    return Reply::kInvalidUsage;
  }
  // A device of several, whose number comes back.
  [[nodiscard]] virtual Reply make_virtual_device(const int32_t* /*parts*/,
                                                  int32_t /*count*/,
                                                  int32_t* /*device*/) {
    return Reply::kInvalidUsage;
  }
  // NCCL's hints, which only the plugin that is forwarded to understands.
  [[nodiscard]] virtual Reply set_attributes(void* /*context*/, void* /*attributes*/) {
    return Reply::kInvalidUsage;
  }

  // Both ends' callers promise that each message is received by a receive of its own, in the order
  // of the sends and with the same tag. A driver may then save what it would tell the other end
  // about receives. On both ends or on neither, before the first message; what the promise is
  // broken by is an error, at the latest of the receiver.
  virtual void promise_order(void* /*comm*/) const {}

  // For a caller of our own that would rather sleep than poll. From the first time on that it is
  // asked for, look() alone need make progress: isend() and irecv() may leave what they begin to
  // it, so that several messages share a system call, and test() only tells. Such a caller looks
  // at what is worth it, repeats all that it waits for, and sleeps on the descriptor once nothing
  // moved and nothing is worth a look. -1: there is none.
  [[nodiscard]] virtual int progress_fd(void* /*comm*/) const { return -1; }
  // Whether something may get further though the descriptor is silent.
  [[nodiscard]] virtual bool has_pending(void* /*comm*/) const { return false; }
  // Takes in what happened: the descriptor is readable again when something else has.
  virtual void look(void* /*comm*/) const {}

  // Which context of which communicator (Opening::comm_id, 0: it is not known), told apart for as
  // long as the driver lives: a later context may have the address of one that was closed.
  struct Owner {
    uint64_t comm_id = 0;
    uint64_t context = 0;  // numbered from 1; 0: of none
  };
  // Of a context that is open.
  [[nodiscard]] virtual Owner owner_of(void* /*context*/) const { return {}; }
  // An error names a process whose connections of the same communicator, opened in other contexts
  // than this one, have broken without having been closed. NCCL asks nothing of connections that
  // are idle, so nobody else finds that. Any thread, also when the context has been closed.
  [[nodiscard]] virtual Status lost_peer(const Owner& /*self*/) const { return {}; }
  // For `horing status`: what is open, where the driver knows what its connections do. Any thread.
  [[nodiscard]] virtual std::vector<WatchedConnection> connections() const { return {}; }
};

}  // namespace ho::plugin
