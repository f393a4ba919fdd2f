#include "cli/host/gpu_rates.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/names.hpp"
#include "cli/subcommands/statistics.hpp"
#include "device/device.hpp"

namespace ho {
namespace {

using device::CurrentContext;
using device::Device;
using device::DeviceMemory;
using device::Event;
using device::PinnedMemory;
using device::Stream;

// Back to back in one timing, so that the time to enqueue the first hardly counts.
constexpr int kCopiesOfTiming = 4;

// What copies of one device need. The streams end first, and wait for what uses the rest.
struct Bench {
  std::shared_ptr<Device> device;
  std::vector<PinnedMemory> on_host;
  std::vector<DeviceMemory> on_device;
  std::vector<Event> events;
  std::vector<Stream> streams;
  bool stuck = false;  // work is under way that did not end in time
};

// A copy on the bench's stream of the same place in the list.
struct Copy {
  void* to;
  const void* from;
};

// Once, where the whole takes long.
class Notice {
 public:
  explicit Notice(const RateLimits& limits) : limits_(limits) {}
  void look(int device) {
    if (!said_ && Clock::now() - start_ >= limits_.quiet) {
      said_ = true;
      limits_.say(fmt::format(
          "measuring the copies of GPU {}; this ends in {} s at most",
          device,
          std::chrono::duration_cast<std::chrono::seconds>(left(limits_.deadline)).count()));
    }
  }

 private:
  const RateLimits& limits_;
  const Deadline start_ = Clock::now();
  bool said_ = false;
};

Result<std::unique_ptr<Bench>> make_bench(const device::Driver& driver, int ordinal, size_t bytes) {
  auto bench = std::make_unique<Bench>();
  HORING_ASSIGN(bench->device, Device::open(driver, ordinal));
  for (int i = 0; i < 2; ++i) {
    HORING_ASSIGN(auto on_host, PinnedMemory::create(*bench->device, bytes));
    bench->on_host.push_back(std::move(on_host));
    HORING_ASSIGN(auto on_device, DeviceMemory::create(*bench->device, bytes));
    bench->on_device.push_back(std::move(on_device));
    HORING_ASSIGN(auto event, Event::create(*bench->device));
    bench->events.push_back(std::move(event));
    HORING_ASSIGN(auto stream, Stream::create(*bench->device));
    bench->streams.push_back(std::move(stream));
  }
  return bench;
}

class Measurement {
 public:
  Measurement(const RateLimits& limits, CopyRates& result)
      : limits_(limits), result_(result), notice_(limits) {}

  Status device(Bench& bench) {
    void* const in = bench.on_host[0].bytes().data();
    void* const out = bench.on_host[1].bytes().data();
    void* const first = bench.on_device[0].pointer();
    void* const second = bench.on_device[1].pointer();
    HORING_TRY(add(bench, CopyKind::kToDevice, {{first, in}}));
    HORING_TRY(add(bench, CopyKind::kFromDevice, {{out, second}}));
    HORING_TRY(add(bench, CopyKind::kBothWays, {{first, in}, {out, second}}));
    return add(bench, CopyKind::kWithin, {{second, first}});
  }

  Status pair(Bench& bench, const Bench& peer) {
    HORING_ASSIGN(const bool reaches, enable_access(*bench.device, *peer.device));
    if (!reaches) {
      return {};
    }
    return add(bench,
               CopyKind::kToPeer,
               {{peer.on_device[1].pointer(), bench.on_device[0].pointer()}},
               peer.device->ordinal());
  }

 private:
  Status add(Bench& bench, CopyKind kind, const std::vector<Copy>& copies, int peer = -1) {
    HORING_ASSIGN(const auto current, CurrentContext::enter(*bench.device));
    HORING_TRY(time(bench, copies).status());  // the first touches pages and wakes clocks
    std::vector<double> seconds;
    for (int i = 0; i < limits_.timings; ++i) {
      HORING_ASSIGN(const double once, time(bench, copies));
      seconds.push_back(once);
    }
    const auto bytes =
        static_cast<double>(limits_.bytes) * kCopiesOfTiming * static_cast<double>(copies.size());
    result_.rates.push_back(
        {kind, bench.device->ordinal(), peer, bytes / std::max(median(seconds), 1e-9)});
    return {};
  }

  // The context is current.
  Result<double> time(Bench& bench, const std::vector<Copy>& copies) {
    HORING_TRY(check_time(bench));
    const auto start = Clock::now();
    for (int copy = 0; copy < kCopiesOfTiming; ++copy) {
      for (size_t i = 0; i < copies.size(); ++i) {
        HORING_TRY(bench.streams[i].copy(copies[i].to, copies[i].from, limits_.bytes));
      }
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      HORING_TRY(bench.events[i].record(bench.streams[i].handle()));
    }
    for (size_t i = 0; i < copies.size();) {
      HORING_ASSIGN(const bool passed, bench.events[i].passed());
      if (passed) {
        ++i;
        continue;
      }
      if (Status late = check_time(bench); !late.ok()) {
        bench.stuck = true;
        return late;
      }
      std::this_thread::yield();
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Status check_time(const Bench& bench) {
    notice_.look(bench.device->ordinal());
    if (passed(limits_.deadline)) {
      return {StatusCode::kTimeout,
              fmt::format("device {}: its copies were not measured in time; is it busy with "
                          "another program (nvidia-smi)?",
                          bench.device->ordinal())};
    }
    return {};
  }

  const RateLimits& limits_;
  CopyRates& result_;
  Notice notice_;
};

// Ending streams waits for the device, which may never come.
void let_go(std::unique_ptr<Bench> bench) {
  static auto& abandoned = *std::make_unique<std::vector<std::unique_ptr<Bench>>>().release();
  if (bench->stuck) {
    abandoned.push_back(std::move(bench));
  }
}

}  // namespace

std::string_view to_string(CopyKind kind) {
  constexpr Names<5> kNames{"to_device", "from_device", "both_ways", "within", "to_peer"};
  return name_in(kNames, kind);
}

CopyRates measure_copy_rates(const device::Driver& driver,
                             std::span<const int> devices,
                             const RateLimits& limits) {
  CopyRates result;
  Measurement measurement(limits, result);
  std::vector<std::unique_ptr<Bench>> benches;
  for (const int ordinal : devices) {
    auto bench = make_bench(driver, ordinal, limits.bytes);
    Status status = bench.status();
    if (status.ok()) {
      status = measurement.device(**bench);
      benches.push_back(std::move(*bench));
    }
    if (!status.ok()) {
      result.failed.push_back({ordinal, std::move(status)});
    }
  }
  const auto failed = [&](const Bench& bench) {
    return std::ranges::any_of(result.failed, [&](const FailedDevice& device) {
      return device.device == bench.device->ordinal();
    });
  };
  for (const auto& bench : benches) {
    for (const auto& peer : benches) {
      if (bench == peer || failed(*bench) || failed(*peer)) {
        continue;
      }
      if (Status status = measurement.pair(*bench, *peer); !status.ok()) {
        result.failed.push_back({bench->device->ordinal(), std::move(status)});
      }
    }
  }
  for (auto& bench : benches) {
    let_go(std::move(bench));
  }
  return result;
}

}  // namespace ho
