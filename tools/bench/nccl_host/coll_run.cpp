#include "bench/nccl_host/coll_run.hpp"

#include <algorithm>
#include <cstring>

#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/worker.hpp"
#include "reduce/reduce.hpp"

namespace ho::nccl_host {

nccl_abi::Result RailEnd::start(const Work& work,
                                const CollNetTable::Buffer& from,
                                const CollNetTable::Buffer& to,
                                const CollNetTable::Window& window,
                                void** request) const {
  const CollNetTable::Reduction reduction{static_cast<int>(work.dtype), static_cast<int>(work.op)};
  switch (work.kind) {
    case Collective::kAllReduce:
      return table->iallreduce(
          group, from, to, window.bytes / size_bytes(work.dtype), reduction, request);
    case Collective::kAllGather:
      return table->iallgather(group, from, to, window, request);
    case Collective::kReduceScatter:
      return table->ireducescatter(group, from, to, window, reduction, request);
  }
  return nccl_abi::Result::kInternalError;
}

CollRun::CollRun(const CollPlan& plan, const RailEnd& rail, CommMemory& memory, bool poison)
    : plan_(plan),
      rail_(rail),
      memory_(memory),
      poison_(poison),
      channels_(plan.channels()),
      requests_(plan.groups()),
      completed_(plan.groups(), 0) {}

// What the ranks of this node have at the same place, reduced.
void CollRun::reduce_local(std::byte* to, uint64_t offset, uint64_t bytes) {
  const Work& work = plan_.work();
  const uint64_t count = bytes / size_bytes(work.dtype);
  std::memcpy(to, memory_.send_buffer(0).data() + offset, bytes);
  for (uint32_t local = 1; local < memory_.shape().ranks_per_node; ++local) {
    const std::byte* const more = memory_.send_buffer(local).data() + offset;
    reduce(work.dtype, work.op, to, to, more, count);
  }
}

template <typename Move>
void CollRun::each_block(const Bytes& chunk, const Move& move) const {
  const uint64_t block = plan_.block_bytes();
  for (uint64_t done = 0; done < chunk.count;) {
    const uint64_t position = chunk.offset + done;
    const auto node = static_cast<uint32_t>(position / block);
    const uint64_t bytes = std::min(chunk.count - done, block - position % block);
    const uint32_t rank = memory_.shape().rank_of(node, memory_.local());
    move(done, rank * block + position % block, bytes);
    done += bytes;
  }
}

bool CollRun::takes_users(Side side) const {
  return side == Side::kSend
             ? rail_.user_send != nullptr && plan_.work().kind == Collective::kAllGather
             : rail_.user_recv != nullptr && plan_.work().kind == Collective::kReduceScatter;
}

void CollRun::fill(uint64_t step, uint32_t channel) {
  if (takes_users(Side::kSend)) {
    return;
  }
  const Bytes chunk = plan_.chunk(step, channel);
  std::byte* const to = rail_.region + plan_.region_offset(Side::kSend, step, channel);
  switch (plan_.work().kind) {
    case Collective::kAllReduce:
      if (chunk.count > 0) {
        reduce_local(to, chunk.offset, chunk.count);
      }
      if (poison_) {  // junk, which the plugin reduces as well
        const auto junk =
            static_cast<std::byte>(step * 31 + uint64_t{channel} * 7 + memory_.rank());
        std::fill_n(to + chunk.count, plan_.chunk_bytes() - chunk.count, junk);
      }
      return;
    case Collective::kAllGather: {
      const Bytes own = plan_.own(step, channel);
      std::memcpy(to, memory_.send_buffer(memory_.local()).data() + own.offset, own.count);
      return;
    }
    case Collective::kReduceScatter:
      each_block(chunk, [&](uint64_t done, uint64_t offset, uint64_t bytes) {
        reduce_local(to + done, offset, bytes);
      });
      return;
  }
}

void CollRun::drain(uint64_t step, uint32_t channel) {
  if (takes_users(Side::kReceive)) {
    return;
  }
  const Bytes chunk = plan_.chunk(step, channel);
  std::byte* const from = rail_.region + plan_.region_offset(Side::kReceive, step, channel);
  uint64_t taken = chunk.count;
  switch (plan_.work().kind) {
    case Collective::kAllReduce:
      for (uint32_t local = 0; local < memory_.shape().ranks_per_node; ++local) {
        std::memcpy(memory_.recv_buffer(local).data() + chunk.offset, from, chunk.count);
      }
      break;
    case Collective::kAllGather:
      each_block(chunk, [&](uint64_t done, uint64_t offset, uint64_t bytes) {
        for (uint32_t local = 0; local < memory_.shape().ranks_per_node; ++local) {
          std::memcpy(memory_.recv_buffer(local).data() + offset, from + done, bytes);
        }
      });
      break;
    case Collective::kReduceScatter: {
      const Bytes own = plan_.own(step, channel);
      std::memcpy(memory_.recv_buffer(memory_.local()).data() + own.offset, from, own.count);
      taken = own.count;
      break;
    }
  }
  if (poison_) {  // a result that is not written again is then not taken for the last one
    std::fill_n(from, taken, kPoison);
  }
}

void CollRun::run_kernel() {
  const uint64_t steps = plan_.steps();
  Backoff backoff = waits_for("kernel", plan_.work(), memory_);
  uint32_t open = plan_.channels();
  while (open > 0 && !stop_.load(std::memory_order_relaxed)) {
    const uint32_t seen = for_kernel_.events();
    bool moved = false;
    open = plan_.channels();
    for (uint32_t c = 0; c < plan_.channels(); ++c) {
      Channel& channel = channels_[c];
      const uint64_t filled = channel.filled.load(std::memory_order_relaxed);
      const uint64_t drained = channel.drained.load(std::memory_order_relaxed);
      const uint64_t received = channel.received.load(std::memory_order_acquire);
      if (filled < steps && filled < received + kSlots) {
        fill(filled, c);
        channel.filled.store(filled + 1, std::memory_order_release);
        moved = true;
      }
      if (drained < received) {
        drain(drained, c);
        channel.drained.store(drained + 1, std::memory_order_release);
        moved = true;
      }
      open -= drained == steps ? 1U : 0U;
    }
    if (moved) {
      backoff.reset();
    } else if (open > 0) {
      backoff.pause(for_kernel_, seen);
    }
  }
}

bool CollRun::may_post(uint64_t step, uint32_t group) const {
  for (uint32_t c = plan_.group_begin(group); c < plan_.group_end(group); ++c) {
    const Channel& channel = channels_[c];
    if (channel.filled.load(std::memory_order_acquire) <= step ||
        channel.drained.load(std::memory_order_acquire) + kSlots <= step) {
      return false;
    }
  }
  return true;
}

CollNetTable::Buffer CollRun::buffer(Side side, uint64_t step, uint32_t group) const {
  const uint32_t first = plan_.group_begin(group);
  const bool sends = side == Side::kSend;
  if (takes_users(side)) {
    const auto users =
        sends ? memory_.send_buffer(memory_.local()) : memory_.recv_buffer(memory_.local());
    return {sends ? rail_.user_send : rail_.user_recv,
            users.data() + plan_.own(step, first).offset};
  }
  return {sends ? rail_.send_memory[first] : rail_.recv_memory[first],
          rail_.region + plan_.region_offset(side, step, first)};
}

nccl_abi::Result CollRun::call(uint64_t step, uint32_t group, void** request) {
  const CollNetTable::Buffer from = buffer(Side::kSend, step, group);
  const CollNetTable::Buffer to = buffer(Side::kReceive, step, group);
  if (plan_.work().kind == Collective::kAllReduce) {
    const uint64_t bytes =
        (plan_.group_end(group) - plan_.group_begin(group)) * plan_.chunk_bytes();
    return rail_.start(plan_.work(), from, to, {.bytes = bytes}, request);
  }
  const Bytes window = plan_.window(step, group);
  return rail_.start(
      plan_.work(), from, to, {plan_.block_bytes(), window.offset, window.count}, request);
}

// false: the plugin returns "again".
bool CollRun::post(uint64_t step, uint32_t group) {
  void* request = nullptr;
  const bool empty =
      plan_.work().kind != Collective::kAllReduce && plan_.window(step, group).count == 0;
  if (!empty) {
    require(call(step, group, &request), plan_.work().text());
    if (request == nullptr) {
      ++again_;
      return false;
    }
    ++calls_;
  }
  requests_[group].push_back(request);
  return true;
}

void CollRun::complete(uint32_t group) {
  requests_[group].pop_front();
  const uint64_t done = ++completed_[group];
  for (uint32_t c = plan_.group_begin(group); c < plan_.group_end(group); ++c) {
    channels_[c].received.store(done, std::memory_order_release);
  }
  for_kernel_.notify();
}

void CollRun::stop() {
  stop_.store(true);
  for_kernel_.notify();
}

bool CollRun::test_oldest(uint32_t group) {
  if (requests_[group].empty()) {
    return false;
  }
  void* const request = requests_[group].front();
  int done = request == nullptr ? 1 : 0;
  if (request != nullptr) {
    int size = 0;
    require(rail_.table->test(request, &done, completed_[group] % 2 == 0 ? &size : nullptr),
            "test of " + plan_.work().text());
  }
  if (done != 0) {
    complete(group);
  }
  return done != 0;
}

// Calls go out in ascending order of steps and groups: the same on all ranks.
void CollRun::run_proxy() {
  const uint64_t all = plan_.steps() * plan_.groups();
  uint64_t posted = 0;
  uint64_t done = 0;
  Backoff backoff = waits_for("proxy", plan_.work(), memory_);
  while (done < all && !stop_.load(std::memory_order_relaxed)) {
    bool moved = false;
    while (posted < all) {
      const uint64_t step = posted / plan_.groups();
      const auto group = static_cast<uint32_t>(posted % plan_.groups());
      if (!may_post(step, group) || !post(step, group)) {
        break;
      }
      ++posted;
      moved = true;
    }
    for (uint32_t group = 0; group < plan_.groups(); ++group) {
      if (test_oldest(group)) {
        ++done;
        moved = true;
      }
    }
    if (moved) {
      backoff.reset();
    } else {
      if (memory_.failed()) {
        throw HostError("another rank of this communicator has failed");
      }
      backoff.pause();
    }
  }
}

}  // namespace ho::nccl_host
