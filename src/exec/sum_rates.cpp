#include "exec/sum_rates.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "os/clock.hpp"
#include "reduce/reduce.hpp"

namespace ho {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
constexpr size_t kElements = kBytes / sizeof(float);
constexpr int kRounds = 3;  // the fastest counts
constexpr std::chrono::seconds kLongest{10};

struct Operands {
  device::PinnedMemory dst;
  device::PinnedMemory src;
  device::PinnedMemory incoming;
};

void add_on_host(const device::Device& device, const Operands& operands) {
  device.host_reads(operands.src.bytes());
  device.host_reads(operands.incoming.bytes());
  device.host_writes(operands.dst.bytes());
  reduce(DType::kFloat32,
         ReduceOp::kSum,
         operands.dst.bytes().data(),
         operands.src.bytes().data(),
         operands.incoming.bytes().data(),
         kElements);
}

Status add_on_device(device::Work& work, const Operands& operands) {
  const std::array sums{device::Sum{operands.dst.bytes().data(),
                                    operands.src.bytes().data(),
                                    operands.incoming.bytes().data(),
                                    kElements,
                                    1}};
  HORING_ASSIGN(const auto ticket, work.sum(device::Direction::kArrives, {}, sums));
  if (!ticket) {
    return {StatusCode::kInternal, "the device's queue is full before its first sum"};
  }
  const Deadline deadline = deadline_after(kLongest);
  while (true) {
    HORING_TRY(work.start());
    HORING_TRY(work.look().status());
    if (work.completed(*ticket)) {
      return {};
    }
    if (passed(deadline)) {
      return {StatusCode::kTimeout,
              "device " + std::to_string(work.device().ordinal()) +
                  ": a sum of 1 MiB has not completed in 10 s; is another process's kernel "
                  "hanging there?"};
    }
    std::this_thread::yield();
  }
}

Result<PinnedSumRates> measure(device::Work& work, const Operands& operands) {
  int64_t host_ns = std::numeric_limits<int64_t>::max();
  int64_t device_ns = host_ns;
  for (int round = 0; round < kRounds; ++round) {
    int64_t began = now_ns();
    add_on_host(work.device(), operands);
    host_ns = std::min(host_ns, now_ns() - began);
    began = now_ns();
    HORING_TRY(add_on_device(work, operands));
    device_ns = std::min(device_ns, now_ns() - began);
  }
  const auto rate = [](int64_t ns) {
    return static_cast<double>(kBytes) * 1e9 / static_cast<double>(std::max<int64_t>(ns, 1));
  };
  return PinnedSumRates{rate(host_ns), rate(device_ns)};
}

}  // namespace

Result<PinnedSumRates> pinned_sum_rates(device::Work& work) {
  static std::mutex mutex;
  static std::map<int, PinnedSumRates> known;
  const std::lock_guard lock(mutex);
  const int ordinal = work.device().ordinal();
  if (const auto found = known.find(ordinal); found != known.end()) {
    return found->second;
  }
  Operands operands;
  HORING_ASSIGN(operands.dst, work.take_pinned(kBytes));
  HORING_ASSIGN(operands.src, work.take_pinned(kBytes));
  HORING_ASSIGN(operands.incoming, work.take_pinned(kBytes));
  Result<PinnedSumRates> rates = measure(work, operands);
  // Also after an error: a kernel may still use it, which ends before the work does.
  work.give_back(std::move(operands.dst));
  work.give_back(std::move(operands.src));
  work.give_back(std::move(operands.incoming));
  if (rates.ok()) {
    known.emplace(ordinal, *rates);
  }
  return rates;
}

}  // namespace ho
