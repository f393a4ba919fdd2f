// A process of another user that knows the names of the ranks' sockets, which all can read, and
// fills their queues again and again. Without root it is of the same user, and is silent.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "has.hpp"
#include "os/fd_passing.hpp"
#include "shared_count.hpp"
#include "shm_ranks.hpp"

namespace ho::conformance {
namespace {

constexpr uid_t kNobody = 65534;
constexpr size_t kNameBytes = sizeof("horing-") - 1 + 32;
const Deadline kOnce = Deadline::min();

// Forked before there are threads.
class Stranger {
 public:
  explicit Stranger(size_t sockets) {
    REQUIRE(::pipe(pipe_.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      fill(sockets);
      ::_exit(1);
    }
  }
  ~Stranger() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void tell(const std::string& name) const {
    REQUIRE(::write(pipe_[1], name.data(), name.size()) == static_cast<ssize_t>(kNameBytes));
  }
  // All queues were full at once.
  [[nodiscard]] bool has_filled() const { return filled_.wait_for(1); }
  [[nodiscard]] std::string text() const {
    return "process " + std::to_string(pid_) + " of user " + std::to_string(kNobody);
  }

 private:
  void fill(size_t sockets) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < sockets; ++i) {
      std::array<char, kNameBytes> name{};
      if (::read(pipe_[0], name.data(), name.size()) != static_cast<ssize_t>(name.size())) {
        return;
      }
      names.emplace_back(name.data(), name.size());
    }
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) {
      return;
    }
    // A connection that is closed again keeps its place.
    for (;; filled_.set(1)) {
      for (const std::string& name : names) {
        while (connect_abstract(name, kOnce).ok()) {
        }
      }
    }
  }

  std::array<int, 2> pipe_{};
  pid_t pid_ = -1;
  test::SharedCount filled_;
};

std::string socket_name_in(std::span<const std::byte> info) {
  const std::string text(reinterpret_cast<const char*>(info.data()), info.size());
  return text.substr(text.find("horing-"), kNameBytes);
}

bool as_root() {
  return ::geteuid() == 0;
}

}  // namespace

TEST_CASE("ranks of a host meet while a stranger fills the queues of their sockets") {
  constexpr uint32_t kRanks = 3;
  const Stranger stranger(kRanks);
  Exchange ranks(kRanks);
  std::vector<Status> errors(kRanks);
  test::CaughtStderr caught;
  {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        bool first = true;
        const auto exchange = [&](std::span<const std::byte> mine) {
          auto blobs = ranks.exchange(rank, mine);
          if (blobs.ok() && std::exchange(first, false)) {
            for (size_t i = 0; rank == 0 && i < blobs->size(); ++i) {
              stranger.tell(socket_name_in(blobs->at(i)));
            }
            (void)stranger.has_filled();
          }
          return blobs;
        };
        errors[rank] = ShmTransport::create(options_of({}, GlobalRank(rank), kRanks),
                                            exchange,
                                            deadline_after(std::chrono::seconds(30)))
                           .status();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  const std::string said = caught.end();
  for (const Status& error : errors) {
    INFO(error.message());
    CHECK(error.ok());
  }
  CHECK((!as_root() || has(said, stranger.text() + " has connected to the socket")));
}

TEST_CASE("a rank that waits in vain for another says which strangers came instead") {
  if (!as_root()) {
    WARN("a process of another user takes root");
    return;
  }
  const Stranger stranger(1);
  Exchange ranks(2);
  std::latch over(1);
  // Rank 1 listens, and goes no further.
  std::thread rank_1([&] {
    using Blobs = Result<std::vector<std::vector<std::byte>>>;
    const auto exchange = [&](std::span<const std::byte> mine) -> Blobs {
      HORING_TRY(ranks.exchange(1, mine).status());
      over.wait();
      return Status(StatusCode::kAborted, "the test says so");
    };
    (void)ShmTransport::create(
        options_of({}, GlobalRank(1), 2), exchange, deadline_after(std::chrono::seconds(30)));
  });
  const auto exchange = [&](std::span<const std::byte> mine) {
    auto blobs = ranks.exchange(0, mine);
    stranger.tell(socket_name_in(blobs->at(0)));
    (void)stranger.has_filled();
    return blobs;
  };
  const Status late = ShmTransport::create(options_of({}, GlobalRank(0), 2),
                                           exchange,
                                           deadline_after(std::chrono::milliseconds(300)))
                          .status();
  over.count_down();
  rank_1.join();
  INFO(late.message());
  CHECK(late.code() == StatusCode::kTimeout);
  CHECK(has(late, "no shared memory from rank 1 within the deadline"));
  CHECK(has(late, "at last of " + stranger.text()));
}

}  // namespace ho::conformance
