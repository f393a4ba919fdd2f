// The builtin network with UCX as its carrier: what TCP's is in devices, handles and proofs, with
// the data over whatever UCX finds on each device (RDMA, RoCE, TCP). HORING_TRANSPORT=ucx.
//
// UCX proves nothing itself: the two ends prove the listener's secret and the job key to each other
// over TCP, and agree on a number that all tags carry. Who can send to the device and learns that
// number by reading the network can forge messages.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/status.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/driver/net_driver.hpp"
#include "core/ucx/ucx_rendezvous.hpp"

namespace ho::plugin {

class UcxNet final : public NetDriver {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxNet>> create(BuiltinConfig config);
  UcxNet(const UcxNet&) = delete;
  UcxNet& operator=(const UcxNet&) = delete;
  ~UcxNet() override = default;

  [[nodiscard]] const char* name() const override { return "HO-Ring"; }
  [[nodiscard]] std::string kind() const override { return "HO-Ring over UCX"; }
  [[nodiscard]] std::string origin() const override { return "builtin, UCX"; }
  [[nodiscard]] std::string left_out() const override { return tcp_->left_out(); }

  [[nodiscard]] Reply open(const Opening& opening, void** context) override;
  [[nodiscard]] Reply close(void* context) override;
  [[nodiscard]] Reply device_count(int32_t* count) override { return tcp_->device_count(count); }
  [[nodiscard]] Reply properties(int32_t device, DeviceProperties* properties) override {
    return tcp_->properties(device, properties);
  }
  [[nodiscard]] Reply listen(void* context, int32_t device, void* handle, void** listener) override;
  [[nodiscard]] Reply connect(void* context,
                              int32_t device,
                              int32_t traffic_class,
                              void* handle,
                              void** comm,
                              void** device_handle) override;
  [[nodiscard]] Reply accept(void* listener, void** comm, void** device_handle) override;
  [[nodiscard]] Reply close_send(void* comm) override;
  [[nodiscard]] Reply close_recv(void* comm) override { return close_send(comm); }
  [[nodiscard]] Reply close_listen(void* listener) override;
  [[nodiscard]] Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory) override {
    return tcp_->register_memory(comm, data, bytes, kind, memory);
  }
  [[nodiscard]] Reply register_dma_buf(void* comm, const DmaBuf& buffer, void** memory) override {
    return tcp_->register_dma_buf(comm, buffer, memory);
  }
  [[nodiscard]] Reply deregister(void* comm, void* memory) override {
    return tcp_->deregister(comm, memory);
  }
  [[nodiscard]] Reply isend(void* comm, const Send& send, void** request) override;
  [[nodiscard]] Reply irecv(void* comm, const Receives& receives, void** request) override;
  [[nodiscard]] Reply iflush(void* comm, const Flush& flush, void** request) override {
    return tcp_->iflush(comm, flush, request);
  }
  [[nodiscard]] Reply test(void* request, int32_t* done, int32_t* sizes) override;

  [[nodiscard]] int progress_fd(void* comm) const override;
  [[nodiscard]] bool has_pending(void* comm) const override;
  void look(void* comm) const override;
  // By the TCP connections on which the two ends found each other, which stay open.
  [[nodiscard]] Owner owner_of(void* context) const override { return tcp_->owner_of(context); }
  [[nodiscard]] Status lost_peer(const Owner& self) const override { return tcp_->lost_peer(self); }

 private:
  struct Listener {
    void* of_tcp = nullptr;
    int32_t device = 0;
    std::unique_ptr<UcxAnswer> answer;  // to the end whose handshake is under way
  };

  UcxNet(std::unique_ptr<BuiltinNet> tcp, std::chrono::milliseconds timeout)
      : tcp_(std::move(tcp)), timeout_(timeout) {}
  // What a device's comms are made from; UCX opens the device with the first one.
  [[nodiscard]] Result<UcxEnd> end_of(int32_t device);
  [[nodiscard]] Result<std::shared_ptr<UcxCall>> begin_call(
      const PendingKey& key, SideConnection line, std::span<std::byte, kHandleBytes> handle);
  [[nodiscard]] Result<std::unique_ptr<UcxRecvComm>> step_of(Listener& listener);
  void* keep(std::unique_ptr<UcxComm> comm);

  std::unique_ptr<BuiltinNet> tcp_;  // outlives the comms, which close its connections
  std::chrono::milliseconds timeout_;
  PendingConnects<UcxCall> pending_;
  std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<ho::ucx::Context>> contexts_;  // by device
  std::unordered_map<const void*, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<const void*, std::unique_ptr<UcxComm>> comms_;
};

// As UCX names what belongs to that interface: "eth0,mlx5_0:1".
[[nodiscard]] std::string ucx_devices_of(const std::string& interface_name,
                                         const std::string& sysfs = "/sys");

}  // namespace ho::plugin
