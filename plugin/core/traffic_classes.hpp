// Traffic classes that NCCL has named to the network, of communicators whose CollNet has not been
// opened yet: it takes its communicator's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace ho::plugin {

// Any thread.
class TrafficClasses {
 public:
  // context: the network's, of that communicator.
  void note(uint64_t comm_id, const void* context, int32_t traffic_class) {
    const std::lock_guard lock(mutex_);
    of_[comm_id] = {context, traffic_class};
  }
  // For CollNet, once.
  [[nodiscard]] std::optional<int32_t> take(uint64_t comm_id) {
    const std::lock_guard lock(mutex_);
    const auto node = of_.extract(comm_id);
    return node.empty() ? std::nullopt : std::optional(node.mapped().traffic_class);
  }
  // The network's context is closed: its communicator opens no CollNet any more.
  void forget(const void* context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(of_, [context](const auto& each) { return each.second.context == context; });
  }
  [[nodiscard]] size_t size() {
    const std::lock_guard lock(mutex_);
    return of_.size();
  }

 private:
  struct Named {
    const void* context = nullptr;
    int32_t traffic_class = 0;
  };
  std::mutex mutex_;
  std::unordered_map<uint64_t, Named> of_;
};

}  // namespace ho::plugin
