// Rendezvous that others disturb: strangers, ranks that vanish, a second job at the same file, and
// a rank 0 without descriptors.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/bytes.hpp"
#include "bootstrap/rendezvous/rendezvous_connect.hpp"
#include "caught_stderr.hpp"
#include "planes.hpp"
#include "temporary_folder.hpp"

using namespace ho;
using namespace ho::test;
using namespace std::chrono_literals;

TEST_CASE("a rank that came to the rendezvous and is gone is named as such") {
  const ReservedPort reserved;
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(reserved.text(), 0, 4), key_of(), deadline_after(kFar));
  });
  const auto [connection, status] =
      come_as(reserved.port(),
              key_of(),
              {.rank = 2, .world_size = 4, .pid = 4711, .timeout_ms = 60000, .host = "elsewhere"});
  REQUIRE(status.ok());
  ::shutdown(connection.get(), SHUT_RDWR);
  const Status at_deadline = end_by_timeout(reserved.text(), key_of(), first);
  CHECK(at_deadline.code() == StatusCode::kTimeout);
  CHECK(has(at_deadline, "missing: ranks 1, 2"));
  CHECK(has(at_deadline, "; rank 2 (elsewhere, pid 4711) had come and is gone: "));
  CHECK_FALSE(has(at_deadline.message(), "rank 3 (elsewhere"));
}

TEST_CASE("strangers that come under ever new names hide no refused rank") {
  const ReservedPort reserved;
  const auto another = key_of("quite another secret of some length");
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(reserved.text(), 0, 4), key_of(), deadline_after(kFar));
  });
  for (uint32_t pid = 1; pid <= 60; ++pid) {
    const auto [connection, status] =
        come_as(reserved.port(),
                another,
                {.rank = 1, .world_size = 4, .pid = pid, .timeout_ms = 60000, .host = "stranger"});
    CHECK(status.code() == StatusCode::kUnauthenticated);
  }
  const Status refused = end_without_proof(at(reserved.text(), 2, 4), another);
  CHECK(refused.code() == StatusCode::kUnauthenticated);
  const Status at_deadline = end_by_timeout(reserved.text(), key_of(), first);
  CHECK(at_deadline.code() == StatusCode::kUnauthenticated);
  CHECK(has(at_deadline, "; rank 1 (stranger, pid 1) from 127.0.0.1 was refused"));
  CHECK(has(at_deadline, "; rank 2 ("));
  CHECK(has(at_deadline, "; 56 more came as these ranks and were refused"));
  CHECK(has(at_deadline, "pid 60)"));
  CHECK_FALSE(has(at_deadline, "pid 30)"));
}

