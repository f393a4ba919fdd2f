// The builtin network whose data links of libhoring's tcp transport move: where a device is lost, a
// comm goes on over another one, and comes back. HORING_FAILOVER=1
// (docs/design/adr/0044-failover-in-the-link.md).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/carried/carried_net.hpp"
#include "core/links/link_rendezvous.hpp"

namespace ho::plugin {

struct LinkCarrier {
  using End = LinkEnd;
  using Call = LinkCall;
  using Answer = LinkAnswer;
  using Comm = LinkComm;
  using SendComm = LinkSendComm;
  using RecvComm = LinkRecvComm;
  using Request = LinkRequest;
};

class LinkNet final : public CarriedNet<LinkCarrier> {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LinkNet>> create(BuiltinConfig config,
                                                               const FailoverOptions& failover);

  [[nodiscard]] std::string kind() const override { return "HO-Ring over TCP with failover"; }
  [[nodiscard]] std::string origin() const override { return "builtin, TCP with failover"; }
  [[nodiscard]] Status lost_peer(const Owner& self) const override;
  void promise_order(void* comm) const override { comm_of(comm)->promise_order(); }

 private:
  LinkNet(std::unique_ptr<BuiltinNet> tcp, LinkEnd end)
      : CarriedNet(std::move(tcp)), end_(std::move(end)) {}
  [[nodiscard]] Result<LinkEnd> end_of(void* context,
                                       int32_t device,
                                       int32_t traffic_class) override;

  LinkEnd end_;  // with all devices in their order
};

}  // namespace ho::plugin
