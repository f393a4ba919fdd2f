#include "bench/nccl_host/coll_net_comm.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/registered_run.hpp"

namespace ho::nccl_host {
namespace {

constexpr int kCheckedOps = 4;  // NCCL checks sum, prod, max and min

}  // namespace

CollNetComm::CollNetComm(PluginLibrary& library,
                         const CommMemory& memory,
                         uint64_t comm_id,
                         const CollNetOptions& options)
    : library_(library),
      memory_(memory),
      options_(options),
      contexts_(library.open(comm_id)),
      service_("nccl service"),
      progress_("nccl progress"),
      kernel_("kernel double") {
  rail_.table = library_.coll_net();
}

CollNetComm::~CollNetComm() {
  try {
    close();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): callers that need the error
                                     // call close()
  }
}

// NCCL collects the heads of all nodes in ascending order of global ranks.
std::vector<CollNetComm::Handle> CollNetComm::handles_of_rail(
    const std::vector<Handle>& all) const {
  std::vector<Handle> mine;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    if (memory_.shape().local_of(rank) == memory_.shape().local_of(memory_.rank())) {
      mine.push_back(all[rank]);
    }
  }
  const auto shift = static_cast<std::ptrdiff_t>(options_.rotate_handles % mine.size());
  std::rotate(mine.begin(), mine.begin() + shift, mine.end());
  return mine;
}

bool CollNetComm::connect_group(std::vector<Handle> handles, void* listener) {
  std::vector<void*> pointers;
  pointers.reserve(handles.size());
  for (Handle& handle : handles) {
    pointers.push_back(handle.data());
  }
  nccl_abi::Result result = nccl_abi::Result::kSuccess;
  service_.run([&] {
    result = rail_.table->connect(pointers.data(),
                                  static_cast<int>(pointers.size()),
                                  static_cast<int>(memory_.node()),
                                  listener,
                                  &rail_.group);
    require(rail_.table->close_listen(listener), "collnet closeListen");
  });
  return result == nccl_abi::Result::kSuccess;
}

// NCCL itself compares inside a node only, and hangs where nodes have different results.
CollNetState CollNetComm::agree(bool connected) {
  uint32_t used = 0;
  for (const uint8_t of_rank : memory_.all_gather(static_cast<uint8_t>(connected))) {
    used += of_rank;
  }
  if (used != 0 && used != memory_.shape().world()) {
    throw HostError("CollNet connected on " + std::to_string(used) + " of " +
                    std::to_string(memory_.shape().world()) + " ranks: NCCL would hang");
  }
  return used != 0 ? CollNetState::kUsed : CollNetState::kRefused;
}

uint64_t CollNetComm::most_bytes_of_call(const DeviceProperties& device) const {
  if (options_.most_call_bytes != 0) {
    return options_.most_call_bytes;
  }
  return device.max_coll_bytes != 0 ? device.max_coll_bytes : nccl_abi::kMaxCollNetBytesV8;
}

void* CollNetComm::listen(Handle& handle) {
  void* listener = nullptr;
  expect(rail_.table != nullptr, "the library has CollNet");
  const int device = static_cast<int>(memory_.local()) % library_.device_count();
  service_.run([&] {
    DeviceProperties properties;
    require(rail_.table->properties(device, &properties), "collnet getProperties");
    most_call_bytes_ = most_bytes_of_call(properties);
    require(rail_.table->listen(contexts_.coll_net, device, handle.data(), &listener),
            "collnet listen");
  });
  return listener;
}

CollNetState CollNetComm::connect() {
  Handle handle{};
  void* const listener = listen(handle);
  if (options_.before_connect) {
    options_.before_connect();
  }
  const auto handles = handles_of_rail(memory_.all_gather(handle));
  const CollNetState state = agree(connect_group(handles, listener));
  if (state == CollNetState::kUsed) {
    ask_for_reductions();
    register_region();
    if (options_.user_buffers) {
      register_user_buffers();
    }
  }
  return state;
}

CollNetState CollNetComm::connect_without_coming() {
  Handle handle{};
  void* const listener = listen(handle);
  static_cast<void>(memory_.all_gather(handle));
  const CollNetState state = agree(false);
  service_.run([&] { require(rail_.table->close_listen(listener), "collnet closeListen"); });
  return state;
}

void CollNetComm::stay_away() {
  static_cast<void>(memory_.all_gather(Handle{}));
  static_cast<void>(agree(false));
}

void CollNetComm::ask_for_reductions() {
  for (int dtype = 0; dtype < library_.type_count(); ++dtype) {
    for (int op = 0; op < kCheckedOps; ++op) {
      int supported = 0;
      require(rail_.table->reduce_support({dtype, op}, &supported), "reduceSupport");
      supported_.push_back(supported != 0);
    }
  }
}

