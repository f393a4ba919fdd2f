// Launchers nest, and several may have left something behind: torchrun inside a Slurm job, say,
// with a run id that two Slurm jobs share. So all of it is compared. Step ids are left out where
// torchrun made the ranks: its agents may come from one step per node.
#include "bootstrap/rendezvous/job_identity.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "auth/printable.hpp"
#include "base/env.hpp"
#include "base/quantity.hpp"

namespace ho {
namespace {

// As it is where it is short and plain; otherwise a hash (FNV-1a), which is as good to compare.
std::string comparable(const std::string& value) {
  constexpr size_t kMaxPlainBytes = 36;  // a UUID
  if (value.size() <= kMaxPlainBytes && printable(value, kMaxPlainBytes) == value &&
      value.find(' ') == std::string::npos) {
    return value;
  }
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : value) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return fmt::format("hash:{:016x}", hash);
}

class Entries {
 public:
  explicit Entries(const EnvironmentLookup& lookup) : lookup_(lookup) {}
  // Whether there was one.
  bool add(const std::string& name) {
    const auto value = lookup_(name);
    if (!value.has_value() || value->empty()) {
      return false;
    }
    text_ += (text_.empty() ? "" : " ") + name + "=" + comparable(*value);
    return true;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  const EnvironmentLookup& lookup_;
  std::string text_;
};

std::map<std::string_view, std::string_view> parsed(std::string_view text) {
  std::map<std::string_view, std::string_view> entries;
  while (!text.empty()) {
    const std::string_view entry = take_until(text, ' ');
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      entries.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return entries;
}

}  // namespace

std::string job_identity_from(const EnvironmentLookup& lookup) {
  Entries entries(lookup);
  if (entries.add(std::string(env::kJobId.name))) {
    return entries.take();
  }
  const bool from_torchrun = lookup("RANK").has_value();
  // "none" is what torchrun calls a run that was given no name.
  if (from_torchrun && lookup("TORCHELASTIC_RUN_ID").value_or("none") != "none") {
    (void)entries.add("TORCHELASTIC_RUN_ID");
  }
  // The parts of a heterogeneous job have job ids of their own.
  const bool slurm_is_one = !lookup("SLURM_HET_SIZE").has_value();
  if (slurm_is_one) {
    (void)entries.add("SLURM_JOB_ID");
  }
  if (from_torchrun) {
    return entries.take();
  }
  if (lookup("OMPI_COMM_WORLD_RANK").has_value()) {
    (void)(entries.add("PMIX_NAMESPACE") || entries.add("OMPI_MCA_ess_base_jobid"));
  } else if (lookup("PMI_RANK").has_value()) {
    (void)entries.add("PMI_JOBID");
  } else if (slurm_is_one) {
    (void)entries.add("SLURM_STEP_ID");
  }
  return entries.take();
}

JobComparison compare_jobs(std::string_view one, std::string_view other) {
  const auto ones = parsed(one);
  const auto others = parsed(other);
  JobComparison result;
  for (const auto& [name, value] : ones) {
    const auto endpoint = others.find(name);
    if (endpoint == others.end()) {
      continue;
    }
    if (endpoint->second != value) {
      result.difference =
          std::string(name) + " is " + std::string(value) + " and " + std::string(endpoint->second);
      return result;
    }
    result.same = true;
  }
  if (ones.contains(env::kJobId.name) != others.contains(env::kJobId.name)) {
    const bool first_has = ones.contains(env::kJobId.name);
    const std::string_view value = (first_has ? ones : others).at(env::kJobId.name);
    result.difference =
        std::string(env::kJobId.name) + " is " +
        (first_has ? std::string(value) + " and not set" : "not set and " + std::string(value));
  }
  return result;
}

}  // namespace ho
