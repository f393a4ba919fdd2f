#include "planner/text/answer.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escaped.hpp"
#include "cost/text/json_object.hpp"
#include "planner/batch.hpp"
#include "planner/sent_bytes.hpp"
#include "planner/text/group_text.hpp"
#include "planner/text/plan_export.hpp"
#include "planner/text/sweep.hpp"

namespace paro {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplaceBadBytes = Json::error_handler_t::replace;

Json memory_json(const MemoryNeed& need) {
  return {{"parameters", need.states.parameters},
          {"gradients", need.states.gradients},
          {"optimizer", need.states.optimizer},
          {"total", need.states.total()},
          {"gathered", need.gathered},
          {"gradient_buffers", need.gradient_buffers},
          {"activations", need.activations},
          {"reserve", need.reserve},
          {"needed", need.total()}};
}

Json time_json(const StepTime& time) {
  return {{"param", time.terms.parameters},
          {"gradient", time.terms.gradients},
          {"sync_g", time.terms.sync_g},
          {"sync_p", time.terms.sync_p},
          {"comm", time.communication_s},
          {"step", time.step_s},
          {"step_least", time.range.least_s},
          {"step_most", time.range.most_s},
          {"step_half_links", time.half_links_s}};
}

Json sent_json(const SentBytes& sent) {
  return {{"intra", sent.intra}, {"inter", sent.inter}};
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json strategy_json(const StrategyFigures& figures, const PlanOptions& options) {
  Json json = {{"name", letters(figures.strategy)},
               {"known_as", known_as(figures.strategy)},
               {"memory_bytes", memory_json(figures.memory)},
               {"time_s", time_json(figures.time)},
               {"exposed_s", figures.time.exposed_s},
               {"sent_bytes",
                sent_json(sent_bytes(figures.strategy, with_batch_of(figures, options.request)))},
               {"tokens_per_s_per_rank", optional_json(options.tokens_per_s(figures.time.step_s))},
               {"mfu", optional_json(options.mfu(figures.time.step_s))},
               {"accumulation", figures.micro_batches},
               {"paper_t_s", figures.time.paper_step_s},
               {"throughput_indicator", figures.time.indicator},  // null where T is 0
               {"fits", figures.fits()},
               {"missing_bytes", figures.missing_bytes},
               {"cost_per_million_tokens", nullptr},
               {"kwh_per_million_tokens", nullptr}};
  if (options.prices) {
    const Prices& prices = *options.prices;
    const TokenCost cost =
        per_million_tokens(figures.time.step_s, options.tokens_per_rank(), prices);
    if (prices.per_rank_hour > 0 || prices.per_kwh > 0) {
      json["cost_per_million_tokens"] = cost.money;
    }
    if (prices.watts_per_rank > 0) {
      json["kwh_per_million_tokens"] = cost.kwh;
    }
  }
  return json;
}

Json request_json(const PlanOptions& options) {
  const PlannerRequest& request = options.request;
  const Links& links = request.links;
  return {{"model", options.model.text},
          {"parameters", request.model.parameters},
          {"trainable", request.model.trainable},
          {"layers", request.layers},
          {"sharing_units", request.sharing_units},
          {"shared_parameters",
           request.sharing_units == 0 ? 0.0 : request.model.shared / request.sharing_units},
          {"bytes_per_parameter",
           {request.bytes.parameter, request.bytes.gradient, request.bytes.optimizer}},
          {"gradient_sum_bytes", request.bytes.gradient_sum},
          {"nodes", request.world.group_count},
          {"ranks_per_node", request.world.group_size},
          {"memory_bytes", request.memory_bytes},
          {"intra_bytes_per_s", links.intra_bytes_per_s},
          {"inter_bytes_per_s", links.inter_bytes_per_s},
          {"nics", links.nics_per_group},
          {"intra_call_s", links.intra_call_s},
          {"inter_call_s", links.inter_call_s},
          {"world_call_s", links.world_call_s},
          {"world_algorithm", to_string(links.world)},
          {"collectives", options.nccl_network ? "nccl" : "horing"},
          {"micro_batch", options.micro_batch},
          {"accumulation", request.micro_batches},
          {"sequence", options.model.sequence},
          {"compute_s", request.compute_s - request.waiting_s},
          {"waiting_s", request.waiting_s},
          {"update_s", request.update_s},
          {"activation_bytes", request.activation_bytes},
          {"overlap", request.overlap},
          {"effects",
           {{"slowdown", request.effects.slowdown},
            {"jitter", request.effects.jitter},
            {"launch_s", request.effects.launch_s}}},
          {"prefetch", request.prefetch},
          {"sequences", request.sequences},
          {"reserve_bytes", request.reserve_bytes}};
}

// Null without dimensions beside data parallelism.
Json parallelism_json(const PlanOptions& options) {
  if (!options.job || options.job->sizes.alone()) {
    return {};
  }
  const Parallelism& sizes = options.job->sizes;
  Json json = {{"tp", sizes.tensor},
               {"pp", sizes.pipeline},
               {"cp", sizes.context},
               {"ep", sizes.expert},
               {"interleave", sizes.parts},
               {"bubble", options.steps.bubble},
               {"bytes_per_micro_batch", Json::object()}};
  const ho::cost::Cluster levels = levels_of(options.request.world, options.request.links);
  for (const DimensionTraffic& each : options.steps.traffic) {
    json["bytes_per_micro_batch"][std::string(each.dimension)] = {
        {"bytes", each.bytes},
        {"level", each.level == 0 ? "intra" : "inter"},
        {"level_name", levels.at(each.level).name},
        {"calls", each.calls}};
  }
  return json;
}

Json name_json(const StrategyFigures* figures) {
  return figures == nullptr ? Json() : Json(letters(figures->strategy));
}

// A name, and the size of the groups that it is of.
void add_extreme(Json& json,
                 const std::string& key,
                 const Report& report,
                 const std::optional<Candidate>& own,
                 const std::optional<SizedRow>& sized) {
  json[key] = name_json(sized ? &sized->figures : own ? &own->figures : nullptr);
  const PlannerRequest& request =
      sized ? report.sizes.plans[sized->plan].request : report.options.request;
  json[key + "_group_size"] = sized || own ? Json(request.world.group_size) : Json();
  json[key + "_micro_batch"] =
      (sized || own) && request.sequences > 0
          ? Json(request.sequences / (sized ? sized->figures : own->figures).micro_batches)
          : Json();
}

Json near_miss_json(const Recommendation& recommendation) {
  if (!recommendation.near_miss) {
    return {};
  }
  const StrategyFigures& figures = recommendation.figures[recommendation.near_miss->row];
  return {{"strategy", letters(figures.strategy)},
          {"missing_bytes", figures.missing_bytes},
          {"step_s", figures.time.step_s},
          {"remedies", recommendation.near_miss->remedies}};
}

Json sweep_json(const Sweep& sweep) {
  Json json = {{"option", sweep.option},
               {"values", Json::array()},
               {"impossible", Json::array()},
               {"least", nullptr}};
  for (const ImpossibleValue& each : sweep.impossible) {
    json["impossible"].push_back({{"value", each.value}, {"why", each.why}});
  }
  for (const SweepRow& row : sweep.rows) {
    const StrategyFigures& best = row.best();
    const double step_s = best.time.step_s;
    json["values"].push_back(
        {{"value", row.value},
         {"recommended", name_json(row.report.recommendation.recommended())},
         {"tokens_per_s_per_rank", optional_json(row.report.options.tokens_per_s(step_s))},
         {"mfu", optional_json(row.report.options.mfu(step_s))},
         {"step_s", step_s},
         {"memory_bytes", best.memory.total()},
         {"missing_bytes", best.missing_bytes},
         {"exposed_s", best.time.exposed_s}});
  }
  if (sweep.least) {
    json["least"] = {{"inter_bytes_per_s", sweep.least->bytes_per_s},
                     {"share", kKeptSpeed},
                     {"of", sweep.least->fastest}};
  }
  return json;
}

Json table_json(const ho::cost::LinearTable& table) {
  Json json = Json::array();
  for (const ho::cost::LinearTable::Point& point : table.points()) {
    json.push_back({point.x, point.y});
  }
  return json;
}

// Of the chosen size, and of all that were compared.
void add_groups(const Report& report, Json& json) {
  const PlannerRequest& request = report.options.request;
  json["group_size"] = request.world.group_size;
  json["groups"] = groups_text(request);
  json["levels"] = Json::array();
  for (const ho::cost::Level& level : request.links.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"size", level.size},
                              {"bytes_per_s", level.rate},
                              {"nics", level.nics},
                              {"oversubscription", level.oversubscription},
                              {"latency_s", level.latency_s},
                              {"start_s", level.start_s},
                              {"share_of_bytes", table_json(level.share_of_bytes)},
                              {"share_of_units", table_json(level.share_of_units)}});
  }
  json["group_sizes"] = Json::array();
  for (const SizedPlan& plan : report.sizes.plans) {
    const StrategyFigures* const best = plan.recommendation.recommended();
    Json row = {{"group_size", plan.request.world.group_size},
                {"groups", groups_text(plan.request)},
                {"recommended", name_json(best)}};
    row["step_s"] = best == nullptr ? Json() : Json(best->time.step_s);
    row["memory_bytes"] = best == nullptr ? Json() : Json(best->memory.total());
    row["spine_bytes"] = best == nullptr ? Json() : Json(spine_bytes(*best, plan.request));
    json["group_sizes"].push_back(std::move(row));
  }
}

