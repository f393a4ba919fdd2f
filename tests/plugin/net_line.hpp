// One connection of the plugin's network, from rank 0 to rank 1.
#pragma once

#include <array>
#include <thread>

#include "bench/nccl_host/error.hpp"
#include "host_job.hpp"
#include "os/clock.hpp"

namespace ho::plugin_host_test {

class NetLine {
 public:
  explicit NetLine(HostRank& self)
      : self_(self), net_(self.library().net()), contexts_(self.library().open(9)) {
    nccl_host::CommMemory memory = self.memory();
    std::array<std::byte, nccl_abi::kHandleBytes> handle{};
    void* listener = nullptr;
    if (!sends()) {
      nccl_host::require(net_.listen(contexts_.net, 0, handle.data(), &listener), "listen");
    }
    auto handles = memory.all_gather(handle);
    const Deadline deadline = deadline_after(std::chrono::seconds(60));
    while (comm_ == nullptr) {
      nccl_host::require(sends() ? net_.connect(contexts_.net, 0, handles[1].data(), &comm_)
                                 : net_.accept(listener, &comm_),
                         "connect or accept");
      nccl_host::expect(!passed(deadline), "both ends connect");
      std::this_thread::yield();
    }
    if (listener != nullptr) {
      nccl_host::require(net_.close_listen(listener), "closeListen");
    }
  }
  NetLine(const NetLine&) = delete;
  NetLine& operator=(const NetLine&) = delete;
  ~NetLine() = default;

  [[nodiscard]] bool sends() const { return self_.rank() == 0; }
  [[nodiscard]] void* comm() const { return comm_; }
  [[nodiscard]] void* memory() const { return memory_; }
  void register_memory(void* data, size_t bytes) {
    nccl_host::require(net_.register_memory(comm_, data, bytes, nccl_abi::kPointerHost, &memory_),
                       "regMr");
  }
  void close() {
    nccl_host::require(net_.deregister(comm_, memory_), "deregMr");
    nccl_host::require(sends() ? net_.close_send(comm_) : net_.close_recv(comm_), "close");
    self_.library().finalize(contexts_);
  }

 private:
  HostRank& self_;
  nccl_host::NetTable& net_;
  nccl_host::PluginLibrary::Contexts contexts_;
  void* comm_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace ho::plugin_host_test
