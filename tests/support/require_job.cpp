#include <algorithm>

#include "catch.hpp"
#include "job.hpp"

namespace ho::test {

void require_job(const JobOptions& options, const std::function<void(ho_comm*)>& body) {
  const std::vector<std::string> errors = run_job(options, body);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    INFO("groups " << options.groups << ", rank " << rank);
    CHECK(errors[rank] == "");
  }
  REQUIRE(std::all_of(errors.begin(), errors.end(), [](const auto& e) { return e.empty(); }));
}

}  // namespace ho::test