TEST_CASE("of two jobs that meet at one file the second is refused, and the first goes on") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("meet");
  const std::string address = "file://" + path;
  const bool was_left = GENERATE(false, true);
  const std::array keys{key_of(), key_of("quite another secret of some length")};
  for (int round = 0; round < 5; ++round) {
    if (was_left) {
      const ReservedPort left;
      std::ofstream(path) << "horing rendezvous 1\n127.0.0.1:" << left.port() << "\nend\n";
    }
    std::array<std::future<Created>, 2> firsts;
    for (size_t job = 0; job < 2; ++job) {
      firsts.at(job) = std::async(std::launch::async, [&, job] {
        return ControlPlane::create(at(address, 0, 2), keys.at(job), deadline_after(kFar));
      });
    }
    size_t second = 0;
    while (firsts.at(second).wait_for(10ms) != std::future_status::ready) {
      second = 1 - second;
    }
    const Status refused = firsts.at(second).get().status();
    CHECK(refused.code() == StatusCode::kInvalidArgument);
    CHECK(has(refused, "HORING_RENDEZVOUS names " + path + ", where another job is starting now"));
    CHECK(has(refused, "give each job a file of its own"));
    const Status lost = end_without_proof(at(address, 1, 2), keys.at(second));
    CHECK(lost.code() == StatusCode::kUnauthenticated);
    const auto joined =
        ControlPlane::create(at(address, 1, 2), keys.at(1 - second), deadline_after(kFar));
    CHECK(joined.ok());
    CHECK(firsts.at(1 - second).get().ok());
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

namespace {

// A listener in rank 0's place that answers each request as a test says (null: closes each
// connection at once), until the test is over.
class Impostor {
 public:
  using Answer = std::function<std::vector<std::byte>(Handshake& server)>;
  // At a port that is held for it.
  Impostor(uint16_t port, Answer answer)
      : listener_(listen_on(SocketAddress::numeric("127.0.0.1", port).value()).value()),
        answer_(std::move(answer)),
        thread_([this] { run(); }) {}
  ~Impostor() {
    over_.store(true);
    thread_.join();
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  [[nodiscard]] uint16_t port() const { return local_address(listener_.get())->port(); }
  [[nodiscard]] int answered() const { return answered_.load(); }

 private:
  void run() {
    while (!over_.load()) {
      pollfd comes{listener_.get(), POLLIN, 0};
      if (::poll(&comes, 1, 10) <= 0) {
        continue;
      }
      const auto accepted = accept_from(listener_.get()).value();
      if (accepted.has_value() && answer_) {
        serve(accepted->fd.get());
      }
    }
  }
  void serve(int fd) {
    const auto server =
        Handshake::server(key_of("an impostor's own secret, long enough"), "control");
    while (server->output().empty()) {
      std::array<std::byte, 1024> chunk{};
      pollfd comes{fd, POLLIN, 0};
      (void)::poll(&comes, 1, 1000);
      const ssize_t got = ::recv(fd, chunk.data(), server->wanted(), 0);
      if (got <= 0) {
        return;
      }
      (void)server->consume(std::span(chunk).first(static_cast<size_t>(got)));
    }
    const std::vector<std::byte> answer = answer_(*server);
    (void)::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    ++answered_;
    pollfd ends{fd, POLLIN, 0};  // what it says to that
    (void)::poll(&ends, 1, 1000);
  }

  const Fd listener_;
  const Answer answer_;
  std::atomic<bool> over_ = false;
  std::atomic<int> answered_ = 0;
  std::thread thread_;
};

std::vector<std::byte> own_answer(Handshake& server) {
  const auto output = server.output();
  return {output.begin(), output.end()};
}

struct Forgery {
  const char* said;  // in the error of who heard it
  StatusCode code;
  Impostor::Answer answer;
};

std::vector<Forgery> forgeries() {
  return {{"did not prove the job key", StatusCode::kUnauthenticated, own_answer},
          {"refused by a peer that proved nothing yet: go away",
           StatusCode::kUnauthenticated,
           [](Handshake& server) {
             const auto frame = own_answer(server);
             ByteWriter refusal;
             refusal.append(std::span(frame).first(12));  // magic, version
             refusal.number(5, 1);
             refusal.append(std::vector<std::byte>(32));
             refusal.number(7, 2);
             refusal.padded_text("go away", 512);
             return refusal.take();
           }},
          {"proved nothing yet speaks wire version",
           StatusCode::kUnauthenticated,
           [](Handshake& server) {
             auto frame = own_answer(server);
             frame.at(8) ^= std::byte{64};
             return frame;
           }},
          {"does not speak this library's handshake", StatusCode::kProtocol, [](Handshake&) {
             return blob_of("HTTP/1.1 400 Bad Request\r\n\r\n");
           }}};
}

}  // namespace

TEST_CASE("whoever answers in rank 0's place without the key is told, and ends no rank") {
  for (const Forgery& forgery : forgeries()) {
    const ho::test::TemporaryFolder folder;
    const std::string path = folder.path("meet");
    const Impostor impostor(0, forgery.answer);
    leave_file(path, impostor.port());
    INFO(forgery.said);
    const Status late = end_without_proof(at("file://" + path, 1, 2), key_of());
    INFO(late.message());
    CHECK(late.code() == forgery.code);
    CHECK(has(late, "rank 0 was not found before the deadline"));
    CHECK(has(late, forgery.said));

    CaughtStderr caught;
    const int before = impostor.answered();
    auto second = std::async(std::launch::async, [&] {
      return ControlPlane::create(at("file://" + path, 1, 2), key_of(), deadline_after(kFar));
    });
    while (impostor.answered() < before + 3) {
      std::this_thread::sleep_for(1ms);
    }
    auto first = ControlPlane::create(at("file://" + path, 0, 2), key_of(), deadline_after(kFar));
    CHECK(first.ok());
    CHECK(second.get().ok());
    const std::string said = caught.end();
    INFO(said);
    CHECK(has(said, "[warning] rank 1 at the rendezvous file://" + path));
    CHECK(has(said, forgery.said));
    CHECK(has(said, "nobody there has proven the job key"));
  }
}

TEST_CASE(
    "at an address, too, a rank with a key waits for its proof; without one it ends at once") {
  ReservedPort reserved;
  const Impostor impostor(reserved.port(), forgeries()[2].answer);
  const Status late = end_without_proof(at(reserved.text(), 1, 2), key_of());
  CHECK(late.code() == StatusCode::kUnauthenticated);
  CHECK(has(late, "proved nothing yet speaks wire version"));
  CHECK(impostor.answered() > 1);
  const Status keyless =
      ControlPlane::create(at(reserved.text(), 1, 2), JobKey::none(false), deadline_after(kFar))
          .status();
  INFO(keyless.message());
  CHECK(
      (keyless.code() == StatusCode::kMismatch || keyless.code() == StatusCode::kUnauthenticated));
  CHECK_FALSE(has(keyless, "before the deadline"));
}

TEST_CASE("who takes the connection in rank 0's place and says nothing is told of after a second") {
  const Fd silent = listen_on(SocketAddress::numeric("127.0.0.1", 0).value()).value();
  const std::string address = local_address(silent.get())->to_string();
  CaughtStderr caught;
  const Status late =
      ControlPlane::create(at("tcp://" + address, 1, 2), key_of(), deadline_after(1200ms)).status();
  const std::string said = caught.end();
  CHECK(late.code() == StatusCode::kTimeout);
  CHECK(has(said, "[warning] rank 1 at the rendezvous tcp://" + address));
  CHECK(has(said, address + " has taken the connection and says nothing; nobody there has proven"));
}

TEST_CASE("who closes the connection in rank 0's place is told of after a second") {
  const Impostor impostor(0, nullptr);
  const std::string address = "127.0.0.1:" + std::to_string(impostor.port());
  CaughtStderr caught;
  const Status late =
      ControlPlane::create(at("tcp://" + address, 1, 2), key_of(), deadline_after(1500ms)).status();
  const std::string said = caught.end();
  CHECK(late.code() == StatusCode::kTimeout);
  CHECK(has(said, "[warning] rank 1 at the rendezvous tcp://" + address));
  CHECK(
      has(said, address + " has taken the connection and closed it without a word; nobody there"));
}

TEST_CASE("a rendezvous file of another user is told, and not followed") {
  constexpr uid_t kStranger = 4711;
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("meet");
  const std::string address = "file://" + path;
  const Impostor impostor(0, own_answer);
  leave_file(path, impostor.port());
  if (::chown(path.c_str(), kStranger, kStranger) != 0) {
    WARN("to give a file away takes root");
    return;
  }
  const Status late =
      ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(100ms)).status();
  INFO(late.message());
  CHECK(late.code() == StatusCode::kUnauthenticated);
  CHECK(has(late, path + " belongs to user 4711, not to this one (0), and is not followed"));
  CHECK(impostor.answered() == 0);
  auto second = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(kFar));
  });
  CHECK(ControlPlane::create(at(address, 0, 2), key_of(), deadline_after(kFar)).ok());
  CHECK(second.get().ok());
}

