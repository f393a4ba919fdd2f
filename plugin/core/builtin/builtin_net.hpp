// The network that comes with the plugin: TCP between this host's interfaces and the other hosts',
// authenticated, host memory only. No thread of its own: progress is made in isend, irecv and test.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "core/builtin/comm_connector.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/listener.hpp"
#include "core/builtin/net_options.hpp"
#include "core/builtin/pending_connects.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin {

struct BuiltinConfig {
  std::vector<BuiltinDevice> devices;
  std::string left_out;  // which interfaces are no devices, and why
  std::shared_ptr<const JobKey> key;
  NetOptions options;
  // This host's devices, job key, HORING_CONNECT_TIMEOUT_MS and HORING_TCP_STREAMS.
  [[nodiscard]] static Result<BuiltinConfig> from_environment();
  // Whether they are addresses that stand for a rail, and whether senders keep to a rate.
  [[nodiscard]] bool emulated() const;
  [[nodiscard]] bool paced() const;
};

class BuiltinNet : public NetDriver {
 public:
  [[nodiscard]] static Result<std::unique_ptr<BuiltinNet>> create(BuiltinConfig config);
  BuiltinNet(const BuiltinNet&) = delete;
  BuiltinNet& operator=(const BuiltinNet&) = delete;
  ~BuiltinNet() override;

  [[nodiscard]] const char* name() const override { return "HO-Ring"; }
  [[nodiscard]] std::string kind() const override { return "HO-Ring over TCP"; }

  [[nodiscard]] std::string origin() const override { return "builtin, TCP"; }
  [[nodiscard]] std::string left_out() const override { return config_.left_out; }

  // A context is not needed: calls with none are those of NCCL versions that know none.
  [[nodiscard]] Reply open(const Opening& opening, void** context) override;
  [[nodiscard]] Reply close(void* context) override;
  [[nodiscard]] Reply device_count(int32_t* count) override;
  [[nodiscard]] Reply properties(int32_t device, DeviceProperties* properties) override;
  [[nodiscard]] Reply listen(void* context, int32_t device, void* handle, void** listener) override;
  [[nodiscard]] Reply connect(void* context,
                              int32_t device,
                              int32_t traffic_class,
                              void* handle,
                              void** comm,
                              void** device_handle) override;
  [[nodiscard]] Reply accept(void* listener, void** comm, void** device_handle) override;
  [[nodiscard]] Reply close_send(void* comm) override;
  [[nodiscard]] Reply close_recv(void* comm) override;
  [[nodiscard]] Reply close_listen(void* listener) override;
  [[nodiscard]] Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory) override;
  [[nodiscard]] Reply register_dma_buf(void* comm, const DmaBuf& buffer, void** memory) override;
  [[nodiscard]] Reply deregister(void* comm, void* memory) override;
  [[nodiscard]] Reply isend(void* comm, const Send& send, void** request) override;
  [[nodiscard]] Reply irecv(void* comm, const Receives& receives, void** request) override;
  [[nodiscard]] Reply iflush(void* comm, const Flush& flush, void** request) override;
  [[nodiscard]] Reply test(void* request, int32_t* done, int32_t* sizes) override;
  void promise_order(void* comm) const override;
  [[nodiscard]] int progress_fd(void* comm) const override;
  [[nodiscard]] bool has_pending(void* comm) const override;
  void look(void* comm) const override;
  [[nodiscard]] Owner owner_of(void* context) const override;
  [[nodiscard]] Status lost_peer(const Owner& self) const override;
  [[nodiscard]] std::vector<WatchedConnection> connections() const override;
  // false: the peer has closed, or the connection is broken. Says nothing where no request is under
  // way. On the thread that calls the comm.
  [[nodiscard]] bool is_open(void* comm) const;
  // Who is at the other end, for messages.
  [[nodiscard]] static const std::string& peer_of(void* comm);
  // Nothing: there is no such context or device.
  [[nodiscard]] std::optional<BuiltinDevice> device_for(void* context,
                                                        int32_t device,
                                                        int32_t traffic_class);

 protected:
  explicit BuiltinNet(BuiltinConfig config);

 private:
  [[nodiscard]] bool has_device(int32_t device) const;
  [[nodiscard]] Owner known_owner(const void* context) const;  // with the mutex held
  void* keep(std::unique_ptr<Comm> comm, const Owner& owner);
  [[nodiscard]] Result<std::shared_ptr<CommConnector>> begin_connect(
      const PendingKey& key,
      const BuiltinDevice& device,
      std::span<std::byte, kHandleBytes> handle);

  BuiltinConfig config_;
  PendingConnects<CommConnector> pending_;
  // What registration gives out: host memory needs none.
  char memory_token_ = 0;

  struct Context {
    Owner owner;
    int32_t traffic_class = kNoTrafficClass;
  };
  template <typename T>
  struct Owned {
    std::unique_ptr<T> object;
    Owner owner;  // the context may go before what was made in it
  };
  mutable std::mutex mutex_;
  uint64_t contexts_opened_ = 0;
  std::unordered_map<const void*, std::unique_ptr<Context>> contexts_;
  std::unordered_map<const void*, Owned<Listener>> listeners_;
  std::unordered_map<const void*, Owned<Comm>> comms_;
};

}  // namespace ho::plugin
