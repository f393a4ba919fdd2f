// Texts of a group's communicators in the numbers of the job that it is a group of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"

namespace ho {

// ranks: of the job, by the group's; empty: the same. "rank 1 (node0, pid 7)" and what the
// coordinator says, as "rank 1 has not entered all_reduce", are a process. What the program names
// itself, as "global rank 5", is left as it is.
[[nodiscard]] std::string with_job_ranks(std::string_view text,
                                         const std::vector<GlobalRank>& ranks);

}  // namespace ho
