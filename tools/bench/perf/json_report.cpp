#include "bench/perf/json_report.hpp"

#include <horing.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "cli/subcommands/output_file.hpp"

namespace ho::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;  // of nccl-tests' file

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// nccl-tests writes truth as text.
std::string truth(bool value) {
  return value ? "true" : "false";
}

std::string local_time(std::time_t when) {
  std::tm parts{};
  localtime_r(&when, &parts);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return {text.data(), length};
}

Json phases_json(const Phases& phases) {
  Json json;
  for (const PhaseField& field : kPhaseFields) {
    json[field.key] = phases.*field.mean;
  }
  return json;
}

Json placement_json(const std::optional<Measurement>& measured) {
  if (!measured) {
    return {};
  }
  return {{"time", measured->time_us},
          {"alg_bw", measured->algorithm_gbps},
          {"bus_bw", measured->bus_gbps},
          {"nwrong", or_null(measured->wrong)},
          {"link_share", or_null(measured->link_share)},
          {"link_share_claimed", measured->share_claimed},
          {"effective_inter_bw", or_null(measured->effective_gbps)},
          {"overlap_ratio", or_null(measured->overlap_ratio)},
          {"time_p50", measured->percentiles_us[0]},
          {"time_p95", measured->percentiles_us[1]},
          {"time_p99", measured->percentiles_us[2]},
          {"phases", phases_json(measured->phases)}};
}

Json row_json(const Job& job, const Row& row) {
  const Measurement& any = *row.measured().front();
  return {{"size", any.size_bytes},
          {"count", any.count},
          {"type", to_string(row.what.dtype)},
          {"redop", redop_name(row.what)},
          {"root", kNoRoot},
          {"out_of_place", placement_json(row.out_of_place)},
          {"in_place", placement_json(row.in_place)},
          {"actual_iterations", any.iterations},
          {"collective", to_string(row.what.collective)},
          {"algorithm", any.algorithm},
          {"groups", job.groups}};
}

template <typename T>
Json names(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T value : values) {
    list.push_back(to_string(value));
  }
  return list;
}

Json config_json(const Job& job, const Options& options) {
  const auto sizes = options.sizes();
  const auto [least, most] = std::ranges::minmax_element(sizes, {}, &harness::SizeRun::size_bytes);
  const bool listed = !options.listed_sizes.empty();
  Json config = {{"minimum_bytes", listed ? least->size_bytes : options.min_bytes},
                 {"maximum_bytes", listed ? most->size_bytes : options.max_bytes}};
  if (!listed && options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else if (!listed) {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warmup;
  config["iterations"] = options.iterations;
  config["validation"] = options.check ? 1 : 0;
  config["blocking_collectives"] = truth(options.barrier_each);
  config["types"] = names(options.dtypes);
  config["redops"] =
      job.collective == harness::Collective::kAllGather ? Json{"none"} : names(options.ops);
  config["algorithm"] = to_string(options.algorithm);
  config["memory"] = to_string(options.memory);
  config["ranks"] = job.ranks;
  config["groups"] = job.groups;
  config["rails"] = job.rails;
  config["nics_per_node"] = job.nics == 0 ? Json() : Json(job.nics);
  config["emulation"] = job.emulation;
  config["startup_ms"] = job.startup_ms;
  config["link_limit_bytes_per_second"] =
      job.limit.bytes_per_second > 0.0 ? Json(job.limit.bytes_per_second) : Json();
  config["link_limit_how"] = job.limit.how;
  return config;
}

}  // namespace

Json json_report(const Job& job,
                 const Options& options,
                 const std::vector<Row>& rows,
                 const Times& times) {
  Json results = Json::array();
  for (const Row& row : rows) {
    results.push_back(row_json(job, row));
  }
  const Summary summary = summarize(rows);
  // No "env": nccl-tests writes the whole environment there, and ours holds the job's secret.
  return {
      {"version", kFormatVersion},
      {"start_time", local_time(times.started)},
      {"args", options.words},
      {"horing_version", ho_version()},
      {"config", config_json(job, options)},
      {"results", results},
      {"out_of_bounds",
       {{"count", summary.wrong},
        {"okay", summary.checked ? truth(summary.wrong == 0) : "unchecked"}}},
      {"average_bus_bandwidth", {{"bandwidth", summary.average_bus_gbps}, {"okay", "unchecked"}}},
      {"end_time", local_time(times.ended)}};
}

bool write_json(const std::string& program, const std::string& path, const Json& report) {
  std::error_code unknown;
  const bool replaces = std::filesystem::exists(path, unknown);
  const std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!write_file(program.c_str(), "-J", path, text)) {
    return false;
  }
  std::printf("# Results written to %s%s\n", path.c_str(), replaces ? ", replacing that file" : "");
  std::fflush(stdout);
  return true;
}

}  // namespace ho::perf