bool CollNetComm::reduces(DType dtype, ReduceOp op) const {
  const size_t index = static_cast<size_t>(dtype) * kCheckedOps + static_cast<size_t>(op);
  return static_cast<int>(op) < kCheckedOps && index < supported_.size() && supported_[index];
}

// Twice per channel the same region, as NCCL does.
void CollNetComm::register_region() {
  const size_t bytes = CollPlan::region_bytes(options_.settings);
  Result<PrivateMemory> mapped = PrivateMemory::create(bytes);
  if (!mapped.ok()) {
    throw HostError("no memory for CollNet's buffers: " + mapped.status().message() + " for " +
                    std::to_string(options_.settings.channels) + " channels with slots of " +
                    std::to_string(options_.settings.slot_bytes) +
                    " bytes; use fewer channels or smaller slots");
  }
  region_ = std::move(*mapped);
  const auto region = region_.bytes();
  std::ranges::fill(region, kPoison);
  rail_.region = region.data();
  service_.run([&] {
    for (uint32_t channel = 0; channel < options_.settings.channels; ++channel) {
      for (auto* const memories : {&rail_.recv_memory, &rail_.send_memory}) {
        void* memory = nullptr;
        require(rail_.table->register_memory(
                    rail_.group, region.data(), region.size(), nccl_abi::kPointerHost, &memory),
                "collnet regMr");
        memories->push_back(memory);
      }
    }
  });
}

void CollNetComm::register_user_buffers() {
  const auto registered = [this](std::span<std::byte> buffer) {
    void* memory = nullptr;
    require(rail_.table->register_memory(
                rail_.group, buffer.data(), buffer.size(), nccl_abi::kPointerHost, &memory),
            "collnet regMr of a user's buffer");
    return memory;
  };
  service_.run([&] {
    rail_.user_send = registered(memory_.send_buffer(memory_.local()));
    rail_.user_recv = registered(memory_.recv_buffer(memory_.local()));
  });
}

void CollNetComm::register_other_memory() {
  std::vector<std::byte> other(4096);
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i) {
    void* memory = nullptr;
    require(rail_.table->register_memory(
                rail_.group, other.data(), other.size(), nccl_abi::kPointerHost, &memory),
            "collnet regMr meanwhile");
    require(rail_.table->deregister(rail_.group, memory), "collnet deregMr meanwhile");
  }
}

void CollNetComm::run(const Work& work) {
  memory_.node_barrier();  // inputs are written, results may be written
  if (options_.user_buffers && memory_.shape().ranks_per_node == 1) {
    run_registered(work);
  } else {
    run_in_slots(work);
  }
  memory_.node_barrier();  // all heads of the node have written their parts of my result
}

void CollNetComm::run_registered(const Work& work) {
  RegisteredRun run(work, rail_, memory_, most_call_bytes_);
  progress_.run([&] { run.run(); });
  calls_ += run.calls();
  again_ += run.again();
}

void CollNetComm::run_in_slots(const Work& work) {
  const CollPlan plan(work, memory_.shape(), memory_.rank(), options_.settings);
  CollRun run(plan, rail_, memory_, options_.poison);
  std::future<void> kernel = kernel_.post([&] { run.run_kernel(); });
  std::future<void> proxy = progress_.post([&] {
    try {
      run.run_proxy();
    } catch (...) {
      run.stop();
      throw;
    }
  });
  std::future<void> other = service_.post([&] {
    if (options_.registers_meanwhile) {
      register_other_memory();
    }
  });
  wait_for_all({&proxy, &kernel, &other});
  calls_ += run.calls();
  again_ += run.again();
}

void CollNetComm::release_group() {
  if (rail_.group == nullptr) {
    return;
  }
  for (auto* const memories : {&rail_.send_memory, &rail_.recv_memory}) {
    for (void* const memory : *memories) {
      require(rail_.table->deregister(rail_.group, memory), "collnet deregMr");
    }
    memories->clear();
  }
  for (void** const memory : {&rail_.user_send, &rail_.user_recv}) {
    if (*memory != nullptr) {
      require(rail_.table->deregister(rail_.group, std::exchange(*memory, nullptr)),
              "collnet deregMr of a user's buffer");
    }
  }
  require(rail_.table->close_group(std::exchange(rail_.group, nullptr)), "collnet closeColl");
}

void CollNetComm::close() {
  if (std::exchange(closed_, true)) {
    return;
  }
  if (options_.early_finalize) {
    library_.finalize(contexts_);
  }
  service_.run([this] { release_group(); });
  if (!options_.early_finalize) {
    library_.finalize(contexts_);
  }
}

}  // namespace ho::nccl_host
