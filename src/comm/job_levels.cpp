#include "comm/job_levels.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "cost/text/levels_file.hpp"
#include "topo/blob.hpp"

namespace ho {

Result<std::optional<NamedLevels>> levels_from_environment() {
  const std::string path = env::text(env::kLevelsFile);
  if (path.empty() || env::text_if_set(env::kDirectMaxBytes)) {
    return std::optional<NamedLevels>();
  }
  HORING_ASSIGN(cost::LevelsFile file, cost::read_levels_file(env::kLevelsFile.name, path));
  return std::optional(NamedLevels{path, std::move(file.levels)});
}

Setting setting_of(const std::optional<NamedLevels>& named) {
  std::string text = env::text(env::kLevelsFile).empty()
                         ? "no file"
                         : fmt::format("not used, {} is set", env::kDirectMaxBytes.name);
  if (named) {
    text.clear();
    for (const cost::ComparedField& field : cost::compared_fields(named->levels)) {
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", field.name, field.value);
    }
  }
  if (text.size() > kMaxRankTextBytes) {
    const std::string rest = fmt::format(".. of digest {:016x}", Hash().add(text).value());
    text.resize(kMaxRankTextBytes - rest.size());
    text += rest;
  }
  return {std::string(env::kLevelsFile.name), std::move(text)};
}

Result<JobLevels> levels_under(const NamedLevels& named, const GroupMap& map) {
  if (const Status status = cost::check(named.levels, map.world_size()); !status.ok()) {
    return status.with_context(named.path);
  }
  JobLevels job{std::make_shared<const cost::Cluster>(named.levels), 0, {}};
  uint64_t below = 1;
  while (below < map.largest_group()) {
    below *= named.levels[job.group_levels++].size;
  }
  if (!map.equal_groups() || below != map.largest_group()) {
    return invalid(fmt::format("{}: no level ends where groups do, which have {} to {} ranks",
                               named.path,
                               map.smallest_group(),
                               map.largest_group()));
  }
  for (uint32_t r = 0; r < map.world_size(); ++r) {
    const GlobalRank rank(r);
    job.positions.push_back(uint64_t{map.group_of(rank).value()} * below +
                            map.group_rank_of(rank).value());
  }
  return job;
}

std::optional<ModelledLevels> modelled_levels(const JobLevels& job, const BindingLimits& limits) {
  if (job.levels == nullptr) {
    return std::nullopt;
  }
  const auto members = cost::members_at(*job.levels, job.positions);
  if (!members) {
    return std::nullopt;
  }
  return ModelledLevels{job.levels, *members, job.group_levels, limits};
}

}  // namespace ho
