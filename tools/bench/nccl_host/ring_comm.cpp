#include "bench/nccl_host/ring_comm.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "bench/nccl_host/error.hpp"
#include "os/clock.hpp"
#include "reduce/reduce.hpp"

namespace ho::nccl_host {

RingComm::RingComm(PluginLibrary& library,
                   const CommMemory& memory,
                   uint64_t comm_id,
                   const RingOptions& options)
    : library_(library),
      memory_(memory),
      options_(options),
      contexts_(library.open(comm_id)),
      channels_(options.channels),
      service_("nccl service"),
      progress_("nccl progress"),
      kernel_("kernel double") {
  for (uint32_t number = 0; number < channels_.size(); ++number) {
    make_channel(number);
    connect_channel(number);
  }
}

RingComm::~RingComm() {
  try {
    close();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): callers that need the error
                                     // call close()
  }
}

bool RingComm::is_here(uint32_t rank) const {
  return memory_.shape().node_of(rank) == memory_.node();
}

void RingComm::make_channel(uint32_t number) {
  Channel& channel = channels_[number];
  const JobShape& shape = memory_.shape();
  const std::vector<uint32_t> order = ring_order(shape, number);
  const size_t position =
      static_cast<size_t>(std::ranges::find(order, memory_.rank()) - order.begin());
  channel.previous = order[(position + order.size() - 1) % order.size()];
  channel.next = order[(position + 1) % order.size()];
  const size_t bytes = RingLink::bytes_for(options_.slot_bytes);
  const auto link = [&](uint32_t from, uint32_t to, std::vector<RingLink::Line>& own) {
    if (is_here(from) && is_here(to)) {
      return memory_.link_from(shape.local_of(from)).subspan(number * bytes, bytes);
    }
    own.assign((bytes + sizeof(RingLink::Line) - 1) / sizeof(RingLink::Line), {});
    return std::as_writable_bytes(std::span(own)).first(bytes);
  };
  const uint32_t self = memory_.rank();
  channel.in = RingLink(link(channel.previous, self, channel.in_memory), options_.slot_bytes);
  channel.out = RingLink(link(self, channel.next, channel.out_memory), options_.slot_bytes);
}

