// plugin_perf: CollNet of the NCCL plugin against flat rings over its network.
//
// Both ways run in turns, round by round, on the same machine state; each size is checked once. As
// in the other perf programs operations follow each other without a pause after warm-up operations
// that empty the links' token buckets, and the slowest rank's time counts.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <horing/communicator.hpp>
#include <numeric>
#include <optional>
#include <string>

#include "abi/releases.hpp"
#include "base/names.hpp"
#include "bench/harness/collective.hpp"
#include "bench/harness/columns.hpp"
#include "bench/harness/gather.hpp"
#include "bench/harness/link_limit.hpp"
#include "bench/nccl_host/coll_net_comm.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/ring_comm.hpp"
#include "bench/plugin_perf/options.hpp"
#include "cli/subcommands/option_error.hpp"
#include "cli/subcommands/own_plugin.hpp"
#include "cli/subcommands/statistics.hpp"
#include "cli/subcommands/table.hpp"
#include "os/clock.hpp"

namespace ho::plugin_perf {
namespace {

using nccl_host::Collective;
using nccl_host::CollNetComm;
using nccl_host::HostError;
using nccl_host::JobLayout;
using nccl_host::JobMemory;
using nccl_host::JobShape;
using nccl_host::RingComm;
using nccl_host::Work;

constexpr std::chrono::minutes kTimeout{5};

struct JoinedJob {
  JobMemory memory;
  uint32_t rank = 0;
  harness::LinkLimit limit;
};

nccl_host::RingOptions ring_options(const Options& options) {
  nccl_host::RingOptions ring;
  ring.channels = options.channels;
  return ring;
}

JobLayout layout_of(const horing::Communicator& comm, const Options& options) {
  JobLayout layout;
  layout.shape.nodes = static_cast<uint32_t>(comm.group_count());
  layout.shape.ranks_per_node = static_cast<uint32_t>(comm.world_size()) / layout.shape.nodes;
  layout.communicators = 2;
  layout.buffer_bytes = options.largest() + 4096;
  layout.link_bytes = ring_options(options).link_bytes();
  const auto rank = static_cast<uint32_t>(comm.rank());
  const bool by_node =
      layout.shape.world() == static_cast<uint32_t>(comm.world_size()) &&
      layout.shape.node_of(rank) == static_cast<uint32_t>(comm.group_of(comm.rank()));
  if (!by_node || layout.shape.nodes < 2) {
    throw HostError("plugin_perf takes two nodes or more of equal size, numbered node by node");
  }
  return layout;
}

// Through the library, which has the link limit too. It is gone before anything is timed.
JoinedJob join_job(const Options& options) {
  auto comm = horing::Communicator::create();
  const JobLayout layout = layout_of(comm, options);
  const auto rank = static_cast<uint32_t>(comm.rank());
  harness::LinkLimit limit{.how = "not measured (--no-link-limit)"};
  if (options.measure_link_limit) {
    limit = harness::measure_link_limit(comm);
  }
  const int64_t when = harness::gather_all(comm, now_ns()).front();
  const auto folder = std::filesystem::temp_directory_path();
  const std::string listener_path = folder / ("horing-plugin-perf-" + std::to_string(when));
  std::optional<JobMemory> memory;
  if (rank == 0) {
    memory.emplace(JobMemory::create(layout));
    const Fd listener = JobMemory::listen_at(listener_path);
    comm.barrier();
    memory->hand_out(listener, listener_path, layout.shape.world() - 1);
  } else {
    comm.barrier();
    memory.emplace(JobMemory::join(listener_path, layout));
  }
  return {std::move(*memory), rank, limit};
}

// What one way took, round by round.
struct Way {
  std::vector<double> times_us;
  std::vector<double> cpu_s;  // of one operation, on all ranks
  uint64_t wrong = 0;

