#include "bench/perf/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "bench/harness/gather.hpp"
#include "cli/subcommands/statistics.hpp"
#include "os/clock.hpp"

namespace ho::perf {

// A rank's sums over the timed operations, exchanged as it is.
struct Sums {
  double elapsed_us = 0.0;
  Phases phases;
  int algorithm = 0;
};

namespace {

constexpr std::byte kPoison{0xa5};  // what an output holds before the operation

void add(Phases& sums, const ho_op_report& report) {
  for (const PhaseField& field : kPhaseFields) {
    sums.*field.mean += static_cast<double>(report.*field.sum) / field.unit;
  }
}

harness::Table make_input(const Case& what, uint32_t world_size, uint32_t rank) {
  return what.collective == harness::Collective::kAllGather
             ? harness::gather_input(what.dtype, rank)
             : harness::reduce_input(what.dtype, what.op, world_size, rank);
}

std::vector<harness::Table> make_expected(const Case& what, uint32_t world_size, bool check) {
  std::vector<harness::Table> expected;
  if (!check) {
    return expected;
  }
  if (what.collective != harness::Collective::kAllGather) {
    expected.push_back(harness::reduce_expected(what.dtype, what.op, world_size));
    return expected;
  }
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    expected.push_back(harness::gather_input(what.dtype, rank));
  }
  return expected;
}

std::vector<uint32_t> group_sizes_of(const horing::Communicator& comm) {
  std::vector<uint32_t> sizes;
  sizes.reserve(static_cast<size_t>(comm.group_count()));
  for (int32_t group = 0; group < comm.group_count(); ++group) {
    sizes.push_back(static_cast<uint32_t>(comm.group_size(group)));
  }
  return sizes;
}

Phases mean_phases(const std::vector<Sums>& ranks, double operations) {
  Phases means;
  const double each = operations * static_cast<double>(ranks.size());
  for (const Sums& sums : ranks) {
    for (const PhaseField& field : kPhaseFields) {
      means.*field.mean += sums.phases.*field.mean / each;
    }
  }
  return means;
}

}  // namespace

uint64_t count_for(const Case& what, uint64_t size_bytes, uint32_t world_size) {
  const uint64_t elements = size_bytes / ho::size_bytes(what.dtype);
  return what.collective == harness::Collective::kAllReduce ? elements : elements / world_size;
}

bool claims_share(uint32_t iterations, double boundary_bytes_each, double limit_bytes_per_second) {
  constexpr uint32_t kFewest = 20;
  constexpr double kShortestSeconds = 0.1;
  return iterations >= kFewest &&
         boundary_bytes_each * iterations >= limit_bytes_per_second * kShortestSeconds;
}

struct Bench::Timing {
  Sums sums;
  std::vector<double> each_us;
};

Bench::Bench(horing::Communicator& comm,
             const Options& options,
             const harness::LinkLimit& limit,
             Case what,
             const OnDevice* device)
    : comm_(comm),
      options_(options),
      limit_(limit),
      what_(what),
      world_size_(static_cast<uint32_t>(comm.world_size())),
      rank_(static_cast<uint32_t>(comm.rank())),
      group_sizes_(group_sizes_of(comm)),
      input_(make_input(what, world_size_, rank_)),
      expected_(make_expected(what, world_size_, options.check)),
      device_(device),
      send_storage_(Buffer::of_sends(options.memory, device)),
      recv_storage_(Buffer::of_receives(options.memory, device)) {}

void Bench::set_buffers(uint64_t count, bool in_place) {
  const size_t part = count * ho::size_bytes(what_.dtype);
  const size_t all = part * world_size_;
  const bool gather = what_.collective == harness::Collective::kAllGather;
  const bool scatter = what_.collective == harness::Collective::kReduceScatter;
  const size_t send_bytes = scatter ? all : part;
  const size_t recv_bytes = gather ? all : part;
  if (!in_place) {
    send_storage_.reserve(send_bytes);
    recv_storage_.reserve(recv_bytes);
    send_ = {&send_storage_, 0};
    recv_ = {&recv_storage_, 0};
    return;
  }
  recv_storage_.reserve(std::max(send_bytes, recv_bytes));
  send_ = {&recv_storage_, gather ? rank_ * part : 0};
  recv_ = {&recv_storage_, scatter ? rank_ * part : 0};
}

// Fills the output with a pattern that is no result, then the input (which may overlap it).
void Bench::write_input(uint64_t count) {
  const size_t bytes = ho::size_bytes(what_.dtype);
  const uint64_t received =
      what_.collective == harness::Collective::kAllGather ? count * world_size_ : count;
  recv_.buffer->write(
      recv_.offset, received * bytes, [](std::byte* to, size_t /*begin*/, size_t written) {
        std::fill_n(to, written, kPoison);
      });
  const uint64_t sent =
      what_.collective == harness::Collective::kReduceScatter ? count * world_size_ : count;
  send_.buffer->write(send_.offset, sent * bytes, [&](std::byte* to, size_t begin, size_t written) {
    input_.fill(to, begin / bytes, written / bytes);
  });
}

// Of `count` elements of the output, which lie this far into it and are the expected ones from
// `first` on.
uint64_t Bench::wrong_from(const harness::Table& expected,
                           size_t skipped_bytes,
                           uint64_t first,
                           uint64_t count) const {
  const size_t bytes = ho::size_bytes(what_.dtype);
  uint64_t wrong = 0;
  recv_.buffer->read(recv_.offset + skipped_bytes,
                     count * bytes,
                     [&](const std::byte* from, size_t begin, size_t seen) {
                       wrong += expected.count_wrong(from, first + begin / bytes, seen / bytes);
                     });
  return wrong;
}

