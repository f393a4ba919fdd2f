#include "cli/paro/checkpoint_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <horing/communicator.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/load.hpp"
#include "checkpoint/saver.hpp"
#include "cli/paro/job/must.hpp"
#include "cli/paro/toy_model/training.hpp"
#include "cli/subcommands/output_file.hpp"
#include "cli/subcommands/statistics.hpp"
#include "cli/subcommands/table.hpp"
#include "run/agreement.hpp"

namespace paro::tool {
namespace {

using checkpoint::Path;
using checkpoint::SaveFrom;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kTimeoutMs = 10ULL * 60 * 1000;
constexpr size_t kWriteBlock = size_t{1} << 20;  // dd's bs=1M
constexpr const char* kBench = "paro checkpoint bench";
constexpr uint64_t kModelUnits = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What every round measured, in seconds.
struct Measured {
  std::vector<double> save;         // all ranks, until it is published
  std::vector<double> plain_write;  // one process: write and fsync
  std::vector<double> step;         // without a save
  std::vector<double> with_save;    // the same with one in the background
  uint64_t bytes = 0;               // of a checkpoint, all ranks

  [[nodiscard]] static std::vector<double> ratios(const std::vector<double>& above,
                                                  const std::vector<double>& below) {
    std::vector<double> all;
    for (size_t i = 0; i < above.size(); ++i) {
      all.push_back(above[i] / below[i]);
    }
    return all;
  }
};

toy::Training training_of(const BenchOptions& options) {
  toy::Training training;
  training.samples = 1;
  training.model.blocks = 2;
  training.unit_elements = options.parameters / kModelUnits;
  training.forward_time = std::chrono::nanoseconds(static_cast<int64_t>(options.forward_ms * 1e6));
  training.runner.strategy = options.strategy;
  training.runner.frozen = options.strategy.parameters;
  return training;
}

class Bench {
 public:
  Bench(horing::Communicator& job, const BenchOptions& options)
      : job_(job),
        options_(options),
        training_(training_of(options)),
        model_(must(toy::Model::make(training_.model))),
        folder_(std::filesystem::absolute(options.folder) / "paro-bench") {
    training_.runner.units = toy::unit_shapes(model_, training_.unit_elements);
    const ho::GroupMap groups = must(nodes_of(job.get()));
    runner_ = must(StepRunner::create(job.get(), groups, training_.runner, memory_));
    must(toy::load_initial(model_, *runner_));
    saver_ = std::make_unique<checkpoint::Saver>(
        must(runner_->between_steps().new_communicator("save")));
    make_folder();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    std::error_code error;
    if (made_) {
      std::filesystem::remove_all(folder_, error);
    }
  }

  // The order turns from round to round: the first one finds an emptier disk.
  [[nodiscard]] Measured run() {
    Measured measured;
    static_cast<void>(train(false));  // warm
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      for (uint32_t turn = 0; turn < 4; ++turn) {
        switch ((turn + round) % 4) {
          case 0:
            measured.save.push_back(save());
            break;
          case 1:
            measured.plain_write.push_back(write_whole(bytes_));
            break;
          case 2:
            measured.step.push_back(train(false));
            break;
          default:
            measured.with_save.push_back(train(true));
        }
      }
      if (job_.rank() == 0) {
        std::fprintf(stderr, "round %u of %u\n", round + 1, options_.rounds);
      }
    }
    measured.bytes = bytes_;
    return measured;
  }

 private:
  void make_folder() {
    std::error_code error;
    ho::Status status;
    if (job_.rank() == 0) {
      std::filesystem::create_directories(folder_.parent_path(), error);
      made_ = !error && std::filesystem::create_directory(folder_, error);
      if (!made_) {
        status = {ho::StatusCode::kInvalidArgument,
                  folder_.string() + (error ? ": " + error.message()
                                            : " is there already: remove it, or take another")};
      }
    }
    must(all_ok(job_.get(), status));
    for (const StatePart& part : runner_->between_steps().parts()) {
      bytes_ += part.values.size();
    }
    job_.all_reduce(std::span<uint64_t>(&bytes_, 1), HO_SUM);
  }

  // From now until all ranks are here, on rank 0's clock.
  template <typename Work>
  double timed(const Work& work) {
    job_.barrier();
    const auto start = Clock::now();
    work();
    job_.barrier();
    double took = seconds_since(start);
    job_.broadcast(std::span<double>(&took, 1), 0);
    return took;
  }

  void start_save(bool in_background) {
    auto request = checkpoint::request_of(
        *runner_, folder_ / "saved", in_background ? SaveFrom::kCopy : SaveFrom::kRunner);
    if (request.ok()) {
      request->keep = 1;
    }
    must(saver_->start(std::move(request), {kTimeoutMs, in_background}));
  }

  // What follows is not to share the disk with the removing of the one before.
  double save() {
    const double took = timed([&] { start_save(false); });
    saver_->settle();
    return took;
  }

