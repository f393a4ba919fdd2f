#include "cli/plugin/plugin_probe.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "abi/tables.hpp"

namespace ho {
namespace {

// Where the plugin's log goes: NCCL's logger takes no context.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::vector<std::string> warnings;
};

Heard& heard() {
  static Heard all;
  return all;
}

void hear(nccl_abi::LogLevel level,
          unsigned long /*flags*/,
          const char* /*file*/,
          int /*line*/,
          const char* format,
          ...) {
  std::array<char, 4096> text{};
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(heard().mutex);
  if (level == nccl_abi::LogLevel::kWarn) {
    heard().warnings.emplace_back(text.data());
  } else if (level == nccl_abi::LogLevel::kInfo) {
    heard().lines.emplace_back(text.data());
  }
}

size_t line_count() {
  const std::lock_guard lock(heard().mutex);
  return heard().lines.size();
}

// "" where there is none.
std::string last_line_since(size_t count) {
  const std::lock_guard lock(heard().mutex);
  return heard().lines.size() > count ? heard().lines.back() : "";
}

constexpr uint64_t kCommunicator = 1;

// Networks, then CollNets, by what their versions take.
template <typename Table>
bool start(const Table& table, void*& context) {
  nccl_abi::Result result = nccl_abi::Result::kInternalError;
  if constexpr (requires { table.init(hear); }) {
    result = table.init(hear);
  } else if constexpr (requires { table.init(hear, nullptr); }) {
    result = table.init(hear, nullptr);
  } else if constexpr (requires { table.init(&context, kCommunicator, hear); }) {
    result = table.init(&context, kCommunicator, hear);
  } else {
    nccl_abi::v11::CommConfig config{};
    config.trafficClass = -1;  // as where none is set
    result = table.init(&context, kCommunicator, &config, hear, nullptr);
  }
  return result == nccl_abi::Result::kSuccess;
}

template <typename Table>
void finish(const Table& table, void* context) {
  if constexpr (requires { table.finalize(context); }) {
    (void)table.finalize(context);
  }
}

template <typename Table, typename Properties>
std::vector<ProbedDevice> devices_of(const Table& table,
                                     nccl_abi::Result (*get_properties)(int, Properties*)) {
  std::vector<ProbedDevice> devices;
  int count = 0;
  if (table.devices(&count) != nccl_abi::Result::kSuccess) {
    return devices;
  }
  for (int device = 0; device < count; ++device) {
    Properties properties{};
    if (get_properties(device, &properties) == nccl_abi::Result::kSuccess) {
      devices.push_back({properties.name == nullptr ? "" : properties.name,
                         properties.pciPath == nullptr ? "" : properties.pciPath,
                         properties.speed,
                         false});
    }
  }
  return devices;
}

struct Devices {
  bool started = false;
  std::vector<ProbedDevice> list;
};

template <typename Table>
Devices probe_table(const Table& table) {
  Devices devices;
  void* context = nullptr;
  devices.started = start(table, context);
  if (devices.started) {
    devices.list = devices_of(table, table.getProperties);
    finish(table, context);
  }
  return devices;
}

template <typename Tables>
Devices probe_devices(const FoundPlugin& plugin) {
  Devices devices;
  (void)nccl_abi::visit_table(
      Tables(), plugin.version, plugin.table, [&](auto /*version*/, const auto& table) {
        devices = probe_table(table);
      });
  return devices;
}

// For a communicator of two nodes with a rank each.
template <typename Table>
bool probe_tuner_table(const Table& table) {
  void* context = nullptr;
  if constexpr (requires { table.destroy(context); }) {
    return table.init(2, 2, hear, &context) == nccl_abi::Result::kSuccess &&
           table.destroy(context) == nccl_abi::Result::kSuccess;
  } else {
    nccl_abi::v5::NvlDomainInfo domains{2, 1, 1};
    nccl_abi::v5::TunerConstants constants{};
    return table.init(&context, kCommunicator, 2, 2, hear, &domains, &constants) ==
               nccl_abi::Result::kSuccess &&
           table.finalize(context) == nccl_abi::Result::kSuccess;
  }
}

bool probe_tuner(const FoundPlugin& tuner) {
  bool works = false;
  (void)nccl_abi::visit_table(
      nccl_abi::TunerTables(),
      tuner.version,
      tuner.table,
      [&](auto /*version*/, const auto& table) { works = probe_tuner_table(table); });
  return works;
}

}  // namespace

ProbedPlugin probe_plugin(const Findings& findings) {
  ProbedPlugin probed;
  const Devices net = probe_devices<nccl_abi::NetTables>(*findings.net());
  probed.started = net.started;
  probed.devices = net.list;
  if (net.started && findings.coll_net.ours()) {
    const size_t said_before = line_count();
    for (const ProbedDevice& device :
         probe_devices<nccl_abi::CollNetTables>(findings.coll_net).list) {
      for (ProbedDevice& same : probed.devices) {
        same.coll_net = same.coll_net || same.name == device.name;
      }
    }
    probed.coll_net_said = last_line_since(said_before);
  }
  probed.has_tuner = findings.tuner.ours() && probe_tuner(findings.tuner);
  const std::lock_guard lock(heard().mutex);
  probed.log = heard().lines;
  probed.warnings = heard().warnings;
  return probed;
}

}  // namespace ho
