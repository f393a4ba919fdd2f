#include "bench/train_gpt/training.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iomanip>
#include <memory>
#include <optional>
#include <span>
#include <sstream>

#include "base/hash.hpp"
#include "bench/train_gpt/job_state.hpp"
#include "bench/train_gpt/progress.hpp"
#include "bench/train_gpt/strategy_choice.hpp"
#include "bench/train_gpt/text.hpp"
#include "bench/train_gpt/values.hpp"
#include "checkpoint/store.hpp"
#include "run/agreement.hpp"

namespace paro::gpt {
namespace {

// That ranks wait for the one that writes the sample.
constexpr std::chrono::minutes kSampleDeadline{30};
constexpr size_t kMaxErrorBytes = 1U << 16U;
constexpr uint32_t kPromptBytes = 16;

// Where ranks have an error, all throw the first one's. No rank waits for one that has left.
void agree(horing::Communicator& job, const std::string& error) {
  int32_t first = error.empty() ? job.world_size() : job.rank();
  job.all_reduce(std::span<int32_t>(&first, 1), HO_MIN);
  if (first == job.world_size()) {
    return;
  }
  uint64_t length = std::min(error.size(), kMaxErrorBytes);
  job.broadcast(std::span<uint64_t>(&length, 1), first);
  length = std::min<uint64_t>(length, kMaxErrorBytes);
  std::vector<uint8_t> text(error.begin(), error.end());
  text.resize(length);
  job.broadcast(std::span<uint8_t>(text), first);
  const std::string whole(text.begin(), text.end());
  throw Refusal(first == 0 ? whole : "rank " + std::to_string(first) + ": " + whole);
}

void agree(horing::Communicator& job, const ho::Status& status) {
  agree(job, status.ok() ? std::string() : status.message());
}

// What must be the same on all ranks to train one model in step.
Settings settings_of(const Options& options) {
  Settings settings = settings_of(options.shape);
  const auto add = [&](const char* name, const auto& value) {
    std::ostringstream text;
    text << std::setprecision(17) << value;
    settings.push_back({name, text.str()});
  };
  add("from", options.from.empty() ? "" : "a file");
  add("dtype", options.bfloat16 ? "bfloat16" : "float32");
  add("strategy", options.strategy);
  add("memory", options.memory_bytes);
  add("group-size", options.group_size);
  add("algorithm", options.algorithm);
  add("batch", options.batch);
  add("accumulation", options.accumulation);
  add("steps", options.steps);
  add("learning-rate", options.learning_rate);
  add("clip", options.clip);
  add("save", options.save.empty() ? "" : "a folder");
  add("save-every", options.save_every);
  add("resume", options.resume ? "yes" : "no");
  add("sample", options.sample);
  return settings;
}

// Rank 0's value of each is compared with this rank's.
void agree_on_options(horing::Communicator& job, const Options& options) {
  std::string error;
  for (const Setting& mine : settings_of(options)) {
    const uint64_t hash = ho::Hash().add(mine.value).value();
    uint64_t first = hash;
    job.broadcast(std::span<uint64_t>(&first, 1), 0);
    if (first != hash && error.empty()) {
      error = "--" + mine.name + " '" + mine.value +
              "' is not what rank 0 has: start all ranks with the same options";
    }
  }
  agree(job, error);
}

// Hours before it is needed. Rank 0 has the folder as long as what is returned lives.
ho::Fd agreed_claim(horing::Communicator& job, const Options& options) {
  ho::Result<ho::Fd> claim = ho::Fd();
  if (job.rank() == 0 && !options.save.empty()) {
    claim = checkpoint::claim_folder(
        std::filesystem::absolute(options.save), options.steps, options.resume);
  }
  agree(job, claim.status().with_context("--save"));
  return std::move(claim).value();
}

Text agreed_text(horing::Communicator& job, const Options& options) {
  auto text = Text::read(options.texts, uint64_t{options.shape.context} + 1);
  agree(job, text.status());
  std::array<uint64_t, 2> hash{text->hash(), ~text->hash()};
  job.all_reduce(std::span<uint64_t>(hash), HO_MAX);
  agree(job,
        hash[0] == text->hash() && hash[1] == ~text->hash()
            ? std::string()
            : "--text: ranks read different texts (" + std::to_string(text->size()) +
                  " bytes here): give all nodes the same files");
  return std::move(text).value();
}

// A checkpoint that fits, and its content.
struct Resumed {
  Checkpoint checkpoint;
  JobState state;
};

std::optional<Resumed> agreed_checkpoint(horing::Communicator& job, const Options& options) {
  if (!options.resume) {
    return std::nullopt;
  }
  std::optional<Resumed> resumed;
  std::string error;
  try {
    Checkpoint checkpoint = Checkpoint::open(options.save);
    const auto state = parse_job_state(checkpoint.job_state());
    const ho::Status fits =
        state.ok() ? check_same_model(state->shape, options.shape) : state.status();
    if (fits.ok()) {
      resumed.emplace(Resumed{std::move(checkpoint), *state});
    } else {
      error = fits.message();
    }
  } catch (const Error& failure) {
    error = std::string("--resume: ") + failure.what();
  }
  agree(job, error);
  return resumed;
}

// A resumed training has its own.
Values agreed_values(horing::Communicator& job, const Options& options) {
  if (options.from.empty() || options.resume) {
    return {};
  }
  auto values = read_values(options.from);
  agree(job, values.status());
  const std::string wrong = misfit(options.shape, *values);
  agree(job, wrong.empty() ? wrong : "--from " + options.from + ": " + wrong);
  return std::move(values).value();
}

class Training {
 public:
  Training(horing::Communicator& job, const Options& options) : job_(job), options_(options) {
    agree_on_options(job, options);
    text_ = agreed_text(job, options);
  }

