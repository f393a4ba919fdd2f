// Meetings that others disturb: strangers, ranks that vanish, a second job at the same file, and a
// rank 0 without descriptors.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>

#include "bootstrap/meeting.hpp"
#include "planes.hpp"
#include "temporary_folder.hpp"

using namespace ho;
using namespace ho::test;
using namespace std::chrono_literals;

TEST_CASE("of two jobs that meet at one file the second is refused, and the first goes on") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("meet");
  const std::string place = "file://" + path;
  const bool was_left = GENERATE(false, true);
  const std::array keys{key_of(), key_of("quite another secret of some length")};
  for (int round = 0; round < 5; ++round) {
    if (was_left) {
      const ReservedPlace left;
      std::ofstream(path) << "horing rendezvous 1\n127.0.0.1:" << left.port() << "\nend\n";
    }
    std::array<std::future<Created>, 2> firsts;
    for (size_t job = 0; job < 2; ++job) {
      firsts.at(job) = std::async(std::launch::async, [&, job] {
        return ControlPlane::create(at(place, 0, 2), keys.at(job), deadline_after(kFar));
      });
    }
    size_t second = 0;
    while (firsts.at(second).wait_for(10ms) != std::future_status::ready) {
      second = 1 - second;
    }
    const Status refused = firsts.at(second).get().status();
    CHECK(refused.code() == StatusCode::kInvalidArgument);
    CHECK(has(refused, "HORING_RENDEZVOUS names " + path + ", where another job is meeting now"));
    CHECK(has(refused, "give each job a file of its own"));
    const auto lost = ControlPlane::create(at(place, 1, 2), keys.at(second), deadline_after(kFar));
    CHECK(lost.status().code() == StatusCode::kUnauthenticated);
    const auto met =
        ControlPlane::create(at(place, 1, 2), keys.at(1 - second), deadline_after(kFar));
    CHECK(met.ok());
    CHECK(firsts.at(1 - second).get().ok());
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("a file whose job was killed is a place to meet") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("killed");
  const pid_t victim = ::fork();
  if (victim == 0) {
    (void)ControlPlane::create(at("file://" + path, 0, 2), key_of(), deadline_after(kFar));
    ::_exit(1);
  }
  while (!std::filesystem::exists(path)) {
    std::this_thread::sleep_for(1ms);
  }
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  REQUIRE(std::filesystem::exists(path));
  CHECK(world(2, "file://" + path).size() == 2);
}