  [[nodiscard]] double median_us() const { return percentile(times_us, 0.5); }
};

template <typename Comm>
void check(Comm& comm, const Work& work, Way& way) {
  nccl_host::write_input(work, comm.memory());
  comm.memory().world_barrier();
  comm.run(work);
  for (const uint64_t of_rank : comm.memory().all_gather(count_wrong(work, comm.memory()))) {
    way.wrong += of_rank;
  }
}

// All threads of this process, the plugin's among them.
double process_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

template <typename Comm>
void time_round(Comm& comm, const Work& work, const Options& options, uint32_t count, Way& way) {
  comm.memory().world_barrier();
  for (uint32_t i = 0; i < options.warmup; ++i) {
    comm.run(work);
  }
  const int64_t started = now_ns();
  const double cpu_before = process_cpu_s();
  for (uint32_t i = 0; i < count; ++i) {
    comm.run(work);
  }
  const double mine = static_cast<double>(now_ns() - started) / 1e3 / count;
  const auto cpu = comm.memory().all_gather((process_cpu_s() - cpu_before) / count);
  const auto all = comm.memory().all_gather(mine);
  way.times_us.push_back(*std::max_element(all.begin(), all.end()));
  way.cpu_s.push_back(std::accumulate(cpu.begin(), cpu.end(), 0.0));
}

constexpr std::array<harness::FixedColumn, 6> kFigures{{{"time", "", 11},
                                                        {"algbw", "", 7},
                                                        {"busbw", "", 7},
                                                        {"cpu", "", 7},
                                                        {"#wrong", "", 6},
                                                        {"share", "", 6}}};

std::string figures_text(const Way& way, double size, double bus_factor, double share_us) {
  std::array<std::string, kFigures.size()> texts;
  texts.fill("-");
  if (!way.times_us.empty()) {
    const double gbps = size / way.median_us() / 1e3;
    texts = {fixed(way.median_us(), 2),
             fixed(gbps, 3),
             fixed(gbps * bus_factor, 3),
             fixed(percentile(way.cpu_s, 0.5) / (size / 1e9), 2),
             std::to_string(way.wrong),
             share_us > 0.0 ? fixed(share_us / way.median_us(), 3) : "-"};
  }
  return harness::line_of(kFigures, texts);
}

void print_header(const Options& options, const JobShape& shape, const harness::LinkLimit& limit) {
  std::printf(
      "# plugin_perf  nodes %u x %u ranks  NCCL %s  channels %u  emulation %s\n"
      "# CollNet: all-reduce as %s\n",
      shape.nodes,
      shape.ranks_per_node,
      options.release.c_str(),
      options.channels,
      harness::emulation_mode().c_str(),
      nccl_host::is_chain(Collective::kAllReduce, shape) ? "COLLNET_CHAIN, one rank per node"
                                                         : "COLLNET_DIRECT");
  std::printf("# link limit %s\n", harness::limit_text(limit).c_str());
  std::printf(
      "# medians of %u rounds, both ways in turns; share: bytes that must cross a node's boundary "
      "/ limit / time; cpu: seconds of all ranks' processors per GB of the size\n"
      "# NCCL's windows put one or two nodes' blocks into flight: all-gather and reduce-scatter "
      "through CollNet then reach a share of %.2f, more where a chunk is larger (--chunk)\n",
      options.rounds,
      1.0 - 1.0 / shape.nodes);
  const std::string figures = harness::heads_of(kFigures);
  const std::string lead = harness::heads_of(harness::case_columns("coll"));
  std::printf("#\n#%50s%-51s%-51s\n#%s %s %s  faster\n",
              "",
              "   CollNet",
              "   flat rings",
              &lead[1],
              figures.c_str(),
              figures.c_str());
  std::fflush(stdout);
}

constexpr Names<3> kShortNames{"ag", "rs", "ar"};  // as harness::Collective counts

void print_row(const Work& work,
               const JobShape& shape,
               const harness::LinkLimit& limit,
               const Way ways[2]) {
  const auto size = static_cast<double>(work.total_bytes(shape.world()));
  const std::vector<uint32_t> groups(shape.nodes, shape.ranks_per_node);
  const double boundary = harness::boundary_bytes(work.kind, size, groups);
  const double share_us =
      limit.bytes_per_second > 0.0 ? boundary / limit.bytes_per_second * 1e6 : 0.0;
  const double factor = harness::bus_factor(work.kind, shape.world());
  const std::array<std::string, 5> lead{
      fixed(size, 0),
      std::to_string(work.count),
      std::string(to_string(work.dtype)),
      work.kind == Collective::kAllGather ? "none" : std::string(to_string(work.op)),
      std::string(name_in(kShortNames, work.kind))};
  std::printf("%s %s %s",
              harness::line_of(harness::case_columns("coll"), lead).c_str(),
              figures_text(ways[0], size, factor, share_us).c_str(),
              figures_text(ways[1], size, factor, share_us).c_str());
  if (!ways[0].times_us.empty() && !ways[1].times_us.empty()) {
    std::printf(" %6.3fx", ways[1].median_us() / ways[0].median_us());
  }
  std::printf("\n");
  std::fflush(stdout);
}

class Bench {
 public:
  Bench(const Options& options, JoinedJob& joined)
      : options_(options), joined_(joined), library_(options.release) {
    if (options.coll_net) {
      nccl_host::CollNetOptions wanted;
      wanted.settings = {options.channels, options.slot_bytes, options.chunk_bytes};
      wanted.poison = false;
      coll_net_.emplace(library_, joined.memory.comm(0, joined.rank, kTimeout), 1, wanted);
      if (coll_net_->connect() != nccl_host::CollNetState::kUsed) {
        throw HostError("CollNet was refused; see the plugin's warnings (HORING_LOG_LEVEL)");
      }
    }
    if (options.ring) {
      ring_.emplace(
          library_, joined.memory.comm(1, joined.rank, kTimeout), 2, ring_options(options));
    }
    const auto devices = static_cast<uint32_t>(library_.device_count());
    if (joined.limit.bytes_per_second > 0.0 && joined.limit.rails != devices) {
      joined.limit = {.how = "not known: plain TCP was measured on " +
                             std::to_string(joined.limit.rails) +
                             " interfaces of a node, the plugin has " + std::to_string(devices) +
                             "; start as many ranks per node as it has rails"};
    }
  }

