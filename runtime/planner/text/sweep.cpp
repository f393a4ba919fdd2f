#include "planner/text/sweep.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/near_names.hpp"
#include "base/quantity.hpp"

namespace paro {
namespace {

constexpr size_t kMaxValues = 64;
constexpr double kGigabit = 1e9 / 8;

constexpr std::string_view kInter = "inter";
// Options that take a number.
constexpr std::array kSwept{kInter,
                            std::string_view("intra"),
                            std::string_view("nics"),
                            std::string_view("nodes"),
                            std::string_view("ranks-per-node"),
                            std::string_view("group-sizes"),
                            std::string_view("memory"),
                            std::string_view("inter-call"),
                            std::string_view("intra-call"),
                            std::string_view("world-call"),
                            std::string_view("micro-batch"),
                            std::string_view("accumulation"),
                            std::string_view("global-batch"),
                            std::string_view("sequence"),
                            std::string_view("compute-time"),
                            std::string_view("update-time"),
                            std::string_view("activations"),
                            std::string_view("mfu"),
                            std::string_view("prefetch"),
                            std::string_view("tp"),
                            std::string_view("pp"),
                            std::string_view("cp"),
                            std::string_view("ep")};

struct Axis {
  std::string option;
  PlanTexts::Text PlanTexts::*text = nullptr;
  std::vector<std::string> values;
};

bool is_rate(std::string_view option) {
  return option == kInter || option == "intra";
}

ho::Result<std::vector<std::string>> values_of(std::string_view option,
                                               std::string_view list,
                                               const ho::OptionNames& named) {
  std::vector<std::string> values;
  for (size_t begin = 0; begin != std::string_view::npos;) {
    const size_t comma = list.find(',', begin);
    std::string value(list.substr(begin, comma - begin));
    value.erase(0, value.find_first_not_of(' '));
    if (value.empty()) {
      return ho::invalid(
          fmt::format("{} {}={}: takes values with a comma between each two, as {}=4,8",
                      named("sweep"),
                      option,
                      list,
                      option));
    }
    if (is_rate(option) && ho::parse_number("", value).ok()) {
      value += "Gbit";
    }
    values.push_back(std::move(value));
    begin = comma == std::string_view::npos ? comma : comma + 1;
  }
  if (values.size() > kMaxValues) {
    return ho::invalid(fmt::format(
        "{} {}: {} values: takes at most {}", named("sweep"), option, values.size(), kMaxValues));
  }
  return values;
}

ho::Result<Axis> axis_of(std::string_view text, const ho::OptionNames& named) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return ho::invalid(fmt::format(
        "{} {}: takes an option and its values, as inter=100Gbit,200Gbit", named("sweep"), text));
  }
  std::string_view option = text.substr(0, equals);
  option.remove_prefix(option.starts_with("--") ? 2 : 0);
  if (std::find(kSwept.begin(), kSwept.end(), option) == kSwept.end()) {
    return ho::invalid(fmt::format("{} {}: {} is no option that takes a number{}",
                                   named("sweep"),
                                   text,
                                   option.empty() ? "an option without a name" : option,
                                   ho::near_names_text(option, {kSwept.begin(), kSwept.end()})));
  }
  const auto options = plan_options();
  const auto found = std::find_if(
      options.begin(), options.end(), [&](const PlanOption& each) { return each.name == option; });
  Axis axis{std::string(option), found->text, {}};
  HORING_ASSIGN(axis.values, values_of(option, text.substr(equals + 1), named));
  return axis;
}

// A number, or all group sizes: what is neither was not meant.
bool may_be_possible(std::string_view value) {
  return value == "all" || (value.front() >= '0' && value.front() <= '9') || value.front() == '.';
}

// Infinite where nothing fits.
double step_s(const Report& report) {
  const StrategyFigures* const best = report.recommendation.recommended();
  return best == nullptr ? std::numeric_limits<double>::infinity() : best->time.step_s;
}

double rate_of(const Report& report) {
  return report.options.request.links.inter_bytes_per_s;
}

class Sweeper {
 public:
  Sweeper(const PlanTexts& texts, Axis axis, const SweepProgress& progress)
      : texts_(texts), axis_(std::move(axis)), progress_(progress) {
    texts_.sweep.reset();
  }

