// A plugin's library, opened as a release of NCCL opens it: by its search rules, newest table
// first, the network before CollNet, both set up once for the process before v11 and for each
// communicator since.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {

class PluginLibrary {
 public:
  // release: "2.28.9". Follows NCCL_NET_PLUGIN. Throws HostError with what was tried.
  explicit PluginLibrary(std::string_view release);
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;
  // The library stays loaded, as with NCCL_NET_PLUGIN_REF_COUNT=1.
  ~PluginLibrary() = default;

  [[nodiscard]] NetTable& net() { return *net_; }
  // nullptr: the library has none that the release supports, or it has no devices.
  [[nodiscard]] CollNetTable* coll_net() { return coll_net_.get(); }
  // Types that the release passes to reduceSupport.
  [[nodiscard]] int type_count() const { return type_count_; }

  // What a communicator has of the library.
  struct Contexts {
    void* net = nullptr;
    void* coll_net = nullptr;
  };
  // Under NCCL's lock. Throws PluginError.
  [[nodiscard]] Contexts open(uint64_t comm_id);
  void finalize(const Contexts& contexts);

  [[nodiscard]] int device_count() const { return device_count_; }
  // Lines that the plugin has logged in this process through NCCL's logger, warnings first of all.
  [[nodiscard]] static std::vector<std::string> log_lines();

 private:
  void find_tables(void* library, std::string_view release);
  void check_devices();

  std::unique_ptr<NetTable> net_;
  std::unique_ptr<CollNetTable> coll_net_;
  int type_count_ = 0;
  int device_count_ = 0;
  bool net_ready_ = false;       // before v11: init was called
  bool coll_net_ready_ = false;  // the same
  std::mutex mutex_;
};

}  // namespace ho::nccl_host