  void run() {
    std::optional<Resumed> resumed = agreed_checkpoint(job_, options_);
    const ho::Fd claim = agreed_claim(job_, options_);
    if (job_.rank() == 0) {
      progress_.emplace(options_.json,
                        options_.steps,
                        resumed ? std::optional(resumed->checkpoint.step()) : std::nullopt);
    }
    agree(job_, progress_ ? progress_->error() : "");
    const Values values = agreed_values(job_, options_);
    const std::unique_ptr<Gpt> gpt = made(values);
    gpt->runner().check_drift();  // the same values everywhere
    if (resumed) {
      go_on(*gpt, *resumed);
    }
    resumed.reset();
    try {
      train(*gpt);
    } catch (const Refusal&) {
      if (progress_) {
        static_cast<void>(progress_->finish());
      }
      throw;
    }
    agree(job_, progress_ ? progress_->finish() : "");
    write_sample(*gpt);
    agree(job_, unsaved_.empty() ? unsaved_ : "the last save failed: " + unsaved_);
  }

 private:
  [[nodiscard]] uint64_t samples_of_step() const {
    return uint64_t{options_.batch} * options_.accumulation *
           static_cast<uint64_t>(job_.world_size());
  }

  void train(Gpt& gpt) {
    while (gpt.runner().applied_steps() < options_.steps) {
      const StepLine line = step(gpt);
      if (progress_) {
        progress_->add(line);
      }
      give_up_where_nothing_applies(line);
      if (options_.save_every != 0 && line.applied && line.step % options_.save_every == 0) {
        save(gpt);
      }
    }
    if (!options_.save.empty()) {
      if (saved_ != gpt.runner().applied_steps()) {
        save(gpt);
      }
      wait_save(gpt);
    }
  }

  [[nodiscard]] RunnerOptions runner_options() const {
    RunnerOptions runner;
    runner.micro_batches = options_.accumulation;
    runner.parameter_dtype = options_.bfloat16 ? HO_BFLOAT16 : HO_FLOAT32;
    runner.adamw.learning_rate = options_.learning_rate;
    runner.adamw.beta2 = 0.95;  // as GPTs are trained: steps are few
    runner.max_norm = options_.clip;
    runner.budget_bytes = options_.memory_bytes;
    runner.group_size = options_.group_size;
    runner.algorithm = options_.algorithm == "ho_ring" ? HO_ALGORITHM_HO_RING
                       : options_.algorithm == "ring"  ? HO_ALGORITHM_RING
                                                       : HO_ALGORITHM_MULTI_RING;
    return runner;
  }

  // With the first of the strategies that fits: the planner counts units by their mean, the runner
  // counts each.
  std::unique_ptr<Gpt> made(const Values& values) {
    const std::vector<std::string> strategies = wanted_strategies();
    RunnerOptions how = runner_options();
    for (size_t i = 0;; ++i) {
      how.strategy = strategies[i];
      try {
        return std::make_unique<Gpt>(job_, how, options_.shape, values);
      } catch (const Error& failure) {
        if (failure.status() != HO_OUT_OF_MEMORY || i + 1 == strategies.size()) {
          throw;
        }
        if (job_.rank() == 0) {
          std::fprintf(stderr,
                       "strategy %s instead of %s: %s\n",
                       strategies[i + 1].c_str(),
                       strategies[i].c_str(),
                       failure.what());
        }
      }
    }
  }

  // At least one, the best first.
  std::vector<std::string> wanted_strategies() {
    if (options_.strategy != "auto") {
      return {options_.strategy};
    }
    const Cost cost = measure_cost(options_.shape, options_.bfloat16, samples_of(0));
    const auto choice = choose_strategy(job_, options_, cost);
    agree(job_, choice.status());
    if (job_.rank() == 0) {
      std::fprintf(
          stderr, "strategy %s: %s\n", choice->strategies.front().c_str(), choice->why.c_str());
    }
    return choice->strategies;
  }

