#include "comm/call_maker.hpp"

#include <spdlog/fmt/fmt.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "os/clock.hpp"
#include "reduce/reduce.hpp"

namespace ho {
namespace {

// What is not elsewhere in a message header. A world has at most 65536 ranks.
uint16_t digest_of(const CollectiveCall& call) {
  const uint64_t label = call.options.label;
  if (has_root(call.collective) && label == 0) {
    return static_cast<uint16_t>(call.root.value());
  }
  Hash hash;
  if (label != 0) {
    hash.add(label);
    hash.add(call.root.value());
  }
  for (const size_t count : call.counts) {
    hash.add(count);
  }
  return static_cast<uint16_t>(hash.value());
}

}  // namespace

uint8_t channel_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return 0;
    case Collective::kReduceScatter:
      return 1;
    default:
      return 2;
  }
}

Call CallMaker::begin(const CollectiveCall& requested, Algorithm algorithm) const {
  Call call;
  call.collective = requested.collective;
  call.algorithm = algorithm;
  call.dtype = requested.dtype;
  call.op = has_sums(requested.collective) ? requested.op : ReduceOp::kSum;
  call.fp32_sums = requested.options.fp32_sums;
  call.input = static_cast<const std::byte*>(requested.send);
  call.output = static_cast<std::byte*>(requested.recv);
  call.count = shape_.total_count(requested);
  call.labelled = requested.options.label != 0;
  call.digest = digest_of(requested);
  call.self = shape_.self();
  call.world_size = shape_.world_size();
  call.communicator = communicator_;
  call.channel = channel_of(requested.collective);
  call.owned = requested.owned;
  call.timeout = requested.options.timeout.value_or(timeout_);
  call.deadline = deadline_after(call.timeout);
  return call;
}

Call CallMaker::make(const CollectiveCall& requested, Algorithm algorithm, const Plan& plan) const {
  Call call = begin(requested, algorithm);
  if (blocks_of(requested.collective, call.world_size)) {
    call.block_counts = requested.counts.empty()
                            ? BlockCounts(requested.count)
                            : BlockCounts({requested.counts.begin(), requested.counts.end()});
    return call;
  }
  std::vector<uint64_t> counts;
  for (uint32_t b = 0; b < plan.block_count; ++b) {
    const uint64_t end = call.count * (b + 1) / plan.block_count;
    counts.push_back(end - call.count * b / plan.block_count);
  }
  call.block_counts = BlockCounts(std::move(counts));
  return call;
}

Transfer CallMaker::transfer(const PointToPointCall& requested) const {
  Transfer transfer;
  transfer.sends = requested.sends;
  transfer.peer = requested.peer;
  transfer.tag = requested.tag;
  transfer.dtype = requested.dtype;
  transfer.count = requested.count;
  transfer.data = static_cast<const std::byte*>(requested.data);
  transfer.into = static_cast<std::byte*>(requested.into);
  transfer.source = requested.source;
  transfer.timeout = requested.options.timeout.value_or(timeout_);
  transfer.deadline = deadline_after(transfer.timeout);
  return transfer;
}

Status scale_input(Call& call, double scale) {
  if (call.device.work != nullptr) {
    call.device.factor = scale;  // the run's to begin with
    return {};
  }
  auto* scaled = call.output;
  if (call.collective != Collective::kAllReduce) {
    call.scaled_bytes = call.count * size_bytes(call.dtype);
    call.scaled = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[call.scaled_bytes]);
    scaled = call.scaled.get();
  }
  if (scaled == nullptr) {
    return {StatusCode::kOutOfMemory,
            fmt::format("{}: no memory for {} bytes of scaled input",
                        to_string(call.collective),
                        call.scaled_bytes)};
  }
  premultiply(call.dtype, scaled, call.input, call.count, scale);
  call.input = scaled;
  return {};
}

}  // namespace ho
