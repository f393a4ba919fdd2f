#include "comm/call_device.hpp"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "base/log.hpp"
#include "exec/sum_rates.hpp"

namespace ho {

using device::PointerFacts;

Result<std::shared_ptr<device::Device>> open_device(const CommunicatorConfig& config) {
  if (!config.device) {
    return std::shared_ptr<device::Device>();
  }
  HORING_ASSIGN(const device::Driver* const driver, device::driver());
  if (*config.device >= 0) {
    return device::Device::open(*driver, *config.device);
  }
  const uint32_t local_rank = config.rendezvous.local_rank.value_or(0);
  HORING_ASSIGN(const int ordinal, device::device_of_local_rank(*driver, local_rank));
  return device::Device::open(*driver, ordinal);
}

namespace {

// A driver that fails here is no mistake of the caller's, whatever it says.
template <typename T>
Result<T> of_driver(Result<T> result) {
  return result.ok() ? std::move(result) : Status(StatusCode::kSystem, result.status().message());
}

}  // namespace

Result<PointerFacts> CallDevice::facts_of(const void* memory) const {
  return of_driver(device::facts_of(*device_, memory));
}

Result<bool> CallDevice::is_device_memory(std::string_view name,
                                          const void* memory,
                                          uint64_t bytes) const {
  HORING_ASSIGN(const PointerFacts facts, facts_of(memory));
  if (facts.kind == PointerFacts::Kind::kManaged) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} is managed memory; pass memory of cudaMalloc", name));
  }
  if (facts.kind != PointerFacts::Kind::kDevice) {
    return false;
  }
  if (facts.ordinal != device_->ordinal()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is memory of device {}, this communicator was made for device "
                              "{}; make one per device",
                              name,
                              facts.ordinal,
                              device_->ordinal()));
  }
  HORING_ASSIGN(const size_t left, of_driver(device::bytes_from(*device_, memory, facts, bytes)));
  if (bytes > left) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} has {} bytes up to the end of its allocation, the call needs {}",
                              name,
                              left,
                              bytes));
  }
  return true;
}

Result<DeviceBuffers> CallDevice::buffers_of(const CollectiveCall& call,
                                             const BufferUse& use) const {
  DeviceBuffers buffers;
  const std::string name(to_string(call.collective));
  if (use.send > 0) {
    HORING_ASSIGN(buffers.input, is_device_memory(name + ": send", call.send, use.send));
  }
  if (use.recv > 0) {
    HORING_ASSIGN(buffers.output, is_device_memory(name + ": recv", call.recv, use.recv));
  }
  if (!buffers.input && !buffers.output) {
    return buffers;
  }
  const bool host_send = use.send > 0 && !buffers.input;
  const bool host_recv = use.recv > 0 && !buffers.output;
  if (host_send || host_recv) {
    HORING_ASSIGN(const PointerFacts facts, facts_of(host_send ? call.send : call.recv));
    if (facts.kind == PointerFacts::Kind::kPageable) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: {} is ordinary host memory beside device memory; pin it "
                                "(cudaHostAlloc, pin_memory()) or register it with "
                                "ho_comm_register",
                                name,
                                host_send ? "send" : "recv"));
    }
  }
  buffers.mixed = host_send || host_recv;
  HORING_TRY(device::check_stream(*device_, call.options.stream).with_context(name));
  buffers.work = work_.get();
  buffers.adds_pinned = adds_pinned_;
  return buffers;
}

Result<std::optional<device::Event>> CallDevice::entry_of(const Call& call,
                                                          device::StreamHandle stream) const {
  if (call.device.work == nullptr) {
    return std::optional<device::Event>();
  }
  HORING_ASSIGN(const auto current, device::CurrentContext::enter(*device_));
  HORING_ASSIGN(device::Event entry, device::Event::create(*device_));
  HORING_TRY(entry.record(stream));
  return std::optional(std::move(entry));
}

Status CallDevice::prepare(const CommunicatorSettings& settings,
                           GlobalRank self,
                           const ShmTransport& shm) {
  if (device_ == nullptr) {
    return {};
  }
  HORING_ASSIGN(work_, device::Work::create(device_));
  HORING_TRY(choose_adder(settings));
  if (settings.device_sharing) {
    slots_ = std::make_unique<SharedSlots>(self, device_, shm.membership(), shm.others_ended());
  }
  return {};
}

Status CallDevice::choose_adder(const CommunicatorSettings& settings) {
  if (settings.device_adds_pinned) {
    adds_pinned_ = *settings.device_adds_pinned;
    return {};
  }
  HORING_ASSIGN(const PinnedSumRates rates, pinned_sum_rates(*work_));
  adds_pinned_ = rates.device > rates.host;
  log_debug("sums in pinned memory: {:.1f} GB/s by a core, {:.1f} GB/s by device {}",
            rates.host / 1e9,
            rates.device / 1e9,
            device_->ordinal());
  return {};
}

Status CallDevice::check_not_captured(device::StreamHandle stream) const {
  return device_ == nullptr ? Status() : device::check_not_captured(*device_, stream);
}

Result<Link*> CallDevice::staged(GlobalRank peer, Result<Link*> link) {
  if (work_ == nullptr || !link.ok()) {
    return link;
  }
  auto& around = staged_[*link];
  if (around == nullptr) {
    StagedLink::Shared shared;
    if (slots_ != nullptr && !(*link)->over_network()) {
      shared = {slots_.get(), peer};
    }
    around = std::make_unique<StagedLink>(**link, *work_, shared);
  }
  return around.get();
}

Status CallDevice::register_memory(void* memory, size_t bytes) const {
  if (device_ == nullptr) {
    return {StatusCode::kUnsupported,
            "ho_comm_register: this communicator has no device; set ho_comm_options.device"};
  }
  return device::pin(*device_, memory, bytes).with_context("ho_comm_register");
}

Status CallDevice::deregister_memory(void* memory) const {
  if (device_ == nullptr) {
    return {StatusCode::kUnsupported,
            "ho_comm_deregister: this communicator has no device; set ho_comm_options.device"};
  }
  return device::unpin(*device_, memory).with_context("ho_comm_deregister");
}

}  // namespace ho
