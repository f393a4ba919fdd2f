// What tells one job from another at one rendezvous, as far as the environment says:
// "NAME=value" entries, separated by blanks. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ho {

// Answers the value of an environment variable, or nothing.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// HORING_JOB_ID alone where it is set, otherwise what the launcher has set. "": nothing is known.
[[nodiscard]] std::string job_identity_from(const EnvironmentLookup& lookup);

struct JobComparison {
  bool same = false;       // something that both have is equal
  std::string difference;  // "SLURM_JOB_ID is 7 and 8": they are different jobs; "": not known
};
// What only one of the two has says nothing, HORING_JOB_ID excepted.
[[nodiscard]] JobComparison compare_jobs(std::string_view one, std::string_view other);

}  // namespace ho
