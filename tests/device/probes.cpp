// Runs the probes of docs/design/device.md on the first GPU, each in a process of its own with a
// time limit: one that hangs is named, and the next one runs. Status 77 and one line where there is
// no GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "assumptions.hpp"
#include "mapped_memory.hpp"
#include "os/shared_library.hpp"

namespace ho::device_suite {
namespace {

constexpr int kSkipped = 77;
constexpr unsigned kProbeSeconds = 10;
constexpr const char* kOneProbe = "probe";

// Compiled by the driver when it is loaded.
constexpr const char* kStoreKernel = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry probe_store(.param .u64 address, .param .u32 value) {
  .reg .u64 %place;
  .reg .u32 %what;
  ld.param.u64 %place, [address];
  ld.param.u32 %what, [value];
  st.u32 [%place], %what;
  ret;
}
)";

// The calls that the library itself does not make.
class Capture {
 public:
  static Result<Capture> find() {
    Capture capture;
    HORING_ASSIGN(capture.library_, SharedLibrary::open("libcuda.so.1"));
    capture.take("cuStreamBeginCapture_v2", capture.begin_);
    capture.take("cuStreamEndCapture", capture.end_);
    capture.take("cuGraphDestroy", capture.destroy_);
    if (capture.begin_ == nullptr || capture.end_ == nullptr || capture.destroy_ == nullptr) {
      return Status(StatusCode::kUnsupported, "this driver captures no streams");
    }
    return capture;
  }
  [[nodiscard]] Status set(const device::Device& device,
                           device::StreamHandle stream,
                           bool begins) const {
    if (begins) {
      constexpr int kGlobal = 0;
      return device.check("cuStreamBeginCapture", begin_(stream, kGlobal));
    }
    void* graph = nullptr;
    const device::DriverResult result = end_(stream, &graph);
    if (graph != nullptr) {
      destroy_(graph);
    }
    return device.check("cuStreamEndCapture", result);
  }

 private:
  template <typename Function>
  void take(const char* name, Function& function) {
    void* const address = library_.find(name);
    std::memcpy(&function, &address, sizeof function);
  }
  SharedLibrary library_;
  device::DriverResult (*begin_)(device::StreamHandle, int mode) = nullptr;
  device::DriverResult (*end_)(device::StreamHandle, void** graph) = nullptr;
  device::DriverResult (*destroy_)(void* graph) = nullptr;
};

void print(const Probe& probe, const std::string& result) {
  std::printf("%-4s %-40s %s\n", probe.assumption, probe.name, result.c_str());
}

// A fresh process: a fork of this one could not use the driver. Its exit status; -1: it was killed,
// by its alarm where it took too long.
int run_self(const std::string& what, const std::string& argument) {
  static_cast<void>(std::fflush(nullptr));
  const pid_t child = ::fork();
  if (child < 0) {
    return -1;
  }
  if (child == 0) {
    ::alarm(kProbeSeconds);  // which exec keeps
    ::execl("/proc/self/exe", "probes", what.c_str(), argument.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Prints what came of it. Whether it fails.
bool run_probe(const Bench& bench, const Probe& probe) {
  const Status status = probe.run(bench);
  const bool skipped = status.code() == StatusCode::kUnsupported;
  print(probe,
        status.ok() ? "holds"
        : skipped   ? "not probed: " + status.message()
                    : "FAILS: " + status.to_string());
  return !status.ok() && !skipped;
}

// How many fail.
int run_all() {
  int failed = 0;
  for (const Probe& probe : probes()) {
    const int status = run_self(kOneProbe, probe.name);
    if (status != 0 && status != 1) {
      print(
          probe,
          "FAILS: no end within " + std::to_string(kProbeSeconds) + " s, or it broke its process");
    }
    failed += status == 0 ? 0 : 1;
  }
  return failed;
}

Status run(const device::Driver& driver, const std::vector<std::string>& arguments, int& failed) {
  Bench bench;
  HORING_ASSIGN(bench.device, device::Device::open(driver, 0));
  auto second = device::Device::open(driver, 1);
  if (second.ok()) {
    bench.second = *second;
  }
  bench.image = kStoreKernel;
  HORING_ASSIGN(const Capture capture, Capture::find());
  bench.capture = [&](device::StreamHandle stream, bool begins) {
    return capture.set(*bench.device, stream, begins);
  };
  HORING_ASSIGN(const MappedMemory mapped, MappedMemory::find());
  bench.map_segments = [&](size_t count) { return mapped.map(*bench.device, count); };
  bench.again = run_self;
  HORING_ASSIGN(const auto current, device::CurrentContext::enter(*bench.device));
  if (arguments.size() != 2) {
    int version = 0;
    HORING_TRY(bench.device->check("cuDriverGetVersion", driver.version(&version)));
    std::printf("%s, driver of CUDA %d.%d\n",
                bench.device->name().c_str(),
                version / 1000,
                version % 1000 / 10);
    failed = run_all();
    return {};
  }
  if (arguments[0] != kOneProbe) {
    return run_again(bench, arguments[0], arguments[1]);
  }
  for (const Probe& probe : probes()) {
    failed += probe.name == arguments[1] && run_probe(bench, probe) ? 1 : 0;
  }
  return {};
}

bool is_usage(const std::vector<std::string>& arguments) {
  const auto is_named = [&](const Probe& probe) { return probe.name == arguments[1]; };
  return arguments.empty() || (arguments.size() == 2 && (arguments[0] != kOneProbe ||
                                                         std::ranges::any_of(probes(), is_named)));
}

int print_usage() {
  std::fprintf(stderr, "usage: device_probes [%s NAME]; names:\n", kOneProbe);
  for (const Probe& probe : probes()) {
    std::fprintf(stderr, "  %s\n", probe.name);
  }
  return 2;
}

int run_program(const std::vector<std::string>& arguments) {
  if (!is_usage(arguments)) {
    return print_usage();
  }
  const auto driver = device::driver();
  if (!driver.ok()) {
    std::printf("skipped: %s\n", driver.status().message().c_str());
    return kSkipped;
  }
  int count = 0;
  if ((*driver)->init(0) != device::kSuccess ||
      (*driver)->device_count(&count) != device::kSuccess || count == 0) {
    std::printf("skipped: the CUDA driver shows no GPU\n");
    return kSkipped;
  }
  int failed = 0;
  const Status status = run(**driver, arguments, failed);
  if (!status.ok()) {
    std::fprintf(stderr, "probes: %s\n", status.to_string().c_str());
  }
  return status.ok() && failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ho::device_suite

int main(int count, char** arguments) {
  return ho::device_suite::run_program({arguments + 1, arguments + count});
}
