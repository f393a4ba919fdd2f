// A plugin's table of one version as a driver. Every call is passed on, and every reply is returned
// unchanged.
//
// The table is read at each call: plugins set members in their init. Versions up to v10 are
// initialised once for the process, as NCCL does, and never finalized; from v11 on each context is
// one of the plugin's. Where NCCL names a traffic class per connection and the plugin takes one per
// context, there is a context for each class.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "core/driver/net_driver.hpp"
#include "core/forward/versions.hpp"
#include "os/shared_library.hpp"

namespace ho::plugin::forward {

template <typename Net>
class TableDriver final : public NetDriver {
 public:
  // library: keeps the table where it is; may be empty.
  TableDriver(SharedLibrary library, const Net& table, std::string file)
      : library_(std::move(library)), table_(table), file_(std::move(file)) {}
  TableDriver(const TableDriver&) = delete;
  TableDriver& operator=(const TableDriver&) = delete;
  ~TableDriver() override {
    for (auto& [key, context] : contexts_) {
      finalize(*context);
    }
  }

  [[nodiscard]] const char* name() const override { return table_.name; }
  [[nodiscard]] std::string origin() const override {
    return fmt::format("net v{} of {}", kVersion<Net>, file_);
  }

  [[nodiscard]] Reply open(const Opening& opening, void** context) override {
    *context = nullptr;
    const std::lock_guard lock(mutex_);  // NCCL too makes one call at a time
    adopt(opening.host, host_);
    auto made = std::make_unique<Context>();
    made->comm_id = opening.comm_id;
    made->traffic_class = opening.traffic_class;
    if (const Reply reply = init_for(*made, opening.traffic_class, &made->of_plugin);
        reply != Reply::kSuccess) {
      return reply;
    }
    if (const std::string missing = missing_member(table_); !missing.empty()) {
      log_error("{} has no {}; it cannot be forwarded to", origin(), missing);
      finalize(*made);
      return Reply::kInternalError;
    }
    *context = made.get();
    contexts_[*context] = std::move(made);
    return Reply::kSuccess;
  }

  [[nodiscard]] Reply close(void* context) override {
    const std::lock_guard lock(mutex_);
    const auto node = contexts_.extract(context);
    return node.empty() ? Reply::kInvalidArgument : finalize(*node.mapped());
  }

  [[nodiscard]] Reply device_count(int32_t* count) override {
    return reply_of(table_.devices(count));
  }

  [[nodiscard]] Reply properties(int32_t device, DeviceProperties* properties) override {
    Properties raw{};
    const Reply reply = reply_of(table_.getProperties(device, &raw));
    if (reply == Reply::kSuccess) {
      *properties = properties_of(raw);
      if (table_.regMrDmaBuf == nullptr) {
        properties->memory_kinds &= ~kDmaBufMemory;
      }
    }
    return reply;
  }

  [[nodiscard]] Reply listen(void* context,
                             int32_t device,
                             void* handle,
                             void** listener) override {
    const Use use = use_of(context, kNoTrafficClass);
    return use.reply != Reply::kSuccess
               ? use.reply
               : forward::listen(table_, use.of_plugin, device, handle, listener);
  }

  [[nodiscard]] Reply connect(void* context,
                              int32_t device,
                              int32_t traffic_class,
                              void* handle,
                              void** comm,
                              void** device_handle) override {
    const Use use = use_of(context, traffic_class);
    if (use.reply != Reply::kSuccess) {
      return use.reply;
    }
    nccl_abi::DeviceHandle* of_device = nullptr;
    const Reply reply = forward::connect(
        table_, {use.of_plugin, device, use.traffic_class, handle}, comm, &of_device);
    if (device_handle != nullptr) {
      *device_handle = of_device;
    }
    return reply;
  }

  [[nodiscard]] Reply accept(void* listener, void** comm, void** device_handle) override {
    nccl_abi::DeviceHandle* of_device = nullptr;
    const Reply reply = reply_of(table_.accept(listener, comm, &of_device));
    if (device_handle != nullptr) {
      *device_handle = of_device;
    }
    return reply;
  }

  [[nodiscard]] Reply close_send(void* comm) override { return reply_of(table_.closeSend(comm)); }
  [[nodiscard]] Reply close_recv(void* comm) override { return reply_of(table_.closeRecv(comm)); }
  [[nodiscard]] Reply close_listen(void* listener) override {
    return reply_of(table_.closeListen(listener));
  }

