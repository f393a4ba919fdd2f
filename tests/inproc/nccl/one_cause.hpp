// A job that fails over NCCL, on the doubles: all ranks must say why with the same words.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "on_nccl.hpp"
#include "os/clock.hpp"
#include "sanitizers.hpp"

namespace ho::test {

// A deadline that is meant to pass.
inline constexpr uint64_t kSoonMs = kThreadSanitizer ? 1500 : 400;

// Every rank's cause, which must be one, or none.
inline std::string one_cause(const std::string& groups,
                             const std::function<std::string(const OnNccl&)>& body) {
  std::mutex mutex;
  std::vector<std::string> causes;
  const auto errors = run_job({groups}, [&](ho_comm* job) {
    const OnNccl on(job);
    std::string cause = body(on);
    const std::lock_guard lock(mutex);
    causes.push_back(std::move(cause));
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
  for (const std::string& cause : causes) {
    CHECK(cause == causes.front());
  }
  return causes.empty() ? "nobody came" : causes.front();
}

// Why nothing can be begun any more, once it is known: of collectives or of their rank. Ok, where
// nothing has failed for a minute.
template <typename OfThem>
Status failure_of(OfThem& of_them) {
  const Deadline until = deadline_after(std::chrono::minutes(1));
  Status status;
  while ((status = of_them.status()).ok() && !passed(until)) {
    std::this_thread::yield();
  }
  return status;
}

}  // namespace ho::test
