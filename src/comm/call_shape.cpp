#include "comm/call_shape.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace ho {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

Status refused(const CollectiveCall& call, std::string_view what) {
  return invalid(std::string(to_string(call.collective)) + ": " + std::string(what));
}

struct Range {
  uintptr_t begin;
  uintptr_t end;
  [[nodiscard]] bool overlaps(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

Range range_of(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + bytes};
}

Status check_counts(const CollectiveCall& call, uint32_t world, uint64_t most) {
  for (const auto counts : {call.counts, call.recv_counts}) {
    if (!counts.empty() && counts.size() != world) {
      return refused(call, fmt::format("{} counts for {} ranks", counts.size(), world));
    }
  }
  const auto too_large = [most](size_t count) { return count > most; };
  if (too_large(call.count) || std::ranges::any_of(call.counts, too_large) ||
      std::ranges::any_of(call.recv_counts, too_large)) {
    return refused(call, "a count beyond 64 TiB in all; is it negative?");
  }
  if (has_root(call.collective) && call.root.value() >= world) {
    return refused(call, fmt::format("root {} of {} ranks", call.root.value(), world));
  }
  return {};
}

Status check_reduction(const CollectiveCall& call) {
  if (has_sums(call.collective) && !reduction_supported(call.dtype, call.op)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: no {} of {}; {}",
                        to_string(call.collective),
                        to_string(call.op),
                        to_string(call.dtype),
                        instead_of(call.dtype, call.op))};
  }
  const bool narrow = call.dtype == DType::kFloat16 || call.dtype == DType::kBfloat16;
  const bool sums =
      call.op == ReduceOp::kSum || call.op == ReduceOp::kAvg || call.op == ReduceOp::kPremulSum;
  if (call.options.fp32_sums && (!has_sums(call.collective) || !narrow || !sums)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: fp32_sums is for sum, avg and premul_sum of half and bfloat16",
                        to_string(call.collective))};
  }
  return {};
}

uint64_t sum_of(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// In units of `own`, this rank's block; `before`, the blocks of the ranks before it; `all`.
struct Sizes {
  uint64_t own;
  uint64_t before;
  uint64_t all;
};

BufferUse use_of(Collective collective, bool is_root, const Sizes& size) {
  switch (collective) {
    case Collective::kAllGather:
      return {size.own, size.all, 0, size.before};
    case Collective::kReduceScatter:
      return {size.all, size.own, size.before, 0};
    case Collective::kAllReduce:
      return {size.all, size.all};
    case Collective::kBroadcast:
      return {is_root ? size.all : 0, size.all};
    case Collective::kAllToAll:
      return {size.all, size.all, 0, 0, false};
    case Collective::kGather:
      return {size.own, is_root ? size.all : 0, 0, size.before};
    case Collective::kScatter:
      return {is_root ? size.all : 0, size.own, size.before, 0};
    case Collective::kReduce:
      return {size.all, is_root ? size.all : 0};
  }
  return {};
}

}  // namespace

Status CallShape::check(const CollectiveCall& call) const {
  HORING_TRY(check_counts(call, world_size_, most_per_rank(call.dtype)));
  HORING_TRY(check_reduction(call));
  return check_buffers(call);
}

Status CallShape::check(const Transfer& transfer) const {
  if (transfer.peer && transfer.peer->value() >= world_size_) {
    return invalid(fmt::format("{}: there are {} ranks", transfer.name(), world_size_));
  }
  const std::byte* buffer = transfer.sends ? transfer.data : transfer.into;
  if (transfer.count > kMaxBytes / size_bytes(transfer.dtype) ||
      (buffer == nullptr && transfer.count > 0)) {
    return invalid(fmt::format("{}: a null buffer, or a count beyond 64 TiB; is it negative?",
                               transfer.name()));
  }
  return {};
}

uint64_t CallShape::total_count(const CollectiveCall& call) const {
  if (!call.counts.empty()) {
    return sum_of(call.counts);
  }
  return blocks_of(call.collective, world_size_) ? uint64_t{call.count} * world_size_ : call.count;
}

uint64_t CallShape::most_per_rank(DType dtype) const {
  return kMaxBytes / size_bytes(dtype) / world_size_;
}

BufferUse CallShape::buffer_use(const CollectiveCall& call) const {
  const size_t element = size_bytes(call.dtype);
  const bool counted = !call.counts.empty();
  const uint64_t own = counted ? call.counts[self_.at()] : call.count;
  const uint64_t before =
      counted ? sum_of(call.counts.first(self_.at())) : uint64_t{call.count} * self_.value();
  BufferUse use = use_of(call.collective,
                         call.root == self_,
                         {own * element, before * element, total_count(call) * element});
  if (!call.recv_counts.empty()) {
    use.recv = sum_of(call.recv_counts) * element;
  }
  return use;
}

// Null buffers, and overlaps that are not the in-place ones of horing.h.
Status CallShape::check_buffers(const CollectiveCall& call) const {
  const BufferUse use = buffer_use(call);
  if ((use.send > 0 && call.send == nullptr) || (use.recv > 0 && call.recv == nullptr)) {
    return refused(call, "a null buffer with elements to move");
  }
  const Range send = range_of(call.send, use.send);
  const Range recv = range_of(call.recv, use.recv);
  const bool in_place =
      use.can_be_in_place && send.begin + use.into_send == recv.begin + use.into_recv;
  if (use.send > 0 && use.recv > 0 && !in_place && send.overlaps(recv)) {
    return refused(call,
                   "send and receive buffers overlap without being in place; horing.h says which "
                   "addresses are in place");
  }
  return {};
}

SelectionInput CallShape::selection_input(const CollectiveCall& call) const {
  const uint64_t total = total_count(call) * size_bytes(call.dtype);
  uint64_t message = total;
  if (call.collective == Collective::kAllToAll) {
    // All that goes from one group to another, or inside one to a rail's rank.
    const uint64_t block = total / world_size_;
    const uint64_t largest = largest_group_;
    message = block * largest * largest;
  }
  return {call.collective, total, message, call.options.fp32_sums, call.options.algorithm};
}

}  // namespace ho
