#include "core/builtin/off_net.hpp"

#include "base/log.hpp"
#include "core/builtin/net_calls.hpp"

namespace ho::plugin {

Result<std::unique_ptr<NetDriver>> OffNet::create(BuiltinConfig config, const TurnedOff& off) {
  if (config.devices.empty() || config.key == nullptr) {
    return invalid("a network without devices or a key object");
  }
  config.options.off = off;
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  return std::unique_ptr<NetDriver>(new OffNet(std::move(config), off));
}

Reply OffNet::listen(void* /*context*/, int32_t /*device*/, void* handle, void** listener) {
  encode(off_, handle_bytes(handle));
  *listener = &off_;
  return Reply::kSuccess;
}

Reply OffNet::accept(void* /*listener*/, void** comm, void** /*device_handle*/) {
  *comm = nullptr;
  log_error("horing plugin: not usable, and no connection is accepted: {}", off_.why);
  return Reply::kInvalidUsage;
}

Reply OffNet::close_listen(void* /*listener*/) {
  return Reply::kSuccess;
}

}  // namespace ho::plugin
