// Ranks that were given one device: who says it, and that the job works.
#include <string>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "cuda_double.hpp"
#include "job.hpp"

using namespace ho;
using namespace ho::test;

namespace {

// What a job of these groups writes to stderr. A rank's device is the double's number rank % 2.
std::string said_by(const std::string& groups) {
  cuda_double::reset({});
  CaughtStderr caught;
  const auto errors = run_job({groups}, [](ho_comm* comm) {
    ho_comm* part = nullptr;
    must(ho_comm_split(comm, 0, 0, &part));  // says nothing again
    ho_comm_destroy(part);
  });
  std::string said = caught.end();
  for (const std::string& error : errors) {
    CHECK(error.empty());
  }
  return said;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("ranks of one host that share a GPU are told once") {
  const std::string said = said_by("4");
  INFO(said);
  CHECK(count_of(said, "share GPU") == 2);
  CHECK(count_of(said, "ranks 0, 2 share GPU 0000:3a:00.0 on ") == 1);
  CHECK(count_of(said, "ranks 1, 3 share GPU 0000:3b:00.0 on ") == 1);
  CHECK(count_of(said, "set LOCAL_RANK or CUDA_VISIBLE_DEVICES per rank") == 2);
}

TEST_CASE("ranks that have a GPU each are told nothing") {
  CHECK(count_of(said_by("2x2"), "share GPU") == 0);
}