  // Of this rank's micro-batch of the next step.
  [[nodiscard]] std::vector<int64_t> samples_of(uint32_t micro_batch) const {
    const uint64_t first =
        read_ + (uint64_t{micro_batch} * static_cast<uint64_t>(job_.world_size()) +
                 static_cast<uint64_t>(job_.rank())) *
                    options_.batch;
    std::vector<int64_t> samples;
    for (uint64_t i = first; i < first + options_.batch; ++i) {
      text_.append_sample(options_.shape.seed, i, options_.shape.context + 1, samples);
    }
    return samples;
  }

  void go_on(Gpt& gpt, const Resumed& from) {
    // By names: in which units the tensors lie is the adapter's affair, and has changed before.
    gpt.runner().restore(from.checkpoint, false, gpt.tensors());
    read_ = from.state.samples;
    saved_ = gpt.runner().applied_steps();
    if (job_.rank() != 0) {
      return;
    }
    std::fprintf(stderr,
                 "resumed after step %llu, saved by %u ranks\n",
                 static_cast<unsigned long long>(*saved_),
                 from.checkpoint.world_size());
    if (from.state.text_hash != text_.hash()) {
      std::fprintf(stderr, "train_gpt: the text is another one than before\n");
    }
  }

  StepLine step(Gpt& gpt) {
    const auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (uint32_t k = 0; k < options_.accumulation; ++k) {
      loss += gpt.train(samples_of(k)) / options_.accumulation;
    }
    const paro_step_report report = gpt.step();
    read_ += samples_of_step();
    std::array<double, 3> means{loss,
                                static_cast<double>(report.compute_ns) * 1e-9,
                                static_cast<double>(report.wait_ns) * 1e-9};
    job_.all_reduce(std::span<double>(means), HO_AVG);
    StepLine line;
    line.step = gpt.runner().applied_steps();
    line.loss = means[0];
    line.norm = report.norm;
    line.applied = report.applied == 1;
    line.compute_s = means[1];
    line.exposed_s = means[2];
    line.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    line.tokens = static_cast<double>(samples_of_step()) * options_.shape.context;
    line.strategy = gpt.runner().strategy();
    return line;
  }

  // Without a loss scale that could settle, a model whose gradients are not finite stays so.
  void give_up_where_nothing_applies(const StepLine& line) {
    constexpr uint32_t kMaxLeftOut = 10;
    left_out_ = line.applied ? 0 : left_out_ + 1;
    if (left_out_ == kMaxLeftOut) {
      throw Refusal("after step " + std::to_string(line.step) + " the gradients of " +
                    std::to_string(kMaxLeftOut) +
                    " steps were not finite: the model has diverged; try a smaller "
                    "--learning-rate, from the last checkpoint");
    }
  }

  // A disk that is full ends no training: it is logged, and tried again at the next save.
  void save(Gpt& gpt) {
    wait_save(gpt);
    saved_ = gpt.runner().applied_steps();
    SaveOptions save;
    save.in_background = true;
    save.job_state = to_json({options_.shape, text_.hash(), read_});
    save.tensors = gpt.tensors();
    note_failure([&] { gpt.runner().save(options_.save, save); });
  }

  void wait_save(Gpt& gpt) {
    if (unsaved_.empty()) {
      note_failure([&] { gpt.runner().wait_save(); });
    }
  }

  // What `saving` does, or fails to, counts as the last save.
  template <typename Saving>
  void note_failure(const Saving& saving) {
    try {
      saving();
      unsaved_.clear();
    } catch (const Error& failure) {
      unsaved_ = failure.what();
      if (job_.rank() == 0) {
        std::fprintf(stderr,
                     "train_gpt: step %llu is not saved, training goes on: %s\n",
                     static_cast<unsigned long long>(saved_.value_or(0)),
                     failure.what());
      }
    }
  }

  void write_sample(Gpt& gpt) {
    if (options_.sample == 0) {
      return;
    }
    std::vector<int64_t> prompt;
    text_.append_sample(
        options_.shape.seed, ~uint64_t{0}, std::min(kPromptBytes, options_.shape.context), prompt);
    const std::string begin(prompt.begin(), prompt.end());
    const std::string rest = gpt.continued(job_, begin, options_.sample, options_.shape.seed);
    if (job_.rank() == 0) {
      const std::string all = begin + rest + "\n";  // any byte may be in it
      std::fwrite(all.data(), 1, all.size(), stdout);
    }
    horing::CallOptions waiting;
    waiting.timeout = kSampleDeadline;
    job_.barrier(waiting);
  }

  horing::Communicator& job_;
  const Options& options_;
  Text text_;
  uint64_t read_ = 0;                 // samples
  std::optional<Progress> progress_;  // on rank 0
  std::optional<uint64_t> saved_;
  std::string unsaved_;  // what became of the last save, where it failed
  uint32_t left_out_ = 0;
};

}  // namespace

void train(horing::Communicator& job, const Options& options) {
  Training(job, options).run();
}

}  // namespace paro::gpt
