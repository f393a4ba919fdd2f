// A folder of checkpoints belongs to one job: what other processes may do with it, and when they
// may again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "catch.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/store.hpp"
#include "has.hpp"
#include "temporary_folder.hpp"

using namespace paro::checkpoint;
using ho::test::TemporaryFolder;

TEST_CASE("another process that saves keeps this one out, its children do not") {
  const TemporaryFolder folder;
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t other = ::fork();
  if (other == 0) {
    const auto lock = StoreLock::take(folder.root(), 1);
    const pid_t worker = ::fork();  // as a data loader would, outliving its parent
    if (worker != 0) {
      static_cast<void>(::write(ready[1], lock.ok() ? &worker : nullptr, sizeof worker));
    }
    for (;;) {
      ::pause();
    }
  }
  pid_t worker = 0;
  REQUIRE(::read(ready[0], &worker, sizeof worker) == ssize_t{sizeof worker});
  CHECK(has(StoreLock::take(folder.root(), 2).status(), "another job"));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  CHECK(StoreLock::take(folder.root(), 2).ok());
  ::kill(worker, SIGKILL);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a job that trains has its folder to itself, and saves there") {
  const TemporaryFolder folder;
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t other = ::fork();
  if (other == 0) {
    const auto claim = claim_folder(folder.root(), 10, false);
    auto lock = StoreLock::take(folder.root(), 1);
    std::ofstream(saving_folder(folder.root(), 1) / kManifestName) << "{}";
    const bool saved = claim.ok() && lock.ok() && lock->publish().ok();
    static_cast<void>(::write(ready[1], saved ? "y" : "n", 1));
    for (;;) {
      ::pause();
    }
  }
  char claimed = 0;
  REQUIRE(::read(ready[0], &claimed, 1) == 1);
  CHECK(claimed == 'y');
  CHECK(has(claim_folder(folder.root(), 10, true).status(), "another job"));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  CHECK(has(claim_folder(folder.root(), 10, false).status(), "add --resume"));
  CHECK(claim_folder(folder.root(), 10, true).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}
