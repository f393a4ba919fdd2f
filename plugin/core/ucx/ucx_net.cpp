#include "core/ucx/ucx_net.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace ho::plugin {
std::string ucx_devices_of(const std::string& interface_name, const std::string& sysfs) {
  const std::filesystem::path folder =
      std::filesystem::path(sysfs) / "class/net" / interface_name / "device/infiniband";
  std::string devices = interface_name;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    devices += "," + name + ":1";
  }
  return devices;
}

Result<std::unique_ptr<UcxNet>> UcxNet::create(BuiltinConfig config) {
  if (config.emulated()) {
    return Status(StatusCode::kUnsupported,
                  "HORING_TRANSPORT=ucx: the rails are emulated (HORING_EMULATED_RAILS, which "
                  "horing run sets for --rails): they are addresses, and UCX can be kept to "
                  "interfaces only; run without --rails or where horing run makes network "
                  "namespaces (--emulate namespaces), or set HORING_TRANSPORT=tcp");
  }
  if (config.paced()) {
    return Status(StatusCode::kUnsupported,
                  "HORING_TRANSPORT=ucx: what UCX sends cannot be paced (HORING_RAIL_PACE_MBIT); "
                  "set HORING_TRANSPORT=tcp, or run where links can be shaped");
  }
  HORING_TRY(ho::ucx::load());
  const auto timeout = config.options.connect_timeout;
  config.options.carrier = Carrier::kUcx;
  config.options.connections = 1;
  HORING_ASSIGN(std::unique_ptr<BuiltinNet> tcp, BuiltinNet::create(std::move(config)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  return std::unique_ptr<UcxNet>(new UcxNet(std::move(tcp), timeout));
}

Result<UcxEnd> UcxNet::end_of(void* /*context*/, int32_t device, int32_t /*traffic_class*/) {
  DeviceProperties properties;
  if (tcp().properties(device, &properties) != Reply::kSuccess) {
    return invalid("there is no device " + std::to_string(device));
  }
  const std::lock_guard lock(mutex_);
  auto& context = contexts_[device];
  if (context == nullptr) {
    auto made = ho::ucx::Context::create(UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                         ucx_devices_of(properties.name));
    HORING_TRY(made.status().with_context("device " + properties.name));
    context = *std::move(made);
  }
  return UcxEnd{properties.name, context, timeout_};
}

Reply UcxNet::open(const Opening& opening, void** context) {
  if (opening.traffic_class >= 0) {
    log_warn("traffic class {}: UCX has its own, UCX_IB_TRAFFIC_CLASS; it is not set here",
             opening.traffic_class);
  }
  return CarriedNet::open(opening, context);
}

}  // namespace ho::plugin
