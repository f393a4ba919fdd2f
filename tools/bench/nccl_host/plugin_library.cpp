#include "bench/nccl_host/plugin_library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "abi/lookup.hpp"
#include "base/env.hpp"
#include "bench/nccl_host/error.hpp"

namespace ho::nccl_host {
namespace {

using nccl_abi::PluginKind;
using nccl_abi::Release;

std::mutex& log_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<std::string>& log_store() {
  static std::vector<std::string> lines;
  return lines;
}

constexpr size_t kMaxLines = 1000;

// NCCL's logger, whose place for the text this is.
__attribute__((format(printf, 5, 6))) void log_line(nccl_abi::LogLevel level,
                                                    unsigned long /*flags*/,
                                                    const char* /*file*/,
                                                    int /*line*/,
                                                    const char* format,
                                                    ...) {
  std::array<char, 2048> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log_mutex());
  if (log_store().size() < kMaxLines) {
    log_store().push_back((level == nccl_abi::LogLevel::kWarn ? "warn " : "info ") +
                          std::string(text.data()));
  }
}

const Release& release_of(std::string_view text) {
  const auto found = nccl_abi::find_release(text);
  if (!found) {
    throw HostError("'" + std::string(text) + "' is no NCCL release that is known");
  }
  return *found->release;
}

void* open_first(const Release& release, std::string& tried) {
  const auto plugins =
      nccl_abi::files_tried(release, PluginKind::kNet, std::getenv("NCCL_NET_PLUGIN"));
  for (const auto& files : plugins) {
    for (const std::string& file : files) {
      const char* const name = file.empty() ? nullptr : file.c_str();
      if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        return library;
      }
      const char* const why = ::dlerror();
      tried += "; " + file + ": " + (why == nullptr ? "" : why);
    }
  }
  return nullptr;
}

// That both have; or nullptr.
template <typename Table>
std::unique_ptr<Table> newest_table(void* library, const Release& release, PluginKind kind) {
  for (const int version : nccl_abi::versions(release, kind)) {
    if (void* const symbol = ::dlsym(library, nccl_abi::symbol(kind, version).c_str())) {
      return Table::of(version, symbol);
    }
  }
  return nullptr;
}

}  // namespace

PluginLibrary::PluginLibrary(std::string_view release) {
  std::string tried;
  void* const library = open_first(release_of(release), tried);
  if (library == nullptr) {
    throw HostError("NCCL " + std::string(release) + " finds no plugin" + tried);
  }
  find_tables(library, release);
}

void PluginLibrary::find_tables(void* library, std::string_view release) {
  const Release& row = release_of(release);
  type_count_ = row.data_types;
  net_ = newest_table<NetTable>(library, row, PluginKind::kNet);
  if (net_ == nullptr) {
    throw HostError("NCCL " + std::string(release) + " finds no net table in the library");
  }
  coll_net_ = newest_table<CollNetTable>(library, row, PluginKind::kCollNet);
}

// NCCL keys NICs by name and takes collnet's properties for them: both must give the same.
void PluginLibrary::check_devices() {
  std::set<std::string> names;
  std::set<std::pair<uint64_t, int>> steps_back;
  for (int device = 0; device < device_count_; ++device) {
    DeviceProperties net;
    require(net_->properties(device, &net), "net getProperties");
    expect(!net.name.empty() && names.insert(net.name).second, "devices have names of their own");
    expect(steps_back.insert({net.guid, net.port}).second, "devices have guids of their own");
    expect(net.speed_mbps >= 1000 && net.max_comms > 0 && net.max_recvs > 0, "usable properties");
    constexpr size_t kMax = nccl_abi::kMaxSizeBytes;
    expect(net_->version() < 9 || (net.max_p2p_bytes > 0 && net.max_p2p_bytes <= kMax),
           "maxP2pBytes is in range");
    expect(net_->version() < 9 || (net.max_coll_bytes > 0 && net.max_coll_bytes <= kMax),
           "maxCollBytes is in range");
    const bool numbers_rails = net_->version() >= 12 && env::text(env::kNetForward).empty();
    expect(!numbers_rails || (net.rail_id == device && net.plane_id == device),
           "rails are numbered as devices are");
    if (coll_net_ == nullptr) {
      continue;
    }
    DeviceProperties coll;
    require(coll_net_->properties(device, &coll), "collnet getProperties");
    expect(coll.name == net.name && coll.guid == net.guid && coll.rail_id == net.rail_id,
           "CollNet has the network's devices");
  }
}

PluginLibrary::Contexts PluginLibrary::open(uint64_t comm_id) {
  const std::lock_guard lock(mutex_);
  Contexts contexts;
  if (net_->has_contexts() || !net_ready_) {
    require(net_->init(&contexts.net, comm_id, log_line), "net init");
    require(net_->devices(&device_count_), "net devices");
    expect(device_count_ > 0, "the network has devices");
  }
  if (coll_net_ != nullptr && (coll_net_->has_contexts() || !coll_net_ready_)) {
    int count = 0;
    if (coll_net_->init(&contexts.coll_net, comm_id, log_line) != nccl_abi::Result::kSuccess ||
        coll_net_->devices(&count) != nccl_abi::Result::kSuccess || count == 0) {
      coll_net_.reset();  // NCCL does without it from now on
    }
    coll_net_ready_ = true;
  }
  if (!net_ready_) {
    check_devices();
  }
  net_ready_ = true;
  return contexts;
}

void PluginLibrary::finalize(const Contexts& contexts) {
  const std::lock_guard lock(mutex_);
  if (coll_net_ != nullptr) {
    require(coll_net_->finalize(contexts.coll_net), "collnet finalize");
  }
  require(net_->finalize(contexts.net), "net finalize");
}

std::vector<std::string> PluginLibrary::log_lines() {
  const std::lock_guard lock(log_mutex());
  return log_store();
}

}  // namespace ho::nccl_host