namespace {

Rendezvous of_job(const std::string& address,
                  uint32_t rank,
                  uint32_t world_size,
                  const std::string& job) {
  Rendezvous rendezvous = at(address, rank, world_size);
  rendezvous.job = job;
  return rendezvous;
}

}  // namespace

TEST_CASE("a rank of another job with the same key is refused by its job's identity, at once") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(
        of_job(address, 0, 3, "SLURM_JOB_ID=7"), key_of(), deadline_after(kFar));
  });
  auto second = std::async(std::launch::async, [&] {
    return ControlPlane::create(
        of_job(address, 1, 3, "SLURM_JOB_ID=7"), key_of(), deadline_after(kFar));
  });
  // As a rank that is here, as the one that is missing, and of another size.
  for (const auto& [rank, world_size] : {std::pair{1U, 3U}, std::pair{2U, 3U}, std::pair{2U, 4U}}) {
    const Status refused =
        ControlPlane::create(
            of_job(address, rank, world_size, "SLURM_JOB_ID=8"), key_of(), deadline_after(kFar))
            .status();
    INFO(refused.message());
    CHECK(refused.code() == StatusCode::kMismatch);
    CHECK(has(refused, "another job has its rendezvous at "));
    CHECK(has(refused, "SLURM_JOB_ID is 7 and 8; give each job a place of its own"));
  }
  // Longer than rank 0 thinks twice where it has reason to give up.
  std::this_thread::sleep_for(800ms);
  const auto third =
      ControlPlane::create(of_job(address, 2, 3, "SLURM_JOB_ID=7"), key_of(), deadline_after(kFar));
  INFO(third.status().message());
  CHECK(third.ok());
  CHECK(first.get().ok());
  CHECK(second.get().ok());
}

