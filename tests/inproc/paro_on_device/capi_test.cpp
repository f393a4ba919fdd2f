// paro.h with states on devices of the double, moved by the double of NCCL.
#include <paro.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "nccl/nccl.hpp"
#include "on_doubles.hpp"
#include "temporary_folder.hpp"

using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::reset_doubles;

namespace {

thread_local bool has_device = true;

// As a program in C could: whatever the number, it is there. (In C++ that is undefined; the library
// must bear it.)
template <typename Enum>
__attribute__((no_sanitize("undefined"))) Enum enumerator(int number) {
  Enum value{};
  static_assert(sizeof value == sizeof number);
  std::memcpy(static_cast<void*>(&value), &number, sizeof number);
  return value;
}

constexpr paro_unit kUnits[] = {{"first", 40, 8, nullptr}, {"second", 24, 0, nullptr}};

void must(ho_status status) {
  if (status != HO_OK) {
    throw std::runtime_error(paro_last_error_message());
  }
}

struct DestroyRunner {
  void operator()(paro_runner* runner) const { paro_runner_destroy(runner); }
};
using OwnedRunner = std::unique_ptr<paro_runner, DestroyRunner>;

OwnedRunner runner_of(ho_comm* comm, const paro_runner_options& options) {
  paro_runner* runner = nullptr;
  must(paro_runner_create(comm, &options, kUnits, 2, &runner));
  return OwnedRunner(runner);
}

paro_runner_options on_device(void* stream) {
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = "IIG";
  options.alignment = 4;
  options.place = PARO_PLACE_DEVICE;
  options.collectives = PARO_COLLECTIVES_NCCL;
  options.stream = stream;
  return options;
}

// A framework whose gradients are ones: by a kernel on its stream, or on the host.
void compute(const RankDevice* device, const paro_unit_view& view) {
  const std::vector<float> ones(view.trained_count, 1.0F);
  if (device == nullptr) {
    std::memcpy(view.gradients, ones.data(), ones.size() * sizeof(float));
    return;
  }
  device->memory().operations().store(ho::DType::kFloat32, ones, view.gradients);
}

void load(paro_runner* runner) {
  for (uint32_t unit = 0; unit < 2; ++unit) {
    const std::vector<float> values(kUnits[unit].trained, 0.5F);
    const std::vector<float> frozen(kUnits[unit].frozen, 2.0F);
    must(
        paro_runner_load(runner, unit, values.data(), values.size(), frozen.data(), frozen.size()));
  }
}

void run_hooks(paro_runner* runner, const RankDevice* device) {
  paro_unit_view view = PARO_UNIT_VIEW_INIT;
  for (uint32_t unit = 0; unit < 2; ++unit) {
    must(paro_runner_before_forward(runner, unit, &view));
    must(paro_runner_after_forward(runner, unit));
  }
  must(paro_runner_poll(runner));
  for (uint32_t unit = 2; unit-- > 0;) {
    must(paro_runner_before_backward(runner, unit, &view));
    compute(device, view);
    must(paro_runner_after_backward(runner, unit));
  }
}

std::vector<float> trained(ho_comm* comm, const RankDevice* device, const std::string& folder) {
  paro_runner_options options =
      on_device(device == nullptr ? nullptr : device->memory().operations().stream());
  if (device == nullptr) {
    options.place = PARO_PLACE_HOST;
    options.collectives = PARO_COLLECTIVES_HORING;
  }
  const OwnedRunner owned = runner_of(comm, options);
  paro_runner* const runner = owned.get();
  load(runner);
  for (int step = 0; step < 3; ++step) {
    run_hooks(runner, device);
    must(paro_runner_step(runner, nullptr));
  }
  must(paro_runner_save(runner, folder.c_str(), nullptr));
  must(paro_runner_check_drift(runner));
  paro_memory memory = PARO_MEMORY_INIT;
  must(paro_runner_memory(runner, PARO_MEMORY_OPTIMIZER, &memory));
  if (memory.now_bytes != memory.predicted_bytes) {
    throw std::runtime_error("other memory than predicted");
  }
  std::vector<float> masters(kUnits[0].trained);
  must(paro_runner_read_masters(runner, 0, masters.data(), masters.size()));
  return masters;
}

}  // namespace

