// libparo's training under seeded faults: gradients follow from step, rank and element, so two runs
// of one seed are equal bit by bit. Until a file is there, or for so many steps. Each rank leaves
// its process' number in a folder, in its folder `results` a hash of all parameters that it was
// given at each step and of the masters at the end, and rank 0 after each step the step's number.
//   paro_rank SEED STOP-FILE FOLDER [STEPS]
#include <paro.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::array<const char*, 6> kStrategies{"NNN", "NNG", "NIG", "IIG", "GGG", "NII"};
constexpr std::array<paro_unit, 4> kUnits{paro_unit{"first", 70'001, 0, nullptr},
                                          {"second", 262'144, 0, nullptr},
                                          {"small", 33, 0, nullptr},
                                          {"last", 131'072, 0, nullptr}};
constexpr uint32_t kMicroBatches = 2;
constexpr uint64_t kNothing = 14'695'981'039'346'656'037U;  // the hash of no value: FNV-1a's

void must(ho_status status, const char* (*why)() = paro_last_error_message) {
  if (status != HO_OK) {
    throw std::runtime_error(why());
  }
}

uint64_t hash(uint64_t so_far, std::span<const float> values) {
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    so_far = (so_far ^ bits) * 1'099'511'628'211U;
  }
  return so_far;
}

class Training {
 public:
  Training(uint32_t seed, std::string folder) : folder_(std::move(folder)) {
    must(ho_comm_create(nullptr, &comm_), ho_last_error_message);
    paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
    options.strategy = kStrategies.at(seed % kStrategies.size());
    options.micro_batches = kMicroBatches;
    options.alignment = 1;
    options.adamw = {0.01, 0.9, 0.99, 1e-8, 0.01};
    must(paro_runner_create(comm_, &options, kUnits.data(), kUnits.size(), &runner_));
    for (uint32_t u = 0; u < kUnits.size(); ++u) {
      std::vector<float> start(kUnits.at(u).trained);
      for (size_t i = 0; i < start.size(); ++i) {
        start[i] = static_cast<float>((seed + u * 7 + i) % 1'000) / 1'000;
      }
      must(paro_runner_load(runner_, u, start.data(), start.size(), nullptr, 0));
    }
    const std::string self = std::to_string(rank());
    std::filesystem::create_directories(folder_ + "/results");
    results_.open(folder_ + "/results/" + self);
    std::ofstream(folder_ + "/" + self) << ::getpid() << '\n';
  }
  ~Training() {
    paro_runner_destroy(runner_);
    ho_comm_destroy(comm_);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void step() {
    ++steps_;
    uint64_t seen = kNothing;
    for (uint32_t batch = 0; batch < kMicroBatches; ++batch) {
      seen = backward(batch, forward(seen));
    }
    paro_step_report report = PARO_STEP_REPORT_INIT;
    must(paro_runner_step(runner_, &report));
    if (report.applied == 0) {
      throw std::runtime_error("step " + std::to_string(steps_) + ": a gradient is not finite");
    }
    results_ << steps_ << ' ' << seen << std::endl;
    if (rank() == 0) {
      std::ofstream(folder_ + "/call") << steps_ << '\n';
    }
  }
  void end() {
    uint64_t masters = kNothing;
    for (uint32_t u = 0; u < kUnits.size(); ++u) {
      std::vector<float> trained(kUnits.at(u).trained);
      must(paro_runner_read_masters(runner_, u, trained.data(), trained.size()));
      masters = hash(masters, trained);
    }
    results_ << "masters " << masters << std::endl;
  }
  // Rank 0 looks for the file, for all.
  bool goes_on(const std::string& stop) {
    int32_t on = rank() == 0 && std::filesystem::exists(stop) ? 0 : 1;
    must(ho_broadcast(comm_, &on, &on, 1, HO_INT32, 0, nullptr, nullptr, nullptr),
         ho_last_error_message);
    return on == 1;
  }
  [[nodiscard]] uint32_t steps() const { return steps_; }

 private:
  [[nodiscard]] int rank() const { return ho_comm_rank(comm_); }

  uint64_t forward(uint64_t seen) {
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    for (uint32_t u = 0; u < kUnits.size(); ++u) {
      must(paro_runner_before_forward(runner_, u, &view));
      seen = hash(seen, {static_cast<const float*>(view.trained), kUnits.at(u).trained});
      must(paro_runner_after_forward(runner_, u));
    }
    return seen;
  }
  uint64_t backward(uint32_t batch, uint64_t seen) {
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    for (auto u = static_cast<uint32_t>(kUnits.size()); u-- > 0;) {
      must(paro_runner_before_backward(runner_, u, &view));
      seen = hash(seen, {static_cast<const float*>(view.trained), kUnits.at(u).trained});
      auto* const gradients = static_cast<float*>(view.gradients);
      for (size_t i = 0; i < kUnits.at(u).trained; ++i) {
        const size_t mixed = steps_ * 31U + batch * 17U + static_cast<size_t>(rank()) * 7U + i;
        gradients[i] += static_cast<float>(mixed % 1'009) / 1'009 - 0.5F;
      }
      must(paro_runner_after_backward(runner_, u));
    }
    return seen;
  }

  std::string folder_;
  ho_comm* comm_ = nullptr;
  paro_runner* runner_ = nullptr;
  std::ofstream results_;
  uint32_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: paro_rank SEED STOP-FILE FOLDER [STEPS]\n");
    return 2;
  }
  try {
    Training training(static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10)), argv[3]);
    const auto most = static_cast<uint32_t>(argc == 5 ? std::strtoul(argv[4], nullptr, 10) : 0);
    while (most > 0 ? training.steps() < most : training.goes_on(argv[2])) {
      training.step();
    }
    training.end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paro_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
