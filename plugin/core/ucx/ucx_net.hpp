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

#include "base/status.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/carried/carried_net.hpp"
#include "core/ucx/ucx_rendezvous.hpp"

namespace ho::plugin {

struct UcxCarrier {
  using End = UcxEnd;
  using Call = UcxCall;
  using Answer = UcxAnswer;
  using Comm = UcxComm;
  using SendComm = UcxSendComm;
  using RecvComm = UcxRecvComm;
  using Request = UcxRequest;
};

class UcxNet final : public CarriedNet<UcxCarrier> {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UcxNet>> create(BuiltinConfig config);

  [[nodiscard]] std::string kind() const override { return "HO-Ring over UCX"; }
  [[nodiscard]] std::string origin() const override { return "builtin, UCX"; }
  [[nodiscard]] Reply open(const Opening& opening, void** context) override;
  // By the TCP connections on which the two ends found each other, which stay open.
  [[nodiscard]] Status lost_peer(const Owner& self) const override { return tcp().lost_peer(self); }

 private:
  UcxNet(std::unique_ptr<BuiltinNet> tcp, std::chrono::milliseconds timeout)
      : CarriedNet(std::move(tcp)), timeout_(timeout) {}
  // UCX opens the device with the first one.
  [[nodiscard]] Result<UcxEnd> end_of(void* context,
                                      int32_t device,
                                      int32_t traffic_class) override;

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<ho::ucx::Context>> contexts_;  // by device
};

// As UCX names what belongs to that interface: "eth0,mlx5_0:1".
[[nodiscard]] std::string ucx_devices_of(const std::string& interface_name,
                                         const std::string& sysfs = "/sys");

}  // namespace ho::plugin
