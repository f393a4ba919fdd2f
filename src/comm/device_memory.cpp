// Device memory in calls: which buffers are, when a call may touch them, and what waits for it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "exec/sum_rates.hpp"

namespace ho {

using device::PointerFacts;

Result<std::shared_ptr<device::Device>> Communicator::open_device(
    const CommunicatorConfig& config) {
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

Result<PointerFacts> Communicator::facts_of(const void* memory) const {
  return of_driver(device::facts_of(*device_, memory));
}

Result<bool> Communicator::is_device_memory(std::string_view name,
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

Result<DeviceBuffers> Communicator::device_buffers(const CollectiveCall& call) const {
  DeviceBuffers buffers;
  if (work_ == nullptr) {
    return buffers;
  }
  const std::string name(to_string(call.collective));
  const BufferUse use = buffer_use(call);
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
  buffers.adds_pinned = device_adds_pinned_;
  return buffers;
}

Status Communicator::place_on_device(const CollectiveCall& asked, Call& call) {
  Result<DeviceBuffers> buffers = device_buffers(asked);
  if (!buffers.ok()) {
    // What a caller did wrong leaves the communicator as it is.
    const StatusCode code = buffers.status().code();
    return code == StatusCode::kInvalidArgument || code == StatusCode::kUnsupported
               ? buffers.status()
               : end_by_device(call, buffers.status());
  }
  call.device = *buffers;
  return {};
}

Status Communicator::end_by_device(const Call& call, const Status& status) {
  return engine_->fail_everywhere(
      {status.with_context(std::string(to_string(call.collective))), std::nullopt});
}

Result<std::optional<device::Event>> Communicator::entry_of(const Call& call,
                                                            device::StreamHandle stream) const {
  if (call.device.work == nullptr) {
    return std::optional<device::Event>();
  }
  HORING_ASSIGN(const auto current, device::CurrentContext::enter(*device_));
  HORING_ASSIGN(device::Event entry, device::Event::create(*device_));
  HORING_TRY(entry.record(stream));
  return std::optional(std::move(entry));
}

Status Communicator::prepare_device() {
  if (device_ == nullptr) {
    return {};
  }
  HORING_ASSIGN(work_, device::Work::create(device_));
  if (settings_.device_adds_pinned) {
    device_adds_pinned_ = *settings_.device_adds_pinned;
    return {};
  }
  HORING_ASSIGN(const PinnedSumRates rates, pinned_sum_rates(*work_));
  device_adds_pinned_ = rates.device > rates.host;
  log_debug("sums in pinned memory: {:.1f} GB/s by a core, {:.1f} GB/s by device {}",
            rates.host / 1e9,
            rates.device / 1e9,
            device_->ordinal());
  return {};
}

Status Communicator::share_device_memory(const ShmTransport& shm, Deadline deadline) {
  const std::vector<GlobalRank> members = placement_.ranks_on_host_of(self_);
  if (work_ != nullptr && settings_.device_sharing) {
    slots_ = std::make_unique<SharedSlots>(
        device_, members.size() - 1, shm.membership(), shm.others_ended());
    if (!slots_->why_not().empty()) {
      log_warn(
          "rank {} shares no device memory inside its node, so that messages go through pinned "
          "memory: {}",
          self_.value(),
          slots_->why_not());
    }
  }
  const std::string& host = placement_.host_name[self_.at()];
  HORING_ASSIGN(const auto offers,
                exchange(fmt::format("device memory on {}", host),
                         slots_ == nullptr ? std::vector<std::byte>() : slots_->offer(),
                         members,
                         deadline));
  // By member: 1 where this rank reads its memory.
  std::vector<std::byte> reads(members.size());
  for (size_t at = 0; slots_ != nullptr && at < members.size(); ++at) {
    if (members[at] == self_) {
      continue;
    }
    const Status opened = slots_->open(members[at], offers[at]);
    if (opened.code() == StatusCode::kProtocol) {
      return opened.with_context(fmt::format("rank {}", members[at].value()));
    }
    reads[at] = std::byte{opened.ok() ? uint8_t{1} : uint8_t{0}};
    if (!opened.ok()) {
      log_info(
          "rank {} does not read rank {}'s device memory, which comes through pinned memory: {}",
          self_.value(),
          members[at].value(),
          opened.message());
    }
  }
  HORING_ASSIGN(const auto readers,
                exchange(fmt::format("device memory read on {}", host), reads, members, deadline));
  const auto own =
      static_cast<size_t>(std::find(members.begin(), members.end(), self_) - members.begin());
  for (size_t at = 0; slots_ != nullptr && at < members.size(); ++at) {
    if (readers[at].size() != members.size()) {
      return {StatusCode::kProtocol,
              fmt::format("rank {}: says of {} ranks on {} whose device memory it reads, not of {}",
                          members[at].value(),
                          readers[at].size(),
                          host,
                          members.size())};
    }
    if (readers[at][own] != std::byte{0}) {
      slots_->set_reader(members[at]);
    }
  }
  return {};
}

Result<Link*> Communicator::staged(GlobalRank peer, Result<Link*> link) {
  if (work_ == nullptr || !link.ok()) {
    return link;
  }
  auto& around = staged_[*link];
  if (around == nullptr) {
    StagedLink::Shared shared;
    if (slots_ != nullptr && !(*link)->over_network()) {
      shared.slots = slots_->read_by(peer) ? slots_.get() : nullptr;
      shared.of_peer = slots_->of_peer(peer);
    }
    around = std::make_unique<StagedLink>(**link, *work_, shared);
  }
  return around.get();
}

bool Communicator::has_device_memory(const std::shared_ptr<Operation>& operation) const {
  return device_ != nullptr && operation != nullptr && engine_->has_device_memory(*operation);
}

std::optional<Status> Communicator::join(const std::shared_ptr<Operation>& operation,
                                         device::StreamHandle stream,
                                         Deadline deadline) {
  if (device_ != nullptr) {
    HORING_TRY(device::check_not_captured(*device_, stream).with_context("join"));
  }
  return operation == nullptr ? Status() : engine_->join(*operation, stream, deadline);
}

Status Communicator::register_memory(void* memory, size_t bytes) {
  if (device_ == nullptr) {
    return {StatusCode::kUnsupported,
            "ho_comm_register: this communicator has no device; set ho_comm_options.device"};
  }
  return device::pin(*device_, memory, bytes).with_context("ho_comm_register");
}

Status Communicator::deregister_memory(void* memory) {
  if (device_ == nullptr) {
    return {StatusCode::kUnsupported,
            "ho_comm_deregister: this communicator has no device; set ho_comm_options.device"};
  }
  return device::unpin(*device_, memory).with_context("ho_comm_deregister");
}

}  // namespace ho