  // As dd bs=1M conv=fsync does.
  double write_whole(uint64_t bytes) {
    const Path path = folder_ / "stream";
    if (block_.empty()) {
      std::mt19937_64 random(1);
      block_.resize(kWriteBlock);
      for (std::byte& byte : block_) {
        byte = static_cast<std::byte>(random());
      }
    }
    const double took = timed([&] {
      const auto write = [&]() -> ho::Status {
        HORING_ASSIGN(checkpoint::File file, checkpoint::File::create(path));
        for (uint64_t left = bytes; left > 0;) {
          const size_t now = std::min<uint64_t>(left, kWriteBlock);
          HORING_TRY(file.append(std::span(block_).first(now)));
          left -= now;
        }
        return file.sync();
      };
      must(all_ok(job_.get(), job_.rank() == 0 ? write() : ho::Status()));
    });
    std::error_code error;
    if (job_.rank() == 0) {
      std::filesystem::remove(path, error);
    }
    return took;
  }

  // Seconds of a step; a save begins before the first, and has ended after the last.
  double train(bool saves) {
    const double took = timed([&] {
      if (saves) {
        start_save(true);
      }
      for (uint32_t i = 0; i < options_.steps; ++i) {
        must(toy::train_step(model_,
                             *runner_,
                             training_,
                             step_++,
                             static_cast<uint32_t>(job_.rank()),
                             static_cast<uint32_t>(job_.world_size())));
      }
      must(runner_->synchronize());
      must(saver_->wait());
      saver_->settle();
    });
    return took / options_.steps;
  }

  horing::Communicator& job_;
  const BenchOptions& options_;
  toy::Training training_;
  toy::Model model_;
  Path folder_;
  bool made_ = false;
  HostMemory memory_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<checkpoint::Saver> saver_;
  std::vector<std::byte> block_;
  uint64_t bytes_ = 0;
  uint64_t step_ = 0;
};

// Median, least and most.
std::string spread(std::vector<double> values, int digits) {
  std::sort(values.begin(), values.end());
  return ho::fixed(ho::median(values), digits) + " (" + ho::fixed(values.front(), digits) + " to " +
         ho::fixed(values.back(), digits) + ")";
}

std::vector<double> rates(const std::vector<double>& seconds, uint64_t bytes) {
  std::vector<double> all;
  for (const double one : seconds) {
    all.push_back(static_cast<double>(bytes) / 1e6 / one);
  }
  return all;
}

std::vector<double> in_ms(std::vector<double> seconds) {
  for (double& one : seconds) {
    one *= 1e3;
  }
  return seconds;
}

std::string bench_text(const BenchOptions& options,
                       const Measured& measured,
                       int ranks,
                       double load) {
  const auto saving = Measured::ratios(measured.plain_write, measured.save);
  const auto training = Measured::ratios(measured.with_save, measured.step);
  std::vector<ho::Column> columns{{"",
                                   true,
                                   {"save, MB/s",
                                    "one stream with fsync, MB/s",
                                    "save / stream",
                                    "step, ms",
                                    "step with a save in the background, ms",
                                    "with / without"}},
                                  {"median (least to most)",
                                   true,
                                   {spread(rates(measured.save, measured.bytes), 0),
                                    spread(rates(measured.plain_write, measured.bytes), 0),
                                    spread(saving, 3),
                                    spread(in_ms(measured.step), 1),
                                    spread(in_ms(measured.with_save), 1),
                                    spread(training, 3)}}};
  return ho::fixed(static_cast<double>(measured.bytes) / 1e6, 1) + " MB by " +
         std::to_string(ranks) + " ranks, " + letters(options.strategy) + ", " +
         std::to_string(options.rounds) + " rounds, a save in " + std::to_string(options.steps) +
         " steps; load of the machine at the end: " + ho::fixed(load, 1) + "\n\n" +
         ho::aligned(columns) + "Ratios are of the same round.\n";
}

std::string json_of(const BenchOptions& options, const Measured& measured, int ranks, double load) {
  return nlohmann::json{
             {"bytes", measured.bytes},
             {"ranks", ranks},
             {"strategy", letters(options.strategy)},
             {"steps", options.steps},
             {"load", load},
             {"save_s", measured.save},
             {"stream_s", measured.plain_write},
             {"step_s", measured.step},
             {"step_with_save_s", measured.with_save},
             {"save_over_stream",
              ho::median(Measured::ratios(measured.plain_write, measured.save))},
             {"step_ratio", ho::median(Measured::ratios(measured.with_save, measured.step))}}
             .dump(1) +
         "\n";
}

}  // namespace

int checkpoint_bench(const BenchOptions& options) {
  try {
    auto job = horing::Communicator::create();
    int32_t writes = job.rank() != 0 || ho::can_write_file(kBench, "--json", options.json) ? 1 : 0;
    job.broadcast(std::span<int32_t>(&writes, 1), 0);
    if (writes == 0) {
      return 1;
    }
    const Measured measured = Bench(job, options).run();
    int32_t status = 0;
    if (job.rank() == 0) {
      double load = 0;
      static_cast<void>(::getloadavg(&load, 1));
      std::fputs(bench_text(options, measured, job.world_size(), load).c_str(), stdout);
      const std::string json = json_of(options, measured, job.world_size(), load);
      status = ho::write_file(kBench, "--json", options.json, json) ? 0 : 1;
    }
    job.broadcast(std::span<int32_t>(&status, 1), 0);
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kBench, error.what());
    return 1;
  }
}

}  // namespace paro::tool