constexpr std::string_view kNoOverlap = "no_overlap";

// "micro_batch" of "micro-batch".
std::string key_of(const PlanOption& option) {
  return ho::OptionNames::as_keys()(option.name);
}

std::string all_keys() {
  std::string keys;
  for (const PlanOption& option : plan_options()) {
    keys += key_of(option) + ", ";
  }
  return keys + std::string(kNoOverlap);
}

ho::Status set(PlanTexts& texts, const std::string& key, const nlohmann::json& value) {
  if (key == kNoOverlap) {
    if (!value.is_boolean()) {
      return ho::invalid(
          fmt::format("paro_plan: \"{}\" {}: takes true or false", key, ho::value_text(value)));
    }
    texts.no_overlap = value.get<bool>();
    return {};
  }
  const auto options = plan_options();
  const auto option = std::find_if(
      options.begin(), options.end(), [&](const PlanOption& each) { return key_of(each) == key; });
  if (option == options.end()) {
    return ho::invalid(fmt::format(
        "paro_plan: {} is not known; takes {}", ho::value_text(nlohmann::json(key)), all_keys()));
  }
  const bool is_list = option->text == &PlanTexts::units;
  if (is_list ? !value.is_array() : !value.is_string() && !value.is_number()) {
    return ho::invalid(fmt::format("paro_plan: \"{}\" {}: takes {}",
                                   key,
                                   ho::value_text(value),
                                   is_list ? "a list of objects" : "a text or a number"));
  }
  // Languages that have one kind of numbers write 4.0 for 4.
  constexpr double kMaxWhole = 1e15;
  const bool is_whole = value.is_number_float() && std::abs(value.get<double>()) <= kMaxWhole &&
                        value.get<double>() == std::floor(value.get<double>());
  texts.*(option->text) = value.is_string() ? value.get<std::string>()
                          : is_whole        ? fmt::format("{}", std::llround(value.get<double>()))
                                            : value.dump();
  return {};
}

}  // namespace