  [[nodiscard]] Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory) override {
    return reply_of(table_.regMr(comm, data, bytes, kind, memory));
  }

  [[nodiscard]] Reply register_dma_buf(void* comm, const DmaBuf& of, void** memory) override {
    return table_.regMrDmaBuf == nullptr
               ? lacks("regMrDmaBuf")
               : reply_of(table_.regMrDmaBuf(
                     comm, of.data, of.bytes, of.kind, of.offset, of.fd, memory));
  }

  [[nodiscard]] Reply deregister(void* comm, void* memory) override {
    return reply_of(table_.deregMr(comm, memory));
  }

  [[nodiscard]] Reply isend(void* comm, const Send& send, void** request) override {
    if (kSizesAreInt<Net> && send.bytes > kMaxIntBytes) {
      return too_large(send.bytes);
    }
    return forward::isend(table_, comm, send, request);
  }

  [[nodiscard]] Reply irecv(void* comm, const Receives& receives, void** request) override {
    const int32_t count = receives.count;
    if (count < 1 || static_cast<size_t>(count) > kMaxGrouped) {
      log_error("a receive of {} messages at once; takes 1 to {}", count, kMaxGrouped);
      return Reply::kInvalidArgument;
    }
    for (int32_t i = 0; kSizesAreInt<Net> && i < count; ++i) {
      if (receives.bytes[i] > kMaxIntBytes) {
        return too_large(receives.bytes[i]);
      }
    }
    return forward::irecv(table_, comm, receives, request);
  }

  [[nodiscard]] Reply iflush(void* comm, const Flush& flush, void** request) override {
    auto* const sizes = const_cast<int32_t*>(flush.bytes);  // NOLINT: NCCL's type; only read
    return table_.iflush == nullptr
               ? lacks("iflush")
               : reply_of(
                     table_.iflush(comm, flush.count, flush.data, sizes, flush.memories, request));
  }

  [[nodiscard]] Reply test(void* request, int32_t* done, int32_t* sizes) override {
    return reply_of(table_.test(request, done, sizes));
  }

  [[nodiscard]] Extras extras() const override {
    Extras extras;
    extras.device_memory = table_.getDeviceMr != nullptr;
    extras.consumption = table_.irecvConsumed != nullptr;
    if constexpr (kVersion<Net> >= 9) {
      extras.virtual_devices = table_.makeVDevice != nullptr;
    }
    if constexpr (kHasContexts<Net>) {
      extras.attributes = table_.setNetAttr != nullptr;
    }
    return extras;
  }

  [[nodiscard]] Reply device_memory(void* comm, void* memory, void** of_device) override {
    return table_.getDeviceMr == nullptr ? lacks("getDeviceMr")
                                         : reply_of(table_.getDeviceMr(comm, memory, of_device));
  }

  [[nodiscard]] Reply consumed(void* comm, int32_t count, void* request) override {
    return table_.irecvConsumed == nullptr ? lacks("irecvConsumed")
                                           : reply_of(table_.irecvConsumed(comm, count, request));
  }

  [[nodiscard]] Reply make_virtual_device(const int32_t* parts,
                                          int32_t count,
                                          int32_t* device) override {
    if constexpr (kVersion<Net> >= 9) {
      if (table_.makeVDevice != nullptr) {
        return make_once({parts, parts + std::max(count, 0)}, device);
      }
    }
    return lacks("makeVDevice");
  }

  [[nodiscard]] Reply set_attributes(void* context, void* attributes) override {
    if constexpr (kHasContexts<Net>) {
      const Use use = use_of(context, kNoTrafficClass);
      if (use.reply != Reply::kSuccess) {
        return use.reply;
      }
      if (table_.setNetAttr != nullptr) {
        return reply_of(
            table_.setNetAttr(use.of_plugin, static_cast<nccl_abi::v11::NetAttr*>(attributes)));
      }
    }
    return lacks("setNetAttr");
  }

 private:
  using Properties = typename ArgumentsOf<decltype(Net::getProperties)>::Pointee;

  struct Context {
    uint64_t comm_id = 0;
    int32_t traffic_class = kNoTrafficClass;
    void* of_plugin = nullptr;            // of traffic_class
    std::map<int32_t, void*> of_classes;  // of other ones
  };
  struct Use {
    Reply reply = Reply::kSuccess;
    void* of_plugin = nullptr;
    int32_t traffic_class = kNoTrafficClass;
  };

