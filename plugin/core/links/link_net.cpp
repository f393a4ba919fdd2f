#include "core/links/link_net.hpp"

#include <algorithm>

namespace ho::plugin {
namespace {

// NCCL asks again and again whether a send is done, and says nowhere that it waits for that alone.
constexpr std::chrono::microseconds kLend{100};

}  // namespace

Result<std::unique_ptr<LinkNet>> LinkNet::create(BuiltinConfig config,
                                                 const FailoverOptions& failover) {
  LinkEnd end;
  end.job = config.key;
  end.failover = failover;
  end.failover.on = true;
  end.failover.lend = kLend;
  end.connections = config.options.connections;
  end.timeout = config.options.connect_timeout;
  for (const BuiltinDevice& device : config.devices) {
    end.rails.push_back(device.rail);
  }
  config.options.carrier = Carrier::kLinks;
  config.options.connections = 1;
  HORING_ASSIGN(std::unique_ptr<BuiltinNet> tcp, BuiltinNet::create(std::move(config)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  return std::unique_ptr<LinkNet>(new LinkNet(std::move(tcp), std::move(end)));
}

Result<LinkEnd> LinkNet::end_of(void* context, int32_t device, int32_t traffic_class) {
  const auto chosen = tcp().device_for(context, device, traffic_class);
  if (!chosen) {
    return invalid("there is no device " + std::to_string(device));
  }
  LinkEnd end = end_;
  end.device = chosen->properties.name;
  // Equal devices of two hosts stay equal: they are tried first.
  std::rotate(end.rails.begin(), end.rails.begin() + device, end.rails.end());
  for (RailInterface& rail : end.rails) {
    rail.traffic_class = chosen->rail.traffic_class;
  }
  return end;
}

Status LinkNet::lost_peer(const Owner& self) const {
  if (self.comm_id == 0) {
    return {};
  }
  return about_other_comm(self, [](const LinkComm& comm) {
    return !comm.peer_is_lost()
               ? Status()
               : Status(StatusCode::kPeerLost,
                        "the process at " + comm.peer() +
                            ", of the same communicator, has ended or given up; look at its log");
  });
}

}  // namespace ho::plugin
