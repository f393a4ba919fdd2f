#include "comm/job_part.hpp"

#include <spdlog/fmt/fmt.h>

namespace ho {

Status check_job_part(const JobPart& part, uint32_t rank, uint32_t world_size) {
  if (part.job == 0) {
    return {};
  }
  const auto refuse = [&](const std::string& why) {
    return invalid(fmt::format("rank {} of {}: ho_comm_options.{}", rank, world_size, why));
  };
  if (part.world_size == 0 || part.world_size > JobPart::kMaxRanks) {
    return refuse(fmt::format(
        "job_size is {}; a job has 1 to {} ranks", part.world_size, JobPart::kMaxRanks));
  }
  if (part.ranks.size() != world_size) {
    return refuse(fmt::format(
        "job_ranks has {} numbers; give one for each rank of the communicator", part.ranks.size()));
  }
  std::vector<bool> seen(part.world_size, false);
  for (size_t i = 0; i < part.ranks.size(); ++i) {
    const uint32_t number = part.ranks[i].value();
    if (number >= part.world_size) {
      return refuse(fmt::format("job_ranks[{}] is {}; the job has ranks 0 to {} (job_size {})",
                                i,
                                number,
                                part.world_size - 1,
                                part.world_size));
    }
    if (seen[number]) {
      return refuse(fmt::format(
          "job_ranks[{}] is {}, as an earlier one; each rank is in it once", i, number));
    }
    seen[number] = true;
  }
  return {};
}

}  // namespace ho
