// PaRO for C++20: a thin layer over paro.h, headers only, so that the library and the program may
// come from different compilers. Everything a function takes and returns crosses the boundary as C;
// what this header adds is ownership, types and exceptions.
//
// Errors: a call that fails throws paro::Error, which is a horing::Error: the status, and the
// library's message (what failed, where, what to do next). paro.h has which errors break a runner.
//
// Threads, fork, order of calls: as in paro.h.
//
// Names: libparo's own sources use the namespace paro too, and hide it; they never include this
// header. The inline namespace keeps the two apart should a program ever link both.
#pragma once

#include <paro.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <horing/communicator.hpp>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace paro {
inline namespace v0 {

class Error : public horing::Error {
 public:
  using horing::Error::Error;
};

// Throws the calling thread's last error of libparo unless status is HO_OK.
inline void check(ho_status status) {
  if (status != HO_OK) {
    throw Error(status, paro_last_error_message());
  }
}

// "NIG" for "nig", or for a system's name; throws for a text that is no strategy.
[[nodiscard]] inline std::string strategy_letters(const std::string& text) {
  char letters[4] = {};
  check(paro_strategy_letters(text.c_str(), letters, sizeof letters));
  return letters;
}

struct Unit {
  std::string name;
  uint64_t trained = 0;  // elements
  uint64_t frozen = 0;
  std::string shares{};  // a unit before it, whose parameters it has instead of its own
};

// Elements of this rank's shard, to be updated (see paro_shard).
struct Shard {
  uint32_t unit = 0;
  uint64_t first_element = 0;
  uint64_t step = 0;
  double learning_rate = 0;
  std::span<float> master;
  std::span<const float> gradient;
  double weight_decay = 0;           // of its parameter group
  std::span<float* const> states{};  // as RunnerOptions::custom_states, each as many as masters
};
// What it throws breaks the runner, and step() throws it.
using Optimizer = std::function<void(const Shard&)>;

// A unit's whole parameters between a before_ hook and its after_ hook. T: the type that
// parameter_dtype (gradients: gradient_dtype) is stored in, of as many bytes.
class UnitView {
 public:
  explicit UnitView(const paro_unit_view& raw) : raw_(raw) {}
  template <typename T>
  [[nodiscard]] std::span<const T> trained() const {
    return {static_cast<const T*>(raw_.trained), count(raw_.trained, raw_.trained_count)};
  }
  template <typename T>
  [[nodiscard]] std::span<const T> frozen() const {
    return {static_cast<const T*>(raw_.frozen), count(raw_.frozen, raw_.frozen_count)};
  }
  // Add to it. Empty in the forward pass.
  template <typename T>
  [[nodiscard]] std::span<T> gradients() const {
    return {static_cast<T*>(raw_.gradients), count(raw_.gradients, raw_.trained_count)};
  }
  [[nodiscard]] const paro_unit_view& raw() const { return raw_; }

 private:
  [[nodiscard]] static size_t count(const void* array, uint64_t elements) {
    return array == nullptr ? 0 : static_cast<size_t>(elements);
  }
  paro_unit_view raw_;
};

// The fields of paro_runner_options, explained there.
struct RunnerOptions {
  std::string strategy = "NNN";
  paro_scope frozen = PARO_AS_PARAMETERS;
  uint32_t micro_batches = 1;
  uint32_t prefetch = 1;
  uint32_t drift_interval = 0;
  uint64_t alignment = 16;
  ho_dtype parameter_dtype = HO_FLOAT32;
  ho_dtype gradient_dtype = HO_FLOAT32;
  paro_optimizer optimizer = PARO_OPTIMIZER_ADAMW;
  paro_adamw adamw = PARO_ADAMW_INIT;
  paro_sgd sgd = PARO_SGD_INIT;
  Optimizer custom{};  // if set, used instead of `optimizer`
  double custom_learning_rate = 0;
  std::vector<std::string> custom_states{};  // names of what it keeps of each element
  paro_loss_scale loss_scale = PARO_LOSS_SCALE_INIT;
  double max_norm = 0;
  ho_algorithm algorithm = HO_ALGORITHM_HO_RING;
  std::chrono::milliseconds timeout{0};
  uint64_t budget_bytes = 0;
  uint32_t group_size = 0;
  bool narrow_sums = false;
  bool fp32_gradients = false;
  std::string group_file{};
  uint64_t bucket_bytes = PARO_DEFAULT_BUCKET_BYTES;
  std::string step_log{};  // empty: PARO_STEP_LOG
  std::string metrics_file{};
  std::string strategy_file{};  // empty: PARO_STRATEGY_FILE
  bool auto_strategy = false;
  uint32_t auto_interval = 100;
  bool unchecked_loads = false;
  std::vector<paro_parameter_group> parameter_groups{};
  paro_place place = PARO_PLACE_HOST;
  paro_collectives collectives = PARO_COLLECTIVES_HORING;
  void* stream = nullptr;
};

// A checkpoint on the disk, or the newest of a folder. Move-only, as Runner.
class Checkpoint {
 public:
  [[nodiscard]] static Checkpoint open(const std::string& path) {
    paro_checkpoint* checkpoint = nullptr;
    check(paro_checkpoint_open(path.c_str(), &checkpoint));
    return Checkpoint(checkpoint);
  }
  [[nodiscard]] const paro_checkpoint* get() const noexcept { return checkpoint_.get(); }
  [[nodiscard]] uint64_t step() const { return paro_checkpoint_step(get()); }
  // Ranks that saved it.
  [[nodiscard]] uint32_t world_size() const { return paro_checkpoint_world_size(get()); }
  [[nodiscard]] std::string job_state() const { return paro_checkpoint_job_state(get()); }
  // Empty where that rank gave none.
  [[nodiscard]] std::vector<std::byte> rank_state(uint32_t rank) const {
    uint64_t bytes = 0;
    check(paro_checkpoint_rank_state(get(), rank, nullptr, 0, &bytes));
    std::vector<std::byte> state(static_cast<size_t>(bytes));
    check(paro_checkpoint_rank_state(get(), rank, state.data(), bytes, &bytes));
    return state;
  }

 private:
  struct Close {
    void operator()(paro_checkpoint* checkpoint) const { paro_checkpoint_close(checkpoint); }
  };
  explicit Checkpoint(paro_checkpoint* checkpoint) : checkpoint_(checkpoint) {}
  std::unique_ptr<paro_checkpoint, Close> checkpoint_;
};

// A tensor of the framework in a unit, so that checkpoints store it by name.
struct Tensor {
  std::string name;
  uint32_t unit = 0;
  bool frozen = false;
  uint64_t first_element = 0;
  std::vector<uint64_t> shape{};
};

// The fields of paro_save_options, explained there.
struct SaveOptions {
  uint32_t keep = 2;
  bool in_background = false;
  std::string job_state{};
  std::vector<std::byte> rank_state{};
  std::vector<Tensor> tensors{};
  std::chrono::milliseconds timeout{0};
};

// Move-only; a moved-from one may only be destroyed or assigned to.
class Runner {
 public:
  // Collective. Borrows the communicator for the time of the call.
  [[nodiscard]] static Runner create(horing::Communicator& comm,
                                     const RunnerOptions& options,
                                     const std::vector<Unit>& units) {
    return create(comm.get(), options, units);
  }
  [[nodiscard]] static Runner create(ho_comm* comm,
                                     const RunnerOptions& options,
                                     const std::vector<Unit>& units) {
    auto custom = std::make_unique<Custom>();
    custom->optimizer = options.custom;
    const paro_runner_options raw = to_c(options, *custom);
    std::vector<paro_unit> raw_units;
    raw_units.reserve(units.size());
    for (const Unit& unit : units) {
      raw_units.push_back({unit.name.c_str(),
                           unit.trained,
                           unit.frozen,
                           unit.shares.empty() ? nullptr : unit.shares.c_str()});
    }
    paro_runner* runner = nullptr;
    check(paro_runner_create(comm, &raw, raw_units.data(), raw_units.size(), &runner));
    return Runner(runner, std::move(custom));
  }

  Runner(Runner&& other) noexcept
      : custom_(std::move(other.custom_)), runner_(std::exchange(other.runner_, nullptr)) {}
  Runner& operator=(Runner&& other) noexcept {
    if (this != &other) {
      paro_runner_destroy(std::exchange(runner_, std::exchange(other.runner_, nullptr)));
      custom_ = std::move(other.custom_);
    }
    return *this;
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() { paro_runner_destroy(runner_); }

  // The C handle, still owned by this object.
  [[nodiscard]] paro_runner* get() const noexcept { return runner_; }

  // Between steps: the unit's initial values, the same on all ranks.
  void load(uint32_t unit, std::span<const float> trained, std::span<const float> frozen = {}) {
    check(paro_runner_load(
        runner_, unit, trained.data(), trained.size(), frozen.data(), frozen.size()));
  }

  [[nodiscard]] UnitView before_forward(uint32_t unit) {
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    check(paro_runner_before_forward(runner_, unit, &view));
    return UnitView(view);
  }
  void after_forward(uint32_t unit) { check(paro_runner_after_forward(runner_, unit)); }
  [[nodiscard]] UnitView before_backward(uint32_t unit) {
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    check(paro_runner_before_backward(runner_, unit, &view));
    return UnitView(view);
  }
  void after_backward(uint32_t unit) { check(paro_runner_after_backward(runner_, unit)); }

  // Collective. Throws what the optimizer threw, or an Error.
  paro_step_report step() { return end_step(paro_runner_step); }
  // The same after fewer micro-batches than a step has.
  paro_step_report step_early() { return end_step(paro_runner_step_early); }
  // The last step's report with that step's own outcome, for which it waits with states on a
  // device, at most timeout_ms (0: until a deadline of the runner).
  paro_step_report flush(uint64_t timeout_ms = 0) {
    paro_step_report report = PARO_STEP_REPORT_INIT;
    check(paro_runner_flush(runner_, timeout_ms, &report));
    return report;
  }
  // Collective: drops what the step's micro-batches have added up.
  void discard() { check(paro_runner_discard(runner_)); }
  // Collective, between steps: at most RunnerOptions::micro_batches.
  void set_micro_batches(uint32_t count) { check(paro_runner_set_micro_batches(runner_, count)); }
  // In the middle of a long computation of which this thread is free: starts what may start.
  void poll() { check(paro_runner_poll(runner_)); }
  void synchronize() { check(paro_runner_synchronize(runner_)); }

  [[nodiscard]] double loss_scale() const { return paro_runner_loss_scale(runner_); }
  [[nodiscard]] uint64_t applied_steps() const { return paro_runner_applied_steps(runner_); }
  void set_learning_rate(double rate) { check(paro_runner_set_learning_rate(runner_, rate)); }

  // Collective, between steps.
  void read_masters(uint32_t unit, std::span<float> trained) {
    check(paro_runner_read_masters(runner_, unit, trained.data(), trained.size()));
  }
  void read_frozen(uint32_t unit, std::span<float> frozen) {
    check(paro_runner_read_frozen(runner_, unit, frozen.data(), frozen.size()));
  }
  void check_drift() { check(paro_runner_check_drift(runner_)); }
  // Collective: goes on after an error, with the same ranks.
  void rejoin(horing::Communicator& comm) { check(paro_runner_rejoin(runner_, comm.get())); }
  // Collective, between steps. Throws where the strategy cannot be changed; then it is as it was.
  void change_strategy(const std::string& strategy, uint64_t budget_bytes = 0) {
    check(paro_runner_change_strategy(runner_, strategy.c_str(), budget_bytes));
  }
  // Three letters.
  [[nodiscard]] std::string strategy() const {
    char letters[4] = {};
    check(paro_runner_strategy(runner_, letters, sizeof letters));
    return letters;
  }
  // Collective, between steps.
  void save(const std::string& folder, const SaveOptions& options = {}) {
    const std::vector<paro_tensor> tensors = to_c(options.tensors);
    paro_save_options raw = PARO_SAVE_OPTIONS_INIT;
    raw.keep = options.keep;
    raw.in_background = options.in_background ? 1 : 0;
    raw.job_state = options.job_state.c_str();
    raw.rank_state = options.rank_state.data();
    raw.rank_state_bytes = options.rank_state.size();
    raw.tensors = tensors.data();
    raw.tensor_count = tensors.size();
    raw.timeout_ms =
        options.timeout.count() > 0 ? static_cast<uint64_t>(options.timeout.count()) : 0;
    check(paro_runner_save(runner_, folder.c_str(), &raw));
  }
  // Throws the error of a save in the background.
  void wait_save() { check(paro_runner_wait_save(runner_)); }
  // `tensors`: the model's, found in the checkpoint by name; none: its units are the same.
  void restore(const Checkpoint& checkpoint,
               bool reset_optimizer = false,
               const std::vector<Tensor>& tensors = {}) {
    const std::vector<paro_tensor> raw_tensors = to_c(tensors);
    paro_load_options raw = PARO_LOAD_OPTIONS_INIT;
    raw.reset_optimizer = reset_optimizer ? 1 : 0;
    raw.tensors = raw_tensors.data();
    raw.tensor_count = raw_tensors.size();
    check(paro_runner_restore(runner_, checkpoint.get(), &raw));
  }
  // Any thread.
  void abort(const std::string& reason = {}) { check(paro_runner_abort(runner_, reason.c_str())); }

  [[nodiscard]] paro_memory memory(paro_purpose purpose) const {
    paro_memory memory = PARO_MEMORY_INIT;
    check(paro_runner_memory(runner_, purpose, &memory));
    return memory;
  }
  struct SentBytes {
    uint64_t intra = 0;
    uint64_t inter = 0;
  };
  [[nodiscard]] SentBytes sent_bytes(paro_phase phase) const {
    SentBytes sent;
    check(paro_runner_sent_bytes(runner_, phase, &sent.intra, &sent.inter));
    return sent;
  }

 private:
  // Its address stays the same as long as the runner lives.
  struct Custom {
    Optimizer optimizer;
    std::vector<const char*> states;  // the options', during create
    std::exception_ptr thrown;
  };

  paro_step_report end_step(ho_status (*finish)(paro_runner*, paro_step_report*)) {
    paro_step_report report = PARO_STEP_REPORT_INIT;
    const ho_status status = finish(runner_, &report);
    if (status != HO_OK && custom_ != nullptr && custom_->thrown != nullptr) {
      std::rethrow_exception(std::exchange(custom_->thrown, nullptr));
    }
    check(status);
    return report;
  }

  Runner(paro_runner* runner, std::unique_ptr<Custom> custom) noexcept
      : custom_(std::move(custom)), runner_(runner) {}

  // No exception may pass through the library.
  static int32_t call(const paro_shard* shard, void* user) noexcept {
    auto* const custom = static_cast<Custom*>(user);
    try {
      const auto count = static_cast<size_t>(shard->count);
      custom->optimizer({shard->unit,
                         shard->first_element,
                         shard->step,
                         shard->learning_rate,
                         {shard->master, count},
                         {shard->gradient, count},
                         shard->weight_decay,
                         {shard->states, shard->state_count}});
      return 0;
    } catch (...) {
      custom->thrown = std::current_exception();
      return 1;
    }
  }

  [[nodiscard]] static std::vector<paro_tensor> to_c(const std::vector<Tensor>& from) {
    std::vector<paro_tensor> tensors;
    tensors.reserve(from.size());
    for (const Tensor& tensor : from) {
      tensors.push_back({tensor.name.c_str(),
                         tensor.unit,
                         tensor.frozen ? 1 : 0,
                         tensor.first_element,
                         tensor.shape.data(),
                         tensor.shape.size()});
    }
    return tensors;
  }

  [[nodiscard]] static paro_runner_options to_c(const RunnerOptions& options, Custom& custom) {
    paro_runner_options raw = PARO_RUNNER_OPTIONS_INIT;
    raw.strategy = options.strategy.c_str();
    raw.frozen = options.frozen;
    raw.micro_batches = options.micro_batches;
    raw.prefetch = options.prefetch;
    raw.drift_interval = options.drift_interval;
    raw.alignment = options.alignment;
    raw.parameter_dtype = options.parameter_dtype;
    raw.gradient_dtype = options.gradient_dtype;
    raw.optimizer = options.custom ? PARO_OPTIMIZER_CUSTOM : options.optimizer;
    raw.algorithm = options.algorithm;
    raw.adamw = options.adamw;
    raw.sgd = options.sgd;
    if (options.custom) {
      for (const std::string& state : options.custom_states) {
        custom.states.push_back(state.c_str());
      }
      raw.custom = {&Runner::call,
                    &custom,
                    options.custom_learning_rate,
                    custom.states.data(),
                    static_cast<uint32_t>(custom.states.size())};
    }
    raw.loss_scale = options.loss_scale;
    raw.max_norm = options.max_norm;
    raw.timeout_ms =
        options.timeout.count() > 0 ? static_cast<uint64_t>(options.timeout.count()) : 0;
    raw.budget_bytes = options.budget_bytes;
    raw.group_size = options.group_size;
    raw.narrow_sums = options.narrow_sums ? 1 : 0;
    raw.fp32_gradients = options.fp32_gradients ? 1 : 0;
    raw.group_file = options.group_file.empty() ? nullptr : options.group_file.c_str();
    raw.bucket_bytes = options.bucket_bytes;
    raw.step_log = options.step_log.empty() ? nullptr : options.step_log.c_str();
    raw.metrics_file = options.metrics_file.empty() ? nullptr : options.metrics_file.c_str();
    raw.strategy_file = options.strategy_file.empty() ? nullptr : options.strategy_file.c_str();
    raw.auto_strategy = options.auto_strategy ? 1 : 0;
    raw.auto_interval = options.auto_interval;
    raw.unchecked_loads = options.unchecked_loads ? 1 : 0;
    raw.parameter_groups = options.parameter_groups.data();
    raw.parameter_group_count = options.parameter_groups.size();
    raw.place = options.place;
    raw.collectives = options.collectives;
    raw.stream = options.stream;
    return raw;
  }

  std::unique_ptr<Custom> custom_;
  paro_runner* runner_ = nullptr;
};

}  // namespace v0
}  // namespace paro
