// What the net adapters of all versions do, for what a version's table asks of them: each member
// takes, of the functions of its name, the one with its arguments. Everything else is the driver's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "adapter/properties.hpp"

namespace ho::plugin {

NetDriver& net();

namespace every_version {

nccl_abi::Result accept(void* listener, void** receiver, nccl_abi::DeviceHandle** device_handle);
nccl_abi::RegisterDmaBuf register_dma_buf;
nccl_abi::Flush iflush;

// That name no context: there is one for the process.
nccl_abi::Result listen(int device, void* handle, void** listener);
nccl_abi::Result connect(int device,
                         void* handle,
                         void** sender,
                         nccl_abi::DeviceHandle** device_handle);
// And a traffic class, in v10.
nccl_abi::Result connect_classed(int device,
                                 int traffic_class,
                                 void* handle,
                                 void** sender,
                                 nccl_abi::DeviceHandle** device_handle);
template <typename CommConfig>
nccl_abi::Result connect(int device,
                         CommConfig* config,
                         void* handle,
                         void** sender,
                         nccl_abi::DeviceHandle** device_handle) {
  const int traffic_class = config == nullptr ? kNoTrafficClass : config->trafficClass;
  return connect_classed(device, traffic_class, handle, sender, device_handle);
}
// That name theirs, since v11.
nccl_abi::Result listen(void* context, int device, void* handle, void** listener);
nccl_abi::Result connect(
    void* context, int device, void* handle, void** sender, nccl_abi::DeviceHandle** device_handle);
nccl_abi::Result finalize(void* context);
// In v8, since v9, and since v10 with the profiler's handles.
nccl_abi::Result isend(void* sender, void* data, int size, int tag, void* memory, void** request);
nccl_abi::Result isend(
    void* sender, void* data, size_t size, int tag, void* memory, void** request);
nccl_abi::ProfiledSend isend;
nccl_abi::ReceiveInto<int> irecv;
nccl_abi::ReceiveInto<size_t> irecv;
nccl_abi::ProfiledReceive irecv;

}  // namespace every_version

// What the driver has beyond what must be there, once it is open. NCCL reads the table after init.
template <typename Net>
void offer_extras(Net& table) {
  const NetDriver::Extras extras = net().extras();
  offer(table.getDeviceMr, extras.device_memory, call<net, &NetDriver::device_memory>);
  offer(table.irecvConsumed, extras.consumption, call<net, &NetDriver::consumed>);
  if constexpr (requires { table.makeVDevice; }) {
    offer(table.makeVDevice, extras.virtual_devices, make_virtual_device<net>);
  }
  if constexpr (requires { table.setNetAttr; }) {
    offer(table.setNetAttr, extras.attributes, call<net, &NetDriver::set_attributes>);
  }
}

// Null: of the process.
Reply open_context(int version,
                   nccl_abi::DebugLogger logger,
                   nccl_abi::ProfilerCallback profiler,
                   NetDriver::Opening opening,
                   void** context);

// init() of the table of that version.
template <auto& table, int version>
struct NetInit {
  using Result = nccl_abi::Result;

  static Result init(nccl_abi::DebugLogger logger) { return init(logger, nullptr); }
  static Result init(nccl_abi::DebugLogger logger, nccl_abi::ProfilerCallback profiler) {
    return opened(logger, profiler, {}, nullptr);
  }
  template <typename CommConfig>
  static Result init(void** context,
                     uint64_t communicator,
                     CommConfig* config,
                     nccl_abi::DebugLogger logger,
                     nccl_abi::ProfilerCallback profiler) {
    NetDriver::Opening opening;
    opening.comm_id = communicator;
    opening.traffic_class = config == nullptr ? kNoTrafficClass : config->trafficClass;
    return opened(logger, profiler, opening, context);
  }

 private:
  static Result opened(nccl_abi::DebugLogger logger,
                       nccl_abi::ProfilerCallback profiler,
                       const NetDriver::Opening& opening,
                       void** context) {
    return guarded([&] {
      const Reply reply = open_context(version, logger, profiler, opening, context);
      if (reply == Reply::kSuccess) {
        offer_extras(table);
      }
      return reply;
    });
  }
};

template <auto& table, int version>
consteval auto net_table() {
  std::remove_reference_t<decltype(table)> made{};
  made.name = kNetName;
  made.init = NetInit<table, version>::init;
  made.devices = call<net, &NetDriver::device_count>;
  made.getProperties = get_properties<net>;
  made.listen = every_version::listen;
  made.connect = every_version::connect;
  made.accept = every_version::accept;
  made.regMr = call<net, &NetDriver::register_memory>;
  made.regMrDmaBuf = every_version::register_dma_buf;
  made.deregMr = call<net, &NetDriver::deregister>;
  made.isend = every_version::isend;
  made.irecv = every_version::irecv;
  made.iflush = every_version::iflush;
  made.test = call<net, &NetDriver::test>;
  made.closeSend = call<net, &NetDriver::close_send>;
  made.closeRecv = call<net, &NetDriver::close_recv>;
  made.closeListen = call<net, &NetDriver::close_listen>;
  if constexpr (requires { made.finalize; }) {
    made.finalize = every_version::finalize;
  }
  return made;
}

}  // namespace ho::plugin

// Defines what NCCL finds of that version.
#define HORING_NET_TABLE(version)                                \
  extern "C" __attribute__((visibility("default")))              \
  nccl_abi::v##version::Net ncclNetPlugin_v##version;            \
  constinit nccl_abi::v##version::Net ncclNetPlugin_v##version = \
      ho::plugin::net_table<ncclNetPlugin_v##version, version>()
