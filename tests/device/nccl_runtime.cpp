// The runtime's collectives by the installed NCCL: a rank of a job (`horing run`), several of them
// on one GPU, each a host of its own to NCCL. Probes what docs/design/device.md believes about NCCL
// (N1 to N5, N7 to N10, N12, N13, N15), and compares every result with libhoring's over host
// memory.
//
// usage: device_nccl_runtime [--unconnected | --killed]
//   --unconnected: nothing but a rank that is absent from the first collective
//   --killed: nothing but a rank whose process is killed while collectives run
//
// status: 0; 1 with a text where something is wrong; 77 where there is no GPU or no NCCL.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/nccl_collectives.hpp"
#include "must_have.hpp"
#include "one_gpu.hpp"
#include "runtime_collectives.hpp"

namespace ho::test {
namespace {

constexpr int kSkipped = 77;
constexpr uint64_t kTimeoutMs = 30000;
constexpr uint64_t kSoonMs = 2000;

void must(ho_status status) {
  if (status != HO_OK) {
    throw std::runtime_error(ho_last_error_message());
  }
}

void expect(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

// What a rank has on the GPU.
struct Bench {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  HeldComm parent;
  HeldComm world;
  HeldComm group;
  std::shared_ptr<paro::NcclRank> rank;

  [[nodiscard]] paro::CollectiveOptions options(uint64_t timeout_ms) const {
    paro::CollectiveOptions options;
    options.timeout_ms = timeout_ms;
    options.stream = stream->handle();
    return options;
  }
  void finish() const {
    must_be_ok(device->check("cuStreamSynchronize",
                             device->driver().stream_synchronize(stream->handle())));
  }
};

// Device memory with a copy on the host.
class Bytes {
 public:
  Bytes(const Bench& bench, size_t size)
      : bench_(bench),
        device_(must_have(device::DeviceMemory::create(*bench.device, size))),
        host_(must_have(device::PinnedMemory::create(*bench.device, size))) {}
  void write(const std::vector<std::byte>& bytes) const {
    std::memcpy(host_.bytes().data(), bytes.data(), bytes.size());
    must_be_ok(bench_.stream->copy(device_.pointer(), host_.bytes().data(), bytes.size()));
  }
  [[nodiscard]] std::vector<std::byte> read() const {
    must_be_ok(bench_.stream->copy(host_.bytes().data(), device_.pointer(), device_.size()));
    bench_.finish();
    return {host_.bytes().begin(), host_.bytes().end()};
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(device_.pointer()); }

 private:
  const Bench& bench_;
  device::DeviceMemory device_;
  device::PinnedMemory host_;
};

size_t compare(
    const Bench& bench, ho_comm* set, paro::Collectives& over, DType dtype, size_t part) {
  for (const What what : kEveryCollective) {
    must_give_what_libhoring_gives(
        set, over, what, bench.options(kTimeoutMs), dtype, part, [&](size_t bytes) {
          return Bytes(bench, bytes);
        });
  }
  return std::size(kEveryCollective);
}

// N5, N7: a collective that one rank never begins holds its stream until its deadline; then all
// ranks have one cause, and their streams go on. N15: the first one of a communicator is in
// progress until then, since it connects the ranks.
void probe_absent_rank(const Bench& bench, bool connected) {
  const auto over = must_have(bench.rank->over(bench.world.get(), "sums"));
  const Bytes bytes(bench, 4096);
  const auto begin = [&](uint64_t timeout_ms, paro::Pending& pending) {
    return over->begin_all_reduce(
        bench.options(timeout_ms), DType::kFloat32, bytes.data(), 1024, pending);
  };
  if (connected) {
    paro::Pending pending;
    must_be_ok(begin(kTimeoutMs, pending));
    expect(must_have(over->join(pending, 0)), "not over at its deadline");
  }
  if (ho_comm_rank(bench.world.get()) == 0) {
    while (over->status().ok()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } else {
    paro::Pending pending;
    const Status begun = begin(kSoonMs, pending);
    expect(begun.ok() == connected, "N15: it began otherwise: " + begun.to_string());
    if (begun.ok()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kSoonMs / 4));
      expect(!over->over(pending), "N5: a collective ended that a rank has not begun");
      expect(!over->join(pending, 0).ok(), "N7: it ended well after its deadline");
    }
  }
  bench.finish();  // N7
  const std::string cause = over->status().message();
  const std::string expected =
      connected ? "has not ended within" : "is in progress after its deadline";
  expect(cause.find(expected) != std::string::npos, "the cause is: " + cause);
  std::printf("N5 N7%s: %s\n", connected ? "" : " N15", cause.c_str());
}

// N8: the last rank's process is killed amid collectives. All others have one cause, which names
// it, long before a deadline, and their streams go on.
void probe_killed_rank(const Bench& bench) {
  constexpr int kKilledAfter = 50;
  const int lost = ho_comm_world_size(bench.world.get()) - 1;
  const auto over = must_have(bench.rank->over(bench.world.get(), "sums"));
  const Bytes bytes(bench, 4096);
  Status ended;
  const auto since = std::chrono::steady_clock::now();
  for (int step = 0; ended.ok(); ++step) {
    paro::Pending pending;
    ended = over->begin_all_reduce(
        bench.options(kTimeoutMs), DType::kFloat32, bytes.data(), 1024, pending);
    if (ho_comm_rank(bench.world.get()) == lost && step == kKilledAfter) {
      ::kill(::getpid(), SIGKILL);
    }
    if (ended.ok()) {
      ended = over->join(pending, 0).status();
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  bench.finish();
  const std::string cause = over->status().message();
  expect(ended.message() == cause, "ended by another cause: " + ended.message());
  expect(cause.find("rank " + std::to_string(lost)) != std::string::npos, "the cause is: " + cause);
  expect(took.count() * 1000 < kTimeoutMs, "found by a deadline");
  std::printf("N8: after %.2f s: %s\n", took.count(), cause.c_str());
}

// The host's time of a begin and of a join by the stream, microseconds, medians.
void print_host_times(const Bench& bench, paro::Collectives& over) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  constexpr size_t kRounds = 201;
  const Bytes bytes(bench, 4096);
  std::array<std::vector<double>, 2> times;
  for (size_t round = 0; round < kRounds; ++round) {
    paro::Pending pending;
    const auto start = std::chrono::steady_clock::now();
    must_be_ok(over.begin_all_reduce(
        bench.options(kTimeoutMs), DType::kFloat32, bytes.data(), 1024, pending));
    const auto begun = std::chrono::steady_clock::now();
    expect(must_have(over.join_stream(pending, bench.stream->handle(), 0)), "not joined");
    const auto joined = std::chrono::steady_clock::now();
    expect(must_have(over.join(pending, 0)), "not over at its deadline");
    times[0].push_back(Microseconds(begun - start).count());
    times[1].push_back(Microseconds(joined - begun).count());
  }
  for (std::vector<double>& each : times) {
    std::ranges::sort(each);
  }
  std::printf("rank %d: NCCL: a begin takes the host %.1f us, a join by a stream %.1f us\n",
              ho_comm_rank(bench.world.get()),
              times[0][kRounds / 2],
              times[1][kRounds / 2]);
}

Bench make_bench(ho_comm* job, const device::Driver& driver, const nccl::Nccl& nccl) {
  Bench bench;
  bench.device = must_have(device::Device::open(driver, 0));
  bench.stream = std::make_unique<device::Stream>(must_have(device::Stream::create(*bench.device)));
  bench.parent = split(job, 0);
  bench.world = split(bench.parent.get(), 0);
  bench.group = split(bench.parent.get(), ho_comm_group_of(job, ho_comm_rank(job)));
  bench.rank = must_have(
      paro::NcclRank::make(nccl, bench.device, bench.parent.get(), bench.world.get(), kTimeoutMs));
  return bench;
}

void compare_all(const Bench& bench, const nccl::Nccl& nccl) {
  size_t checks = 0;
  for (ho_comm* const set : {bench.world.get(), bench.group.get()}) {
    // N1 to N4, N9, N10.
    const auto over = must_have(bench.rank->over(set, "a set"));
    for (const DType dtype :
         {DType::kInt32, DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
      for (const size_t part : {1U, 1000U, 65537U}) {
        checks += compare(bench, set, *over, dtype, part);
      }
    }
    if (set == bench.world.get()) {
      print_host_times(bench, *over);
    }
  }
  int version = 0;
  static_cast<void>(nccl.get_version(&version));
  std::printf("rank %d: NCCL %s: %zu collectives give what libhoring's give\n",
              ho_comm_rank(bench.world.get()),
              nccl::version_text(version).c_str(),
              checks);
}

enum class Mode { kAll, kUnconnected, kKilled };

void run(ho_comm* job, const device::Driver& driver, const nccl::Nccl& nccl, Mode mode) {
  const Bench bench = make_bench(job, driver, nccl);
  const auto current = must_have(device::CurrentContext::enter(*bench.device));
  if (mode == Mode::kAll) {
    compare_all(bench, nccl);
  }
  if (ho_comm_world_size(job) > 1) {
    mode == Mode::kKilled ? probe_killed_rank(bench) : probe_absent_rank(bench, mode == Mode::kAll);
  }
}

int run_rank(Mode mode) {
  ho_comm* created = nullptr;
  must(ho_comm_create(nullptr, &created));
  const HeldComm job(created);
  set_for_one_gpu(ho_comm_rank(job.get()));
  const auto driver = device::driver();
  const auto devices = driver.ok() ? device::device_count(**driver) : Result<int>(driver.status());
  if (!devices.ok() || *devices == 0) {
    std::printf("no GPU here: %s\n", devices.status().message().c_str());
    return kSkipped;
  }
  const auto nccl = nccl::installed();
  if (!nccl.ok()) {
    std::printf("%s\n", nccl.status().message().c_str());
    return kSkipped;
  }
  run(job.get(), **driver, **nccl, mode);
  return 0;
}

// The last rank is a child of its process, which is killed for it: whoever started the job sees no
// rank fail.
int run_with_killed_rank() {
  const char* const rank = std::getenv("RANK");
  const char* const ranks = std::getenv("WORLD_SIZE");
  if (rank == nullptr || ranks == nullptr || std::atoi(rank) + 1 != std::atoi(ranks)) {
    return run_rank(Mode::kKilled);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    return run_rank(Mode::kKilled);
  }
  int status = 0;
  expect(child > 0 && ::waitpid(child, &status, 0) == child, "no child");
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : WEXITSTATUS(status);
}

}  // namespace
}  // namespace ho::test

int main(int argc, char** argv) {
  using ho::test::Mode;
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && mode != "--unconnected" && mode != "--killed")) {
    std::fprintf(stderr, "usage: device_nccl_runtime [--unconnected | --killed]\n");
    return 2;
  }
  try {
    return mode == "--killed" ? ho::test::run_with_killed_rank()
                              : ho::test::run_rank(argc == 1 ? Mode::kAll : Mode::kUnconnected);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
