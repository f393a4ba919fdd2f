#include "trainer.hpp"

#include <cstring>

namespace paro::test {
namespace {

toy::Model model_of(const toy::Training& training) {
  auto model = toy::Model::make(training.model);
  if (!model.ok()) {
    throw std::runtime_error(model.status().message());
  }
  return std::move(model).value();
}

}  // namespace

void must(ho_status status) {
  if (status != HO_OK) {
    throw std::runtime_error(paro_last_error_message());
  }
}

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error(promise + "; last message: " + paro_last_error_message());
  }
}

void expect_refusal(ho_status status, ho_status wanted, const std::string& text) {
  expect(status == wanted,
         "wanted " + std::string(ho_status_name(wanted)) + " with '" + text + "', got " +
             ho_status_name(status));
  expect(std::strstr(paro_last_error_message(), text.c_str()) != nullptr, "wanted '" + text + "'");
}

paro_runner_options options_of(const toy::Training& training, std::string& letters) {
  const RunnerConfig& config = training.runner;
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  letters = paro::letters(config.strategy);
  options.strategy = letters.c_str();
  options.frozen = static_cast<paro_scope>(config.frozen);
  options.micro_batches = config.micro_batches;
  options.prefetch = config.prefetch;
  options.bucket_bytes = config.bucket_bytes;
  options.alignment = config.alignment;
  options.max_norm = config.max_norm;
  if (const auto* const sgd = std::get_if<Sgd>(&config.rule)) {
    options.optimizer = PARO_OPTIMIZER_SGD;
    options.sgd = {sgd->learning_rate, sgd->momentum, sgd->weight_decay};
  } else {
    const auto& adamw = std::get<AdamW>(config.rule);
    options.adamw = {
        adamw.learning_rate, adamw.beta1, adamw.beta2, adamw.epsilon, adamw.weight_decay};
  }
  return options;
}

Trainer::Trainer(ho_comm* comm, const toy::Training& training, const paro_runner_options& options)
    : training_(training),
      model_(model_of(training)),
      rank_(static_cast<uint32_t>(ho_comm_rank(comm))),
      world_(static_cast<uint32_t>(ho_comm_world_size(comm))) {
  std::vector<paro_unit> units;
  for (const toy::UnitCounts& unit : model_.units()) {
    const char* const shares = unit.shares ? model_.units()[*unit.shares].name.c_str() : nullptr;
    units.push_back({unit.name.c_str(), unit.trained, unit.frozen, shares});
  }
  paro_runner* made = nullptr;
  must(paro_runner_create(comm, &options, units.data(), units.size(), &made));
  runner_.reset(made);
  for (uint32_t u = 0; u < units.size(); ++u) {
    std::vector<float> trained(units[u].trained);
    std::vector<float> frozen(units[u].frozen);
    model_.initial(u, trained, frozen);
    must(paro_runner_load(made, u, trained.data(), trained.size(), frozen.data(), frozen.size()));
  }
}

Trainer::Trainer(ho_comm* comm, const toy::Training& training)
    : Trainer(comm, training, [&] {
        thread_local std::string letters;
        return options_of(training, letters);
      }()) {}

double Trainer::compute(uint64_t step) {
  const auto units = static_cast<uint32_t>(model_.units().size());
  const RunnerConfig& config = training_.runner;
  double loss = 0;
  for (uint32_t k = 0; k < config.micro_batches; ++k) {
    const uint64_t first = (uint64_t{k} * world_ + rank_) * training_.samples;
    toy::Pass pass = model_.begin(model_.batch_of(step, {first, training_.samples}));
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    for (uint32_t u = 0; u < units; ++u) {
      must(paro_runner_before_forward(runner(), u, &view));
      expect(view.trained_count == model_.units()[model_.home(u)].trained,
             "tells how many elements there are");
      model_.forward(u, {config.parameter_dtype, view.trained, view.frozen}, pass);
      must(paro_runner_after_forward(runner(), u));
    }
    for (uint32_t u = units; u-- > 0;) {
      must(paro_runner_before_backward(runner(), u, &view));
      model_.backward(u,
                      {config.parameter_dtype, view.trained, view.frozen},
                      {config.gradient_dtype, view.gradients},
                      pass,
                      paro_runner_loss_scale(runner()));
      must(paro_runner_after_backward(runner(), u));
    }
    loss += pass.loss / config.micro_batches;
  }
  return loss;
}

toy::StepOutcome Trainer::step(ho_comm* comm, uint64_t step) {
  double loss = compute(step);
  paro_step_report report = PARO_STEP_REPORT_INIT;
  must(paro_runner_step(runner(), &report));
  if (ho_all_reduce(comm, &loss, &loss, 1, HO_FLOAT64, HO_AVG, nullptr, nullptr, nullptr) !=
      HO_OK) {
    throw std::runtime_error(ho_last_error_message());
  }
  return {loss, report.norm, report.applied != 0};
}

toy::Outcome Trainer::train(ho_comm* comm) {
  toy::Outcome outcome;
  for (uint64_t s = 0; s < training_.steps; ++s) {
    outcome.steps.push_back(step(comm, s));
  }
  outcome.masters = masters();
  return outcome;
}

std::vector<std::vector<float>> Trainer::masters() const {
  std::vector<std::vector<float>> masters;
  for (uint32_t u = 0; u < model_.units().size(); ++u) {
    masters.emplace_back(model_.units()[u].trained);
    must(paro_runner_read_masters(runner(), u, masters.back().data(), masters.back().size()));
  }
  return masters;
}

}  // namespace paro::test