// What libhoring and the installed NCCL would answer where there is a GPU.
extern "C" int32_t ho_comm_device(const ho_comm* comm) {
  return has_device ? ho_comm_rank(comm) : HO_DEVICE_NONE;
}
namespace ho::nccl {
ho::Result<const Nccl*> installed() {
  return &nccl_double::nccl();
}
}  // namespace ho::nccl

TEST_CASE("a program in C trains with states on devices as with states on the host") {
  reset_doubles(Mode::kRandom);
  const ho::test::TemporaryFolder folder;
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    if (trained(comm, &device, folder.path("device")) !=
        trained(comm, nullptr, folder.path("host"))) {
      throw std::runtime_error("other masters than on the host");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a program in C reads a step's norm by flush, within the time that it gives") {
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    const OwnedRunner owned = runner_of(comm, on_device(device.memory().operations().stream()));
    paro_runner* const runner = owned.get();
    load(runner);
    paro_step_report report = PARO_STEP_REPORT_INIT;
    run_hooks(runner, &device);
    must(paro_runner_step(runner, &report));
    if (report.step != 1 || report.outcome_step != 0 || report.applied != 1 || report.norm != 0) {
      throw std::runtime_error("the first report has an outcome");
    }
    must(paro_runner_flush(runner, 0, &report));
    // Ones, averaged over the ranks.
    if (report.outcome_step != 1 ||
        report.norm != std::sqrt(kUnits[0].trained + kUnits[1].trained)) {
      throw std::runtime_error("another norm than the gradients'");
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    ho::nccl_double::hold(ho_comm_rank(comm));
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    for (uint32_t unit = 0; unit < 2; ++unit) {
      must(paro_runner_before_forward(runner, unit, &view));
      must(paro_runner_after_forward(runner, unit));
    }
    for (uint32_t unit = 2; unit-- > 0;) {
      must(paro_runner_before_backward(runner, unit, &view));
      must(paro_runner_after_backward(runner, unit));
    }
    must(paro_runner_step(runner, nullptr));
    if (paro_runner_flush(runner, 1, &report) != HO_TIMEOUT ||
        !has(paro_last_error_message(), "within 1 ms") || paro_runner_applied_steps(runner) != 1) {
      throw std::runtime_error("a flush has not ended at its time");
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    ho::nccl_double::let_go(ho_comm_rank(comm));
    must(paro_runner_flush(runner, 0, &report));
    if (report.step != 2 || report.norm != 0 || paro_runner_applied_steps(runner) != 2) {
      throw std::runtime_error("the runner has not gone on");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a program in C goes on after a rejoin with the step after the last one that has ended") {
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    const OwnedRunner owned = runner_of(comm, on_device(device.memory().operations().stream()));
    paro_runner* const runner = owned.get();
    load(runner);
    paro_step_report report = PARO_STEP_REPORT_INIT;
    for (int step = 0; step < 2; ++step) {
      run_hooks(runner, &device);
      must(paro_runner_step(runner, &report));
    }
    run_hooks(runner, &device);
    // Step 2 has ended on this device: step 3 computes with what it has brought.
    if (!device.computed_within(std::chrono::seconds(60))) {
      throw std::runtime_error("the hooks of step 3 do not end");
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    if (ho_comm_rank(comm) == 1) {
      must(paro_runner_abort(runner, "enough"));
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    if (paro_runner_step(runner, nullptr) == HO_OK &&
        paro_runner_flush(runner, 0, nullptr) == HO_OK) {
      throw std::runtime_error("the step goes on after an abort");
    }
    must(paro_runner_rejoin(runner, comm));
    must(paro_runner_flush(runner, 0, &report));
    // The last report before knew of step 1 alone.
    if (report.outcome_step != 2 || paro_runner_applied_steps(runner) != 2) {
      throw std::runtime_error("step 3 is not to be repeated");
    }
    run_hooks(runner, &device);
    must(paro_runner_step(runner, nullptr));
    must(paro_runner_flush(runner, 0, &report));
    if (report.outcome_step != 3 || report.applied != 1) {
      throw std::runtime_error("step 3 was not repeated");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a strategy that a file asks for is taken once, a step later than on the host") {
  reset_doubles(Mode::kRandom);
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("strategy");
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    paro_runner_options options = on_device(device.memory().operations().stream());
    options.strategy_file = path.c_str();
    const OwnedRunner owned = runner_of(comm, options);
    paro_runner* const runner = owned.get();
    load(runner);
    std::string strategies;
    for (int step = 0; step < 7; ++step) {
      if (ho_comm_rank(comm) == 0 && (step == 1 || step == 4)) {
        std::ofstream(path + ".new") << (step == 1 ? "GGG" : "NIG");
        std::filesystem::rename(path + ".new", path);
      }
      run_hooks(runner, &device);
      must(paro_runner_step(runner, nullptr));
      char letters[4] = {};
      must(paro_runner_strategy(runner, letters, sizeof letters));
      strategies += std::string(letters) + " ";
    }
    if (strategies != "IIG IIG GGG GGG GGG NIG NIG ") {
      throw std::runtime_error("the strategies were " + strategies);
    }
    paro_step_report report = PARO_STEP_REPORT_INIT;
    must(paro_runner_flush(runner, 0, &report));
    if (report.step != 7 || report.outcome_step != 7 || paro_runner_applied_steps(runner) != 7) {
      throw std::runtime_error("a change of strategy has lost a step");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("places and collectives that do not go together are refused") {
  struct Case {
    const char* text;
    void (*change)(paro_runner_options& options);
  };
  const std::vector<Case> cases{
      {"place is 2; see paro_place", [](auto& o) { o.place = enumerator<paro_place>(2); }},
      {"collectives is 3; see paro_collectives",
       [](auto& o) { o.collectives = enumerator<paro_collectives>(3); }},
      {"set place to PARO_PLACE_DEVICE", [](auto& o) { o.place = PARO_PLACE_HOST; }},
      {"set collectives to PARO_COLLECTIVES_NCCL",
       [](auto& o) { o.collectives = PARO_COLLECTIVES_HORING; }},
      {"stream is set with states on the host",
       [](auto& o) {
         o.place = PARO_PLACE_HOST;
         o.collectives = PARO_COLLECTIVES_HORING;
       }},
      {"a custom optimizer with states on a device",
       [](auto& o) {
         o.optimizer = PARO_OPTIMIZER_CUSTOM;
         o.custom.function = [](const paro_shard*, void*) { return 0; };
       }},
      {"auto_strategy (or PARO_AUTO_STRATEGY) chooses by the links of libhoring",
       [](auto& o) { o.auto_strategy = 1; }},
      {"set ho_comm_options.device", [](auto& /*o*/) { has_device = false; }},
  };
  reset_doubles();
  ho::test::require_job({"1x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    for (const Case& each : cases) {
      paro_runner_options options = on_device(device.memory().operations().stream());
      has_device = true;
      each.change(options);
      paro_runner* runner = nullptr;
      const ho_status status = paro_runner_create(comm, &options, kUnits, 2, &runner);
      if (status != HO_INVALID_ARGUMENT ||
          std::string(paro_last_error_message()).find(each.text) == std::string::npos) {
        throw std::runtime_error(std::string("wanted '") + each.text + "', got " +
                                 paro_last_error_message());
      }
    }
    // An older program, which knows none of them.
    paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
    options.size = offsetof(paro_runner_options, place);
    options.place = PARO_PLACE_DEVICE;
    const OwnedRunner runner = runner_of(comm, options);
  });
  CHECK(left_on_doubles() == "");
}