  ho::Result<Sweep> run() {
    Sweep sweep;
    sweep.option = axis_.option;
    ho::Status first_refusal;
    for (const std::string& value : axis_.values) {
      auto report = report_with(value);
      if (report.ok()) {
        sweep.rows.push_back({value, std::move(report).value()});
        continue;
      }
      if (!may_be_possible(value)) {
        return report.status();
      }
      sweep.impossible.push_back({value, problem_});
      first_refusal = first_refusal.ok() ? report.status() : first_refusal;
    }
    if (sweep.rows.empty()) {
      return first_refusal;
    }
    if (axis_.option == kInter) {
      HORING_ASSIGN(sweep.least, least_rate(sweep.rows));
    }
    return sweep;
  }

 private:
  ho::Result<Report> report_with(const std::string& value) {
    if (progress_) {
      progress_(plans_);
    }
    ++plans_;
    texts_.*(axis_.text) = value;
    const std::string what = fmt::format("{} {}={}", texts_.named("sweep"), axis_.option, value);
    auto options = understand(texts_);
    if (!options.ok()) {
      problem_ = options.status().message();
      return options.status().with_context(what);
    }
    auto report = report_of(std::move(options).value(), {});
    if (!report.ok()) {
      problem_ = report.status().message();
      return report.status().with_context(what);
    }
    return report;
  }

  ho::Result<bool> keeps(double rate, double most_s) {
    HORING_ASSIGN(const Report report, report_with(fmt::format("{:.9g}Gbit", rate / kGigabit)));
    return step_s(report) <= most_s;
  }

  // Nothing where no value fits, or there is but one node.
  ho::Result<std::optional<LeastRate>> least_rate(const std::vector<SweepRow>& rows) {
    const auto& fastest =
        *std::min_element(rows.begin(), rows.end(), [](const SweepRow& a, const SweepRow& b) {
          return step_s(a.report) < step_s(b.report);
        });
    const double most_s = step_s(fastest.report) / kKeptSpeed;
    if (!std::isfinite(most_s) || fastest.report.options.request.world.group_count == 1) {
      return std::optional<LeastRate>();
    }
    double enough = rate_of(fastest.report);
    for (const SweepRow& row : rows) {
      enough = step_s(row.report) <= most_s ? std::min(enough, rate_of(row.report)) : enough;
    }
    HORING_ASSIGN(const double least, least_below(enough, most_s));
    return std::optional(LeastRate{least, fastest.value});
  }

  // Halves `enough` until it is too little, and then what is between.
  ho::Result<double> least_below(double enough, double most_s) {
    constexpr int kMaxHalvings = 10;
    constexpr double kNear = 1.004;
    double too_little = enough;
    for (int halving = 0; halving < kMaxHalvings && too_little == enough; ++halving) {
      too_little = enough / 2;
      HORING_ASSIGN(const bool kept, keeps(too_little, most_s));
      enough = kept ? too_little : enough;
    }
    while (enough / too_little > kNear) {
      const double middle = std::sqrt(enough * too_little);
      HORING_ASSIGN(const bool kept, keeps(middle, most_s));
      (kept ? enough : too_little) = middle;
    }
    return enough;
  }

  PlanTexts texts_;
  Axis axis_;
  const SweepProgress& progress_;
  size_t plans_ = 0;
  std::string problem_;  // of the last value that was refused, without the value
};

}  // namespace

const StrategyFigures& SweepRow::best() const {
  const Recommendation& recommendation = report.recommendation;
  if (const StrategyFigures* const recommended = recommendation.recommended()) {
    return *recommended;
  }
  return *std::min_element(
      recommendation.figures.begin(),
      recommendation.figures.end(),
      [](const auto& a, const auto& b) { return a.missing_bytes < b.missing_bytes; });
}

ho::Result<Sweep> sweep_of(const PlanTexts& texts, const SweepProgress& progress) {
  if (texts.measure) {
    return ho::invalid("--sweep beside --measure: takes a cluster that is described");
  }
  if (texts.export_to) {
    return ho::invalid(fmt::format("{} beside {}: takes one plan; leave one of them out",
                                   texts.named("export"),
                                   texts.named("sweep")));
  }
  HORING_ASSIGN(Axis axis, axis_of(texts.sweep.value_or(""), texts.named));
  return Sweeper(texts, std::move(axis), progress).run();
}

}  // namespace paro