// Neither connect nor accept blocks.
void RingComm::connect_ends(Channel& channel, int device, Handle next, void* listener) {
  NetTable& net = library_.net();
  const Deadline deadline = deadline_after(memory_.timeout());
  while (true) {
    if (channel.sender != nullptr && channel.sender->comm == nullptr) {
      require(net.connect(contexts_.net, device, next.data(), &channel.sender->comm),
              "net connect");
    }
    if (channel.receiver != nullptr && channel.receiver->comm == nullptr) {
      require(net.accept(listener, &channel.receiver->comm), "net accept");
    }
    const auto there = [](const auto& end) { return end == nullptr || end->comm != nullptr; };
    if (there(channel.sender) && there(channel.receiver)) {
      return;
    }
    expect(!passed(deadline), "the network connects neighbours in time");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void RingComm::register_ends(Channel& channel) {
  for (NetEnd* const end : {channel.sender.get(), channel.receiver.get()}) {
    if (end != nullptr) {
      const auto memory = end->link.memory();
      require(library_.net().register_memory(
                  end->comm, memory.data(), memory.size(), nccl_abi::kPointerHost, &end->memory),
              "net regMr");
    }
  }
}

void RingComm::connect_channel(uint32_t number) {
  Channel& channel = channels_[number];
  const int device = static_cast<int>(number) % library_.device_count();
  Handle handle{};
  void* listener = nullptr;
  if (!is_here(channel.previous)) {
    channel.receiver = std::make_unique<NetEnd>();
    *channel.receiver = {
        &library_.net(), nullptr, nullptr, static_cast<int>(number), channel.in, 0, {}};
    service_.run([&] {
      require(library_.net().listen(contexts_.net, device, handle.data(), &listener), "net listen");
    });
  }
  if (!is_here(channel.next)) {
    channel.sender = std::make_unique<NetEnd>();
    *channel.sender = {
        &library_.net(), nullptr, nullptr, static_cast<int>(number), channel.out, 0, {}};
  }
  if (options_.before_connect) {
    options_.before_connect();
  }
  const std::vector<Handle> handles = memory_.all_gather(handle);
  service_.run([&] {
    connect_ends(channel, device, handles[channel.next], listener);
    if (listener != nullptr) {
      require(library_.net().close_listen(listener), "net closeListen");
    }
    register_ends(channel);
  });
}

void RingComm::move_chunk(Channel& channel, const RingStep& step, const Work& work) {
  const std::byte* const input = memory_.send_buffer(memory_.local()).data() + step.input;
  std::byte* const output = memory_.recv_buffer(memory_.local()).data() + step.output;
  std::byte* const out = step.sends ? channel.out.to_fill() : nullptr;
  const std::byte* from = step.receives ? channel.in.to_drain() : input;
  if (step.reduces) {
    std::byte* const to = step.stores ? output : out;
    reduce(work.dtype, work.op, to, from, input, step.bytes / size_bytes(work.dtype));
    from = to;
  }
  if (step.stores && from != output) {
    std::memcpy(output, from, step.bytes);
  }
  if (step.sends && from != out) {
    std::memcpy(out, from, step.bytes);
  }
}

bool RingComm::move(Channel& channel, const RingPlan& plan, const Work& work) {
  if (channel.step == plan.steps()) {
    return false;
  }
  const RingStep step = plan.step(channel.step);
  if ((step.receives && !channel.in.has_chunk()) || (step.sends && !channel.out.has_space())) {
    return false;
  }
  move_chunk(channel, step, work);
  if (step.sends) {
    channel.out.filled(step.bytes);
  }
  if (step.receives) {
    channel.in.drained();
  }
  ++channel.step;
  return true;
}

// Neighbours in this node are other processes, which count nothing here.
void RingComm::wait_for_links(Backoff& backoff, uint32_t seen) {
  if (memory_.shape().ranks_per_node == 1) {
    backoff.pause(for_kernel_, seen);
  } else {
    backoff.pause();
  }
}

void RingComm::run_kernel(const Work& work, const std::vector<RingPlan>& plans) {
  Backoff backoff = waits_for("kernel", work, memory_);
  bool open = true;
  while (open && !stop_.load(std::memory_order_relaxed)) {
    const uint32_t seen = for_kernel_.events();
    bool moved = false;
    open = false;
    for (size_t i = 0; i < channels_.size(); ++i) {
      moved = move(channels_[i], plans[i], work) || moved;
      open = open || channels_[i].step < plans[i].steps();
    }
    if (moved) {
      backoff.reset();
    } else if (open) {
      wait_for_links(backoff, seen);
    }
  }
}

// What one channel's ends over the network can move of a collective that ends at these counts.
RingComm::Moved RingComm::move_ends(Channel& channel, const Target& target) {
  Moved result;
  if (NetEnd* const sender = channel.sender.get()) {
    result.any = sender->send(target.sends);
    result.open = sender->posted < target.sends || !sender->requests.empty();
  }
  if (NetEnd* const receiver = channel.receiver.get()) {
    result.any = receiver->receive(target.receives) || result.any;
    result.open = result.open || receiver->posted < target.receives || !receiver->requests.empty();
  }
  return result;
}

void RingComm::run_proxy(const Work& work, const std::vector<RingPlan>& plans) {
  std::vector<Target> targets(channels_.size());
  for (size_t i = 0; i < channels_.size(); ++i) {
    const Channel& channel = channels_[i];
    targets[i].sends = channel.sender ? channel.sender->posted + plans[i].sends() : 0;
    targets[i].receives = channel.receiver ? channel.receiver->posted + plans[i].receives() : 0;
  }
  Backoff backoff = waits_for("proxy", work, memory_);
  bool open = true;
  while (open && !stop_.load(std::memory_order_relaxed)) {
    bool moved = false;
    open = false;
    for (size_t i = 0; i < channels_.size(); ++i) {
      const Moved of_channel = move_ends(channels_[i], targets[i]);
      moved = moved || of_channel.any;
      open = open || of_channel.open;
    }
    if (moved) {
      for_kernel_.notify();
      backoff.reset();
    } else if (open) {
      expect(!memory_.failed(), "no other rank of this communicator has failed");
      backoff.pause();
    }
  }
}

void RingComm::run(const Work& work) {
  std::vector<RingPlan> plans;
  for (uint32_t number = 0; number < channels_.size(); ++number) {
    channels_[number].step = 0;
    plans.emplace_back(
        work, memory_.shape(), memory_.rank(), number, options_.channels, options_.slot_bytes);
  }
  std::future<void> kernel = kernel_.post([&] { run_kernel(work, plans); });
  std::future<void> proxy = progress_.post([&] {
    try {
      run_proxy(work, plans);
    } catch (...) {
      stop_.store(true);
      for_kernel_.notify();
      throw;
    }
  });
  wait_for_all({&proxy, &kernel});
}

void RingComm::close_channel(Channel& channel) {
  NetTable& net = library_.net();
  if (channel.sender != nullptr && channel.sender->comm != nullptr) {
    require(net.deregister(channel.sender->comm, channel.sender->memory), "net deregMr");
    require(net.close_send(channel.sender->comm), "net closeSend");
  }
  if (channel.receiver != nullptr && channel.receiver->comm != nullptr) {
    require(net.deregister(channel.receiver->comm, channel.receiver->memory), "net deregMr");
    require(net.close_recv(channel.receiver->comm), "net closeRecv");
  }
}

void RingComm::close() {
  if (std::exchange(closed_, true)) {
    return;
  }
  service_.run([this] {
    for (Channel& channel : channels_) {
      close_channel(channel);
    }
  });
  library_.finalize(contexts_);
}

}  // namespace ho::nccl_host
