// A job of the program's that a communicator is a group of, as a process group of torch is one of
// its training: `horing status` and records show all groups of it as one job.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"

namespace ho {

struct JobPart {
  static constexpr uint32_t kMaxRanks = 65536;

  uint64_t job = 0;  // 0: the communicator is a job of its own
  uint32_t world_size = 0;
  std::vector<GlobalRank> ranks = {};  // of that job, by the communicator's

  // The number of the communicator's rank in that job.
  [[nodiscard]] uint32_t rank_in_job(uint32_t rank) const {
    return job == 0 ? rank : ranks.at(rank).value();
  }
};

// `rank` of `world_size` is the communicator's: its ranks are as many, all different, and ranks of
// the job.
[[nodiscard]] Status check_job_part(const JobPart& part, uint32_t rank, uint32_t world_size);

}  // namespace ho