uint64_t Bench::wrong_elements(uint64_t count) const {
  const size_t bytes = ho::size_bytes(what_.dtype);
  if (what_.collective != harness::Collective::kAllGather) {
    const uint64_t first =
        what_.collective == harness::Collective::kReduceScatter ? rank_ * count : 0;
    return wrong_from(expected_.front(), 0, first, count);
  }
  uint64_t wrong = 0;
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    wrong += wrong_from(expected_[rank], rank * count * bytes, 0, count);
  }
  return wrong;
}

void Bench::operate(uint64_t count, ho_op_report* report) {
  const auto dtype = static_cast<ho_dtype>(what_.dtype);
  const auto op = static_cast<ho_op>(what_.op);
  const horing::CallOptions options{.algorithm = options_.algorithm,
                                    .report = report,
                                    .scale = static_cast<double>(harness::scale_of(rank_)),
                                    .stream = device_ == nullptr ? nullptr : device_->stream()};
  switch (what_.collective) {
    case harness::Collective::kAllGather:
      comm_.all_gather(send_.pointer(), recv_.pointer(), count, dtype, options);
      break;
    case harness::Collective::kReduceScatter:
      comm_.reduce_scatter(send_.pointer(), recv_.pointer(), count, dtype, op, options);
      break;
    case harness::Collective::kAllReduce:
      comm_.all_reduce(send_.pointer(), recv_.pointer(), count, dtype, op, options);
      break;
  }
  if (device_ != nullptr) {
    device_->finish();
  }
}

Bench::Timing Bench::time_operations(uint64_t count, uint32_t iterations) {
  Timing timing;
  timing.each_us.reserve(iterations);
  ho_op_report report = HO_OP_REPORT_INIT;
  comm_.barrier();
  for (uint32_t i = 0; i < options_.warmup; ++i) {
    operate(count, &report);
  }
  int64_t last = now_ns();
  for (uint32_t i = 0; i < iterations; ++i) {
    if (options_.barrier_each) {
      comm_.barrier();
      last = now_ns();
    }
    operate(count, &report);
    const int64_t now = now_ns();
    timing.each_us.push_back(static_cast<double>(now - last) / 1e3);
    timing.sums.elapsed_us += timing.each_us.back();
    last = now;
    add(timing.sums.phases, report);
    timing.sums.algorithm = report.algorithm;
  }
  return timing;
}

void Bench::fill_times(const Timing& timing, Measurement& row) {
  const auto sums = harness::gather_all(comm_, timing.sums);
  const auto each = harness::gather_all(comm_, std::span<const double>(timing.each_us));
  const size_t operations = timing.each_us.size();
  std::vector<double> slowest(operations, 0.0);
  for (size_t i = 0; i < each.size(); ++i) {
    slowest[i % operations] = std::max(slowest[i % operations], each[i]);
  }
  double elapsed = 0.0;
  double overlap = 0.0;
  double intra = 0.0;
  for (const Sums& of_rank : sums) {
    elapsed = std::max(elapsed, of_rank.elapsed_us);
    overlap += of_rank.phases.overlap_us;
    intra += of_rank.phases.intra_us;
  }
  row.time_us = elapsed / static_cast<double>(operations);
  row.percentiles_us = {
      percentile(slowest, 0.50), percentile(slowest, 0.95), percentile(slowest, 0.99)};
  if (intra > 0.0) {
    row.overlap_ratio = overlap / intra;
  }
  row.phases = mean_phases(sums, static_cast<double>(operations));
  row.algorithm = to_string(static_cast<ho_algorithm>(timing.sums.algorithm));
}

Measurement Bench::run(uint64_t count, uint32_t iterations, bool in_place) {
  Measurement row;
  row.count = count;
  row.in_place = in_place;
  row.iterations = iterations;
  const uint64_t elements =
      what_.collective == harness::Collective::kAllReduce ? count : count * world_size_;
  row.size_bytes = elements * ho::size_bytes(what_.dtype);
  set_buffers(count, in_place);
  write_input(count);
  uint64_t wrong = 0;
  if (options_.check) {
    operate(count, nullptr);
    wrong = wrong_elements(count);
  }
  const Timing timing = time_operations(count, iterations);
  // Where the input is still what it was, the last timed result is checked as well.
  if (options_.check && (!in_place || what_.collective == harness::Collective::kAllGather)) {
    wrong += wrong_elements(count);
  }
  fill_times(timing, row);
  if (options_.check) {
    row.wrong = 0;
    for (const uint64_t of_rank : harness::gather_all(comm_, wrong)) {
      *row.wrong += of_rank;
    }
  }
  const auto size = static_cast<double>(row.size_bytes);
  row.algorithm_gbps = size / row.time_us / 1e3;
  row.bus_gbps = row.algorithm_gbps * harness::bus_factor(what_.collective, world_size_);
  const double boundary = harness::boundary_bytes(what_.collective, size, group_sizes_);
  if (boundary > 0.0) {
    row.effective_gbps = boundary / row.time_us / 1e3;
  }
  if (boundary > 0.0 && limit_.bytes_per_second > 0.0) {
    row.link_share = boundary / limit_.bytes_per_second / (row.time_us / 1e6);
    row.share_claimed = claims_share(iterations, boundary, limit_.bytes_per_second);
  }
  return row;
}

}  // namespace ho::perf
