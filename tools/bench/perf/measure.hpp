// One row of a perf table: a collective at one size, checked, then timed back to back.
//
// Why back to back: a shaped link that paused sends a burst for free, and a lone operation hides
// what the next one would wait for. The warm-up operations run right before the timed ones, with no
// barrier between, so that buckets are empty and the ranks are in step when the clock starts. Time
// is total / n on each rank, the slowest rank's counts.
//
// With device memory the calls are made on a stream of the program's own. Each is timed until it
// has ended on the device and that stream has got past it.
#pragma once

#include <array>
#include <cstdint>
#include <horing/communicator.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/link_limit.hpp"
#include "bench/harness/values.hpp"
#include "bench/perf/buffers.hpp"
#include "bench/perf/options.hpp"

namespace ho::perf {

// What is run, apart from its size.
struct Case {
  harness::Collective collective = harness::Collective::kAllGather;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// Means over operations and ranks, from ho_op_report.
struct Phases {
  double total_us = 0.0;
  double inter_us = 0.0;
  double intra_us = 0.0;
  double overlap_us = 0.0;
  double wait_us = 0.0;
  double inter_sent_bytes = 0.0;  // per operation and rank
  double intra_sent_bytes = 0.0;
};

struct PhaseField {
  const char* key;  // in JSON
  double Phases::*mean;
  uint64_t ho_op_report::*sum;
  double unit;  // of the sum
};
inline constexpr std::array<PhaseField, 7> kPhaseFields{{
    {"total_us", &Phases::total_us, &ho_op_report::total_ns, 1e3},
    {"inter_us", &Phases::inter_us, &ho_op_report::inter_ns, 1e3},
    {"intra_us", &Phases::intra_us, &ho_op_report::intra_ns, 1e3},
    {"overlap_us", &Phases::overlap_us, &ho_op_report::overlap_ns, 1e3},
    {"wait_us", &Phases::wait_us, &ho_op_report::wait_ns, 1e3},
    {"inter_sent_bytes", &Phases::inter_sent_bytes, &ho_op_report::inter_sent_bytes, 1},
    {"intra_sent_bytes", &Phases::intra_sent_bytes, &ho_op_report::intra_sent_bytes, 1},
}};

struct Measurement {
  std::string algorithm;  // the one that ran
  uint64_t size_bytes = 0;
  uint64_t count = 0;  // elements, nccl-tests' meaning: per rank for all_gather, reduce_scatter
  bool in_place = false;
  uint32_t iterations = 0;  // timed
  double time_us = 0.0;
  double algorithm_gbps = 0.0;  // GB/s
  double bus_gbps = 0.0;
  std::optional<uint64_t> wrong;           // elements on all ranks; nothing: not checked
  std::optional<double> link_share;        // nothing: no limit known, or one node
  bool share_claimed = false;              // enough was moved for link_share to mean something
  std::optional<double> overlap_ratio;     // nothing: nothing moved inside a group
  std::optional<double> effective_gbps;    // what crossed the busiest node's boundary, each way
  std::array<double, 3> percentiles_us{};  // p50, p95, p99 of operations, slowest rank of each
  Phases phases;
};

// Elements per rank (all_gather, reduce_scatter) or in all (all_reduce) for a total size.
[[nodiscard]] uint64_t count_for(const Case& what, uint64_t size_bytes, uint32_t world_size);
// Whether this much traffic over a link's boundary shows what the link sustains: a shaped link lets
// its first kilobytes pass at once, which is much of a short measurement.
[[nodiscard]] bool claims_share(uint32_t iterations,
                                double boundary_bytes_each,
                                double limit_bytes_per_second);
// Owns the buffers for all sizes of one case.
class Bench {
 public:
  // device: null unless options.memory needs one; outlives the bench.
  Bench(horing::Communicator& comm,
        const Options& options,
        const harness::LinkLimit& limit,
        Case what,
        const OnDevice* device);
  // Collective. count must be above 0.
  [[nodiscard]] Measurement run(uint64_t count, uint32_t iterations, bool in_place);

 private:
  // Where a call's buffer begins.
  struct Where {
    Buffer* buffer = nullptr;
    size_t offset = 0;

    [[nodiscard]] std::byte* pointer() const { return buffer->at(offset); }
  };
  struct Timing;

  void set_buffers(uint64_t count, bool in_place);
  void write_input(uint64_t count);
  [[nodiscard]] uint64_t wrong_from(const harness::Table& expected,
                                    size_t skipped_bytes,
                                    uint64_t first,
                                    uint64_t count) const;
  [[nodiscard]] uint64_t wrong_elements(uint64_t count) const;
  void operate(uint64_t count, ho_op_report* report);
  [[nodiscard]] Timing time_operations(uint64_t count, uint32_t iterations);
  void fill_times(const Timing& timing, Measurement& row);

  horing::Communicator& comm_;
  const Options& options_;
  const harness::LinkLimit& limit_;
  Case what_;
  uint32_t world_size_;
  uint32_t rank_;
  std::vector<uint32_t> group_sizes_;
  harness::Table input_;
  std::vector<harness::Table> expected_;  // per source rank for all_gather, else one
  const OnDevice* device_;
  Buffer send_storage_;
  Buffer recv_storage_;
  Where send_;
  Where recv_;
};

}  // namespace ho::perf