  // Under the mutex.
  [[nodiscard]] Reply init_for(const Context& context, int32_t traffic_class, void** of_plugin) {
    if (!kHasContexts<Net> && initialised_) {
      return Reply::kSuccess;
    }
    const Reply reply =
        table_.init == nullptr
            ? lacks("init")
            : forward::init(table_, {context.comm_id, traffic_class, host_}, of_plugin);
    initialised_ = initialised_ || reply == Reply::kSuccess;
    if (reply != Reply::kSuccess) {
      log_error("the init of {} reported {} ({}); see its own lines before this one",
                origin(),
                to_string(reply),
                static_cast<int32_t>(reply));
    }
    return reply;
  }

  Reply finalize(Context& context) {
    Reply reply = Reply::kSuccess;
    if constexpr (kHasContexts<Net>) {
      if (table_.finalize == nullptr) {
        return reply;
      }
      for (const auto& [traffic_class, of_plugin] : context.of_classes) {
        reply = reply_of(table_.finalize(of_plugin));
      }
      const Reply last = reply_of(table_.finalize(context.of_plugin));
      reply = last != Reply::kSuccess ? last : reply;
    }
    return reply;
  }

  // What of the plugin's serves a call in this context.
  [[nodiscard]] Use use_of(void* context, int32_t traffic_class) {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(context);
    if (found == contexts_.end()) {
      log_error("{}: a call in a context that has not been opened", origin());
      return {Reply::kInvalidArgument, nullptr, kNoTrafficClass};
    }
    Context& known = *found->second;
    const int32_t wanted = traffic_class < 0 ? known.traffic_class : traffic_class;
    if (wanted >= 0 && kVersion<Net> < 10 && !std::exchange(dropped_class_, true)) {
      log_warn("{} has no traffic classes: {} is dropped", origin(), wanted);
    }
    if (!kHasContexts<Net> || wanted == known.traffic_class) {
      return {Reply::kSuccess, known.of_plugin, wanted};
    }
    if (const auto other = known.of_classes.find(wanted); other != known.of_classes.end()) {
      return {Reply::kSuccess, other->second, wanted};
    }
    void* of_plugin = nullptr;
    const Reply reply = init_for(known, wanted, &of_plugin);
    if (reply == Reply::kSuccess) {
      known.of_classes[wanted] = of_plugin;
    }
    return {reply, of_plugin, wanted};
  }

  // NCCL calls through the network and through CollNet: both get the same device.
  [[nodiscard]] Reply make_once(std::vector<int32_t> parts, int32_t* device) {
    using VirtualDevice = typename ArgumentsOf<decltype(Net::makeVDevice)>::Pointee;
    VirtualDevice wanted{};
    if (parts.size() > std::size(wanted.devs)) {
      log_error("{} makes a device of {} others at most, not of {}",
                origin(),
                std::size(wanted.devs),
                parts.size());
      return Reply::kInvalidArgument;
    }
    const std::lock_guard lock(mutex_);
    if (const auto made = virtual_devices_.find(parts); made != virtual_devices_.end()) {
      *device = made->second;
      return Reply::kSuccess;
    }
    wanted.ndevs = static_cast<int>(parts.size());
    std::ranges::copy(parts, std::begin(wanted.devs));
    const Reply reply = reply_of(table_.makeVDevice(device, &wanted));
    if (reply == Reply::kSuccess) {
      virtual_devices_[std::move(parts)] = *device;
    }
    return reply;
  }

  [[nodiscard]] Reply lacks(const char* member) const {
    log_error("{} has no {}", origin(), member);
    return Reply::kInvalidUsage;
  }

  [[nodiscard]] Reply too_large(size_t bytes) const {
    log_error(
        "{} takes {} bytes at once at most, and {} are to be moved; use a newer release "
        "of that plugin, or of NCCL, which splits messages",
        origin(),
        kMaxIntBytes,
        bytes);
    return Reply::kInvalidArgument;
  }

  SharedLibrary library_;
  const Net& table_;
  std::string file_;
  std::mutex mutex_;
  HostFunctions host_ = own_host_functions();
  bool initialised_ = false;
  bool dropped_class_ = false;
  std::unordered_map<const void*, std::unique_ptr<Context>> contexts_;
  std::map<std::vector<int32_t>, int32_t> virtual_devices_;
};

}  // namespace ho::plugin::forward