  [[nodiscard]] uint64_t run(const Work& work, uint32_t count) {
    Way ways[2];
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      if (coll_net_) {
        run_way(*coll_net_, work, count, round, ways[0]);
      }
      if (ring_) {
        run_way(*ring_, work, count, round, ways[1]);
      }
    }
    if (joined_.rank == 0) {
      print_row(work, joined_.memory.layout().shape, joined_.limit, ways);
    }
    return ways[0].wrong + ways[1].wrong;
  }
  void close() {
    if (coll_net_) {
      coll_net_->memory().world_barrier();
      coll_net_->close();
    }
    if (ring_) {
      ring_->memory().world_barrier();
      ring_->close();
    }
  }

 private:
  template <typename Comm>
  void run_way(Comm& comm, const Work& work, uint32_t count, uint32_t round, Way& way) {
    if (round == 0) {
      check(comm, work, way);
    }
    time_round(comm, work, options_, count, way);
  }

  const Options& options_;
  JoinedJob& joined_;
  nccl_host::PluginLibrary library_;
  std::optional<CollNetComm> coll_net_;
  std::optional<RingComm> ring_;
};

// Some releases take no path, only a name that the loader searches for.
std::string name_for(const std::filesystem::path& path, const std::string& release) {
  using enum nccl_abi::FileNaming;
  const auto found = nccl_abi::find_release(release);
  const auto naming = found ? found->release->net_naming : kVerbatim;
  if (naming != kPrefixed && naming != kVerbatimIfLibrary) {
    return path;
  }
  if (::dlopen(path.filename().c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    throw HostError("NCCL " + release + " takes no path of a plugin: put " +
                    path.parent_path().string() + " into LD_LIBRARY_PATH");
  }
  return "horing";
}

// Where neither --plugin nor the environment names one, the library that was built or installed
// with this program.
void choose_plugin(const Options& options) {
  std::string plugin = options.plugin;
  if (plugin.empty() && std::getenv("NCCL_NET_PLUGIN") == nullptr) {
    plugin = own_plugin(HORING_LIBDIR);
    if (plugin.empty()) {
      throw HostError(
          "there is no libnccl-net-horing.so beside this program, built or installed; name it "
          "with --plugin");
    }
    plugin = name_for(plugin, options.release);
  }
  if (!plugin.empty()) {
    ::setenv("NCCL_NET_PLUGIN", plugin.c_str(), 1);
  }
}

// Nothing is measured that is larger than what was requested.
std::string too_small(const Options& options, const JobShape& shape) {
  for (const Collective kind : options.collectives) {
    for (const harness::SizeRun& run : options.sizes) {
      const Work work =
          nccl_host::work_of_bytes(kind, options.dtype, options.op, run.size_bytes, shape.world());
      if (work.total_bytes(shape.world()) > run.size_bytes) {
        return "--sizes: " + std::to_string(run.size_bytes) + " bytes of " +
               std::string(harness::to_string(kind)) + " are less than one " +
               std::string(to_string(options.dtype)) + " for each of the " +
               std::to_string(shape.world()) + " ranks; " +
               std::to_string(work.total_bytes(shape.world())) + " is the least";
      }
    }
  }
  return "";
}

int run(const Options& options) {
  choose_plugin(options);
  JoinedJob joined = join_job(options);
  const JobShape shape = joined.memory.layout().shape;
  if (const std::string why = too_small(options, shape); !why.empty()) {
    if (joined.rank == 0) {
      std::fprintf(stderr, "plugin_perf: %s\n", why.c_str());
    }
    return fail_after_first_rank(kUsageError);
  }
  Bench bench(options, joined);
  if (joined.rank == 0) {
    print_header(options, shape, joined.limit);
  }
  uint64_t wrong = 0;
  for (const Collective kind : options.collectives) {
    for (const auto& [size, count] : options.sizes) {
      const Work work =
          nccl_host::work_of_bytes(kind, options.dtype, options.op, size, shape.world());
      wrong += bench.run(work, count);
    }
  }
  bench.close();
  if (joined.rank == 0) {
    std::printf("# Out of bounds values : %" PRIu64 " %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
  }
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace ho::plugin_perf

int main(int argc, char** argv) {
  const auto parsed = ho::plugin_perf::parse_options(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  try {
    return ho::plugin_perf::run(parsed.options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plugin_perf: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