ho::Result<Report> report_of(PlanOptions options, std::vector<std::string> notes) {
  HORING_ASSIGN(SizedPlans sizes, recommend_sizes(options.request, options.group_sizes));
  const SizedPlan& chosen = sizes.plans[sizes.chosen];
  options.request = chosen.request;
  Report report{std::move(options), chosen.recommendation, std::move(notes)};
  if (sizes.plans.size() > 1) {
    report.sizes = std::move(sizes);
  }
  if (report.options.export_to) {
    HORING_ASSIGN(report.program, program_text(report));
  }
  return report;
}

std::string known_as_text(const Strategy& strategy) {
  std::string text;
  for (const std::string_view name : known_as(strategy)) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

namespace {

Json report_json(const Report& report) {
  const Recommendation& recommendation = report.recommendation;
  Json json = {{"request", request_json(report.options)}, {"strategies", Json::array()}};
  for (const StrategyFigures& figures : recommendation.figures) {
    json["strategies"].push_back(strategy_json(figures, report.options));
  }
  json["recommended"] = name_json(recommendation.recommended());
  json["runner_up"] = name_json(recommendation.runner_up());
  add_extreme(json, "fastest", report, recommendation.fastest, report.sizes.fastest);
  add_extreme(json, "smallest", report, recommendation.smallest, report.sizes.smallest);
  add_extreme(json, "simplest", report, recommendation.simplest, report.sizes.simplest);
  json["near_miss"] = near_miss_json(recommendation);
  json["why"] = recommendation.why();
  json["reasons"] = recommendation.reasons;
  json["ranking"] = Json::array();
  for (const size_t row : recommendation.ranking) {
    json["ranking"].push_back(letters(recommendation.figures[row].strategy));
  }
  json["notes"] = report.notes;
  json["parallelism"] = parallelism_json(report.options);
  json["export"] = report.program ? Json(*report.program) : Json();
  json["assumed"] = report.options.request.assumed;
  add_groups(report, json);
  json["sweep"] = nullptr;
  return json;
}

// The path of a model may have bytes that are no UTF-8.
std::string dumped_text(const Json& json) {
  return json.dump(2, ' ', false, kReplaceBadBytes) + "\n";
}

}  // namespace

std::string json_text(const Report& report) {
  return dumped_text(report_json(report));
}

std::string json_text(const Sweep& sweep) {
  Json json = report_json(sweep.rows.front().report);
  json["sweep"] = sweep_json(sweep);
  return dumped_text(json);
}

namespace {

ho::Result<std::string> answer_or_why_not(std::string_view request) {
  HORING_ASSIGN(const nlohmann::json json, ho::parse_object(request, "paro_plan", all_keys()));
  PlanTexts texts;
  texts.named = ho::OptionNames::as_keys();
  texts.command = fmt::format("paro_plan({})", json.dump(-1, ' ', false, kReplaceBadBytes));
  for (const auto& [key, value] : json.items()) {
    HORING_TRY(set(texts, key, value));
  }
  if (texts.sweep) {
    HORING_ASSIGN(const Sweep sweep, sweep_of(texts, {}));
    return json_text(sweep);
  }
  HORING_ASSIGN(PlanOptions options, understand(texts));
  HORING_ASSIGN(const Report report, report_of(std::move(options), {}));
  return json_text(report);
}

}  // namespace

ho::Result<std::string> answer_to(std::string_view request) {
  auto answer = answer_or_why_not(request);
  if (answer.ok()) {
    return answer;
  }
  const ho::Status status = answer.status();
  // Texts of the request may have line ends.
  return ho::Status(status.code(), ho::escaped(status.message(), status.message().size()));
}

}  // namespace paro