TEST_CASE("a rank waits until the file is its own job's, however many jobs use it in turn") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("meet");
  const std::string address = "file://" + path;
  const auto rank_0_of = [&](const std::string& job) {
    return std::async(std::launch::async, [&, job] {
      return ControlPlane::create(of_job(address, 0, 2, job), key_of(), deadline_after(kFar));
    });
  };
  auto seven = rank_0_of("SLURM_JOB_ID=7");
  while (!std::filesystem::exists(path)) {
    std::this_thread::sleep_for(1ms);
  }
  // At its deadline it says whose file it is.
  const Status late =
      ControlPlane::create(of_job(address, 1, 2, "SLURM_JOB_ID=8"), key_of(), deadline_after(300ms))
          .status();
  CHECK(late.code() == StatusCode::kTimeout);
  CHECK(has(late, "is another job's (SLURM_JOB_ID is 7 and 8); give each job a file of its own"));
  auto waits = std::async(std::launch::async, [&] {
    return ControlPlane::create(
        of_job(address, 1, 2, "SLURM_JOB_ID=8"), key_of(), deadline_after(kFar));
  });
  CHECK(
      ControlPlane::create(of_job(address, 1, 2, "SLURM_JOB_ID=7"), key_of(), deadline_after(kFar))
          .ok());
  CHECK(seven.get().ok());
  auto eight = rank_0_of("SLURM_JOB_ID=8");
  CHECK(waits.get().ok());
  CHECK(eight.get().ok());
}

TEST_CASE("at a file, who comes twice may be of another job, and ends nothing") {
  const ho::test::TemporaryFolder folder;
  const std::string address = "file://" + folder.path("meet");
  const std::string job = GENERATE("", "SLURM_JOB_ID=7");
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(of_job(address, 0, 3, job), key_of(), deadline_after(kFar));
  });
  std::vector<std::future<Created>> twins;
  for (int i = 0; i < 2; ++i) {
    twins.push_back(std::async(std::launch::async, [&] {
      return ControlPlane::create(of_job(address, 1, 3, job), key_of(), deadline_after(kFar));
    }));
  }
  size_t double_one = 0;
  while (twins[double_one].wait_for(10ms) != std::future_status::ready) {
    double_one = 1 - double_one;
  }
  const Status refused = twins[double_one].get().status();
  INFO(refused.message());
  CHECK(refused.code() == StatusCode::kMismatch);
  CHECK(has(refused, "rank 1 has come twice"));
  CHECK(has(refused, "or another job uses this file") == job.empty());
  if (job.empty()) {
    std::this_thread::sleep_for(800ms);
    CHECK(ControlPlane::create(of_job(address, 2, 3, job), key_of(), deadline_after(kFar)).ok());
    CHECK(first.get().ok());
    CHECK(twins[1 - double_one].get().ok());
  } else {
    // Of this job for certain: rank 2 was started as 1.
    CHECK(first.get().status().code() == StatusCode::kMismatch);
    CHECK(twins[1 - double_one].get().status().code() == StatusCode::kMismatch);
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

namespace {

// A rank 0 of four that may open so many files more than it has, in a process of its own. Returns
// what it wrote to stderr, its error last.
std::string end_of_rank_0(const std::string& address,
                          rlim_t files,
                          const std::function<void()>& meanwhile) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    const int next = ::dup(STDERR_FILENO);
    // What whoever started the tests has open would count as well.
    ::close_range(static_cast<unsigned>(next), ~0U, 0);
    const rlimit limit{static_cast<rlim_t>(next) + files, static_cast<rlim_t>(next) + files};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const auto created = ControlPlane::create(at(address, 0, 4), key_of(), deadline_after(kFar));
    const std::string text = created.status().to_string();
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  meanwhile();
  std::string said;
  std::array<char, 4096> chunk{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(ends[0], chunk.data(), chunk.size());
    said.append(chunk.data(), got > 0 ? static_cast<size_t>(got) : 0);
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return said;
}

}  // namespace

TEST_CASE("a rank 0 that has no descriptor for a rank warns at once, and ends the rendezvous") {
  std::vector<Created> others;
  std::string said;
  // Who comes when rank 0 has given up already waits for its deadline.
  const auto in_time = [](const Created& other) {
    return other.status().code() != StatusCode::kTimeout;
  };
  bool all_came = false;
  for (int attempt = 0; attempt < kAttempts && !all_came; ++attempt) {
    const ReservedPort reserved;
    const std::string address = reserved.text();
    // What it needs for itself, with one to spare, and for one rank.
    said = end_of_rank_0(address, 8, [&] {
      others = create_all({{at(address, 1, 4), key_of(), 30s},
                           {at(address, 2, 4), key_of(), 30s},
                           {at(address, 3, 4), key_of(), 30s}});
    });
    all_came = std::all_of(others.begin(), others.end(), in_time);
  }
  CHECK(has(said, "[warning] rendezvous: a rank has come and cannot be let in: accept: Too many"));
  CHECK(has(said, "ulimit -n"));
  CHECK(has(said, "system error: rank 0 ("));
  // Also those that were never let in: nobody waits for the deadline.
  for (const Created& other : others) {
    const Status& status = other.status();
    INFO(status.message());
    CHECK(status.code() == StatusCode::kSystem);
    CHECK(has(status, "rank 0 ("));
    CHECK(has(status, "cannot be let in: accept: Too many open files"));
    CHECK(has(status, "2 of 4 ranks arrived"));
  }
}
