// The control plane over real sockets, one thread per rank. No outcome depends on timing: waits
// only bound how long a broken implementation may hang.
#include "bootstrap/control_plane.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "bootstrap/wire.hpp"
#include "catch.hpp"
#include "os/socket.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

using Plane = std::unique_ptr<ControlPlane>;
using Created = Result<Plane>;

const std::string kSecret = "a test secret of enough length";

std::shared_ptr<const JobKey> key_of(const std::string& secret = kSecret) {
  return JobKey::from_text(secret).value();
}

uint16_t free_port() {
  const Fd listener = listen_on(SocketAddress::numeric("127.0.0.1", 0).value(), 1).value();
  return local_address(listener.get())->port();
}

std::string free_place() {
  return "tcp://127.0.0.1:" + std::to_string(free_port());
}

Rendezvous at(const std::string& place, uint32_t rank, uint32_t world_size) {
  return {.rank = rank,
          .world_size = world_size,
          .local_rank = {},
          .address = place,
          .source = "arguments"};
}

struct Attempt {
  Rendezvous rendezvous;
  std::shared_ptr<const JobKey> key = key_of();
  std::chrono::milliseconds time = 20s;
};

std::vector<Created> create_all(const std::vector<Attempt>& attempts) {
  std::vector<std::future<Created>> pending;
  pending.reserve(attempts.size());
  for (const Attempt& attempt : attempts) {
    pending.push_back(std::async(std::launch::async, [attempt] {
      return ControlPlane::create(attempt.rendezvous, attempt.key, deadline_after(attempt.time));
    }));
  }
  std::vector<Created> created;
  created.reserve(pending.size());
  for (auto& one : pending) {
    created.push_back(one.get());
  }
  return created;
}

std::vector<Plane> world(uint32_t size, const std::string& place = free_place()) {
  std::vector<Attempt> attempts;
  for (uint32_t rank = 0; rank < size; ++rank) {
    attempts.push_back({.rendezvous = at(place, rank, size)});
  }
  std::vector<Plane> planes;
  for (Created& created : create_all(attempts)) {
    INFO(created.status().to_string());
    REQUIRE(created.ok());
    planes.push_back(std::move(created).value());
  }
  return planes;
}

std::vector<std::byte> blob_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::vector<std::byte>& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

using Gathered = Result<std::vector<std::vector<std::byte>>>;

std::future<Gathered> gather(ControlPlane& plane,
                             const std::string& tag,
                             const std::string& mine,
                             std::vector<GlobalRank> members = {},
                             std::chrono::milliseconds time = 20s) {
  return std::async(std::launch::async, [&plane, tag, mine, members = std::move(members), time] {
    return plane.all_gather(tag, blob_of(mine), members, deadline_after(time));
  });
}

// Collects one rank's verdict and counts them. Declared before the plane that calls it, so that it
// outlives it.
class Ear {
 public:
  void listen(ControlPlane& plane, std::vector<RankState> states = {}) {
    plane.start({.on_verdict =
                     [this](const Verdict& verdict) {
                       const std::lock_guard lock(mutex_);
                       verdict_ = verdict.cause;
                       ++count_;
                       changed_.notify_all();
                     },
                 .describe_state = [states] { return states; },
                 .on_departure =
                     [this](const Departure& departure) {
                       const std::lock_guard lock(mutex_);
                       departures_.push_back(departure);
                       changed_.notify_all();
                     }});
  }
  // The first `count` departures that were heard of.
  std::vector<Departure> departures(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return departures_.size() >= count; });
    return departures_;
  }
  Status heard() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [this] { return count_ > 0; });
    return count_ > 0 ? verdict_ : Status(StatusCode::kInternal, "no verdict came");
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Status verdict_;
  int count_ = 0;
  std::vector<Departure> departures_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Fd raw_connection(uint16_t port) {
  const auto address = SocketAddress::numeric("127.0.0.1", port).value();
  for (int i = 0; i < 2000; ++i) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), address.get(), address.size_bytes()) == 0) {
      return fd;
    }
    std::this_thread::sleep_for(5ms);
  }
  return {};
}

}  // namespace

TEST_CASE("ranks meet over loopback and share a job id") {
  for (const uint32_t size : {1U, 2U, 16U}) {
    const auto planes = world(size);
    for (const auto& plane : planes) {
      CHECK(plane->job_id() == planes[0]->job_id());
      CHECK(plane->local_address() == "127.0.0.1");
    }
    CHECK(planes.back()->rendezvous().rank == size - 1);
  }
}

TEST_CASE("a world of one needs no place") {
  auto created = ControlPlane::create(at("", 0, 1), key_of(), deadline_after(5s));
  REQUIRE(created.ok());
  auto result = (*created)->all_gather("alone", blob_of("x"), {}, deadline_after(5s));
  REQUIRE(result.ok());
  REQUIRE(result->size() == 1);
  CHECK(text_of(result->front()) == "x");
}

TEST_CASE("ranks meet through a file that is gone afterwards") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-meet-" + std::to_string(::getpid()));
  // Left over from an earlier job: a port that nobody listens at.
  std::ofstream(path) << "horing rendezvous 1\n127.0.0.1:" << free_port() << "\nend\n";
  {
    const auto planes = world(3, "file://" + path);
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(planes[0]->job_id() == planes[2]->job_id());
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("missing ranks are named to everybody") {
  const std::string place = free_place();
  const auto created = create_all({{.rendezvous = at(place, 0, 5), .key = key_of(), .time = 700ms},
                                   {.rendezvous = at(place, 1, 5)},
                                   {.rendezvous = at(place, 3, 5)}});
  for (const Created& one : created) {
    REQUIRE_FALSE(one.ok());
    CHECK(one.status().code() == StatusCode::kTimeout);
    INFO(one.status().message());
    CHECK(has(one.status().message(), "3 of 5 ranks arrived"));
    CHECK(has(one.status().message(), "missing: ranks 2, 4"));
  }
}

TEST_CASE("without rank 0 the others say where they looked") {
  const std::string place = free_place();
  const auto created = ControlPlane::create(at(place, 1, 2), key_of(), deadline_after(200ms));
  REQUIRE_FALSE(created.ok());
  CHECK(created.status().code() == StatusCode::kTimeout);
  CHECK(has(created.status().message(), place));
  CHECK(has(created.status().message(), "refused"));
}

namespace {

// Far away: an answer that waited for it would be kTimeout.
constexpr std::chrono::milliseconds kFar = 60s;

struct Keys {
  std::shared_ptr<const JobKey> first;  // rank 0's
  std::shared_ptr<const JobKey> others;
  std::string said;
};

std::vector<Keys> keys_that_differ() {
  const auto none = JobKey::none(false);
  return {{none, key_of(), "the client has a job key and the server has none"},
          {key_of(), none, "the server has a job key and the client has none"},
          {key_of(), key_of("quite another secret of some length"), "job keys differ"}};
}

bool shows_a_secret(const std::string& text) {
  return has(text, kSecret) || has(text, "quite another");
}

}  // namespace

TEST_CASE("ranks of other keys than rank 0's end at once, and so does rank 0") {
  const bool through_file = GENERATE(false, true);
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-keys-" + std::to_string(::getpid()));
  for (const Keys& keys : keys_that_differ()) {
    const std::string place = through_file ? "file://" + path : free_place();
    const auto created = create_all({{at(place, 0, 3), keys.first, kFar},
                                     {at(place, 1, 3), keys.others, kFar},
                                     {at(place, 2, 3), keys.others, kFar}});
    for (size_t rank = 0; rank < created.size(); ++rank) {
      const Status status = created[rank].status();
      INFO(place << ", rank " << rank << ": " << status.message());
      CHECK(status.code() == StatusCode::kUnauthenticated);
      CHECK(has(status.message(), keys.said));
      CHECK(has(status.message(), "set HORING_JOB_KEY"));
      CHECK(has(status.message(), "server is rank 0"));
      CHECK_FALSE(shows_a_secret(status.message()));
    }
    CHECK(has(created[0].status().message(), "ranks 1, 2 were refused for the job key, rank 1 ("));
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("one rank of another key ends the meeting for those of the right one too") {
  for (const Keys& keys : keys_that_differ()) {
    const std::string place = free_place();
    const auto created = create_all({{at(place, 0, 4), keys.first, kFar},
                                     {at(place, 1, 4), keys.first, kFar},
                                     {at(place, 2, 4), keys.others, kFar},
                                     {at(place, 3, 4), keys.first, kFar}});
    for (const Created& one : created) {
      INFO(one.status().message());
      CHECK(one.status().code() == StatusCode::kUnauthenticated);
      CHECK(has(one.status().message(), keys.said));
    }
    for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
      CHECK(has(created[rank].status().message(), "3 of 4 ranks arrived"));
      CHECK(has(created[rank].status().message(), "rank 2 was refused for the job key, rank 2 ("));
    }
  }
}

TEST_CASE("a stranger who claims to be a rank does not keep that rank out") {
  const std::string place = free_place();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(place, 0, 3), key_of(), deadline_after(20s));
  });
  const auto stranger = ControlPlane::create(
      at(place, 1, 3), key_of("quite another secret of some length"), deadline_after(20s));
  CHECK(stranger.status().code() == StatusCode::kUnauthenticated);
  const auto others =
      create_all({{.rendezvous = at(place, 1, 3)}, {.rendezvous = at(place, 2, 3)}});
  CHECK(others[0].ok());
  CHECK(others[1].ok());
  CHECK(first.get().ok());
}

TEST_CASE("a file that another job left ends nothing while rank 0 may still replace it") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-stale-" + std::to_string(::getpid()));
  const uint16_t port = free_port();
  const std::string elsewhere = "tcp://127.0.0.1:" + std::to_string(port);
  // That job is larger, and waits for ranks of its own.
  auto other_job = std::async(std::launch::async, [&] {
    return ControlPlane::create(
        at(elsewhere, 0, 9), key_of("quite another secret of some length"), deadline_after(3s));
  });
  std::ofstream(path) << "horing rendezvous 1\n127.0.0.1:" << port << "\nend\n";
  auto second = std::async(std::launch::async, [&] {
    return ControlPlane::create(at("file://" + path, 1, 2), key_of(), deadline_after(20s));
  });
  std::this_thread::sleep_for(200ms);
  const auto first =
      ControlPlane::create(at("file://" + path, 0, 2), key_of(), deadline_after(20s));
  CHECK(first.ok());
  const auto met = second.get();
  INFO(met.status().message());
  CHECK(met.ok());
  CHECK(other_job.get().status().code() == StatusCode::kTimeout);
}

TEST_CASE("without a key an address that is not loopback is told why it may not enter") {
  Fd listener = listen_on(SocketAddress::any(0).front(), 8).value();
  const uint16_t port = local_address(listener.get())->port();
  std::string host;
  const auto addresses = interface_addresses(port);
  for (const SocketAddress& address : *addresses) {
    host = host.empty() && !address.is_loopback() && address.family() == AF_INET ? address.host()
                                                                                 : host;
  }
  listener.reset();
  if (host.empty()) {
    WARN("this host has loopback only");
    return;
  }
  const std::string place = "tcp://" + host + ":" + std::to_string(port);
  const auto none = JobKey::none(false);
  const std::string no_key = "no job key is set, so only this host's loopback may be used";
  struct Case {
    std::shared_ptr<const JobKey> first;
    std::shared_ptr<const JobKey> second;
    std::string said_to_first;
    std::string said_to_second;
  };
  const std::string first_lacks = "the client has a job key and the server has none";
  const std::string second_lacks = "the server has a job key and the client has none";
  const std::vector<Case> cases{
      {none, key_of(), first_lacks, first_lacks},
      {key_of(), none, second_lacks, second_lacks},
      {none, none, no_key, no_key},
      // No key either, but it would take the risk that rank 0 does not take.
      {none, JobKey::none(true), no_key, no_key},
  };
  for (const Case& each : cases) {
    const auto created =
        create_all({{at(place, 0, 2), each.first, kFar}, {at(place, 1, 2), each.second, kFar}});
    const Status first = created[0].status();
    const Status second = created[1].status();
    INFO(first.message() << "\n" << second.message());
    CHECK(first.code() == StatusCode::kUnauthenticated);
    CHECK(has(first.message(), each.said_to_first));
    CHECK(
        (second.code() == StatusCode::kUnauthenticated || second.code() == StatusCode::kMismatch));
    CHECK(has(second.message(), each.said_to_second));
  }
  // Without rank 0 there is nobody to tell.
  const auto alone = ControlPlane::create(at(place, 1, 2), none, deadline_after(kFar));
  CHECK(alone.status().code() == StatusCode::kUnauthenticated);
  CHECK(has(alone.status().message(), no_key));
}

TEST_CASE("a duplicate rank and another world size are refused naming both sides") {
  const std::string place = free_place();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(place, 0, 3), key_of(), deadline_after(20s));
  });
  auto twins = create_all({{.rendezvous = at(place, 1, 3), .key = key_of(), .time = 1500ms},
                           {.rendezvous = at(place, 1, 3), .key = key_of(), .time = 1500ms},
                           {.rendezvous = at(place, 2, 4), .key = key_of(), .time = 1500ms}});
  const auto result = first.get();  // ends with the deadline of the rank that waits in vain
  REQUIRE_FALSE(result.ok());
  const bool first_twin_refused = twins[0].status().code() == StatusCode::kMismatch;
  const Status refused = twins[first_twin_refused ? 0 : 1].status();
  const Status waited = twins[first_twin_refused ? 1 : 0].status();
  INFO(refused.message());
  CHECK(refused.code() == StatusCode::kMismatch);
  CHECK(has(refused.message(), "rank 1 has come twice"));
  CHECK(waited.code() == StatusCode::kTimeout);
  CHECK(twins[2].status().code() == StatusCode::kMismatch);
  CHECK(has(twins[2].status().message(), "world size of 3"));
  CHECK(has(twins[2].status().message(), "with 4"));
  CHECK(has(result.status().message(), "before the deadline of rank 1"));
  CHECK(has(result.status().message(), "missing: rank 2"));
}

TEST_CASE("garbage connections do not disturb the job") {
  const uint16_t port = free_port();
  const std::string place = "tcp://127.0.0.1:" + std::to_string(port);
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(place, 0, 2), key_of(), deadline_after(20s));
  });
  std::vector<Fd> garbage;
  for (int i = 0; i < 300; ++i) {  // more than may be pending
    Fd fd = raw_connection(port);
    REQUIRE(fd.valid());
    const std::string text = i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : i % 3 == 1 ? "HOR" : "";
    REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0);
    garbage.push_back(std::move(fd));
  }
  const auto second = ControlPlane::create(at(place, 1, 2), key_of(), deadline_after(20s));
  INFO(second.status().message());
  CHECK(second.ok());
  CHECK(first.get().ok());
}

TEST_CASE("all_gather brings every blob to every rank in order") {
  const auto planes = world(5);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<Gathered>> pending;
    for (uint32_t rank = 0; rank < 5; ++rank) {
      pending.push_back(gather(*planes[rank], "same tag", std::string(rank * 7, 'a')));
    }
    for (auto& one : pending) {
      auto result = one.get();
      INFO(result.status().message());
      REQUIRE(result.ok());
      REQUIRE(result->size() == 5);
      for (uint32_t rank = 0; rank < 5; ++rank) {
        CHECK(text_of((*result)[rank]) == std::string(rank * 7, 'a'));
      }
    }
  }
}

TEST_CASE("blobs of 1 MiB pass, larger ones are refused before they are sent") {
  const auto planes = world(3);
  const std::string large(wire::kMaxBlobBytes, 'x');
  std::vector<std::future<Gathered>> pending;
  for (const auto& plane : planes) {
    pending.push_back(gather(*plane, "large", large));
  }
  for (auto& one : pending) {
    auto result = one.get();
    REQUIRE(result.ok());
    CHECK(text_of(result->at(2)) == large);
  }
  const auto refused = gather(*planes[1], "larger", large + "x").get();
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("subsets gather at the same time, in members order") {
  const auto planes = world(6);
  const std::vector<GlobalRank> even{GlobalRank(4U), GlobalRank(0U), GlobalRank(2U)};
  const std::vector<GlobalRank> odd{GlobalRank(1U), GlobalRank(3U), GlobalRank(5U)};
  std::vector<std::future<Gathered>> subsets;
  std::vector<std::future<Gathered>> worlds;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    subsets.push_back(
        gather(*planes[rank], "split", std::to_string(rank), rank % 2 == 0 ? even : odd));
    worlds.push_back(gather(*planes[rank], "world", std::to_string(rank)));
  }
  for (uint32_t rank = 0; rank < 6; ++rank) {
    auto subset = subsets[rank].get();
    REQUIRE(subset.ok());
    REQUIRE(subset->size() == 3);
    CHECK(text_of(subset->at(0)) == (rank % 2 == 0 ? "4" : "1"));
    CHECK(text_of(subset->at(2)) == (rank % 2 == 0 ? "2" : "5"));
    CHECK(worlds[rank].get().ok());
  }
}

TEST_CASE("another tag and a missing rank are named at the deadline") {
  const auto planes = world(3);
  auto a = gather(*planes[0], "colours", "a", {}, 300ms);
  auto b = gather(*planes[1], "shapes", "b", {}, 300ms);
  const Status first = a.get().status();
  const Status second = b.get().status();
  INFO(first.message() << "\n" << second.message());
  CHECK(has(first.message(), "missing: ranks 1, 2"));
  CHECK(has(second.message(), "missing: ranks 0, 2"));
  // Whichever expired first still saw the other.
  CHECK((has(first.message(), "rank 1 is in all_gather \"shapes\"") ||
         has(second.message(), "rank 0 is in all_gather \"colours\"")));
  CHECK((first.code() == StatusCode::kMismatch || second.code() == StatusCode::kMismatch));
}

TEST_CASE("members that cannot work are refused") {
  const auto planes = world(2);
  const auto status = [&](std::vector<GlobalRank> members) {
    return gather(*planes[0], "wrong", "", std::move(members)).get().status();
  };
  CHECK(status({GlobalRank(1U)}).code() == StatusCode::kInvalidArgument);
  CHECK(status({GlobalRank(0U), GlobalRank(7U)}).code() == StatusCode::kInvalidArgument);
  CHECK(status({GlobalRank(0U), GlobalRank(0U)}).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a report becomes one verdict for everybody") {
  std::vector<Ear> ears(4);
  const auto planes = world(4);
  for (size_t rank = 0; rank < 4; ++rank) {
    ears[rank].listen(*planes[rank]);
  }
  planes[2]->report({.code = StatusCode::kConnection,
                     .reporter = GlobalRank(2U),
                     .peer = GlobalRank(3U),
                     .text = "rail 1 to rank 3 is down"});
  planes[1]->report({.code = StatusCode::kMismatch,
                     .reporter = GlobalRank(1U),
                     .peer = {},
                     .text = "rank 3 called with 7 elements"});
  const Status first = ears[0].heard();
  for (Ear& ear : ears) {
    const Status heard = ear.heard();
    CHECK(heard.code() == first.code());
    CHECK(heard.message() == first.message());
  }
  CHECK(first.code() == StatusCode::kMismatch);
  CHECK(has(first.message(), "rank 3 called with 7 elements"));
  CHECK(has(first.message(), "reported by rank 1 ("));
  planes[3]->report(
      {.code = StatusCode::kSystem, .reporter = GlobalRank(3U), .peer = {}, .text = "late"});
  CHECK(gather(*planes[3], "after", "").get().status().code() == StatusCode::kMismatch);
  for (Ear& ear : ears) {
    CHECK(ear.count() == 1);
  }
}

TEST_CASE("a verdict that came before start is delivered by start") {
  Ear early;
  Ear late;
  const auto planes = world(2);
  planes[1]->report(
      {.code = StatusCode::kSystem, .reporter = GlobalRank(1U), .peer = {}, .text = "no"});
  early.listen(*planes[1]);
  REQUIRE(early.heard().code() == StatusCode::kSystem);
  late.listen(*planes[0]);
  CHECK(late.heard().code() == StatusCode::kSystem);
}

TEST_CASE("a stall asks all ranks and merges their states") {
  std::vector<Ear> ears(4);
  const auto planes = world(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const bool behind = rank == 2;
    RankState state{.communicator = 0,
                    .channel = 0,
                    .entered = behind ? 11U : 12U,
                    .completed = 11,
                    .operation = behind ? "" : "all_reduce",
                    .waiting = behind ? "" : "recv inter step 2 of rail 1 from rank 2"};
    ears[rank].listen(*planes[rank], {state});
  }
  planes[0]->report({.code = StatusCode::kTimeout,
                     .reporter = GlobalRank(0U),
                     .peer = {},
                     .text = "all_reduce #12 did not complete within 5000 ms"});
  const Status heard = ears[3].heard();
  INFO(heard.message());
  CHECK(heard.code() == StatusCode::kTimeout);
  CHECK(has(heard.message(), "rank 2 has not entered all_reduce #12 (its last is #11)"));
  CHECK(has(heard.message(), "3 ranks wait in it: recv inter step 2 of rail 1 from rank 2"));
}

namespace {

// A rank in a process of its own, so that it can die without a goodbye.
class RankProcess {
 public:
  explicit RankProcess(const Rendezvous& rendezvous) : pid_(::fork()) {
    if (pid_ == 0) {
      auto created = ControlPlane::create(rendezvous, key_of(), deadline_after(20s));
      if (created.ok()) {
        (*created)->start({});
        (void)(*created)->barrier("up", {}, deadline_after(20s));
        ::pause();
      }
      ::_exit(1);
    }
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    end(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void end(int signal) const { ::kill(pid_, signal); }
  [[nodiscard]] std::string pid() const { return std::to_string(pid_); }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("a killed rank is named with host and pid, and beats other reports") {
  const std::string place = free_place();
  const RankProcess victim(at(place, 1, 3));
  auto created = create_all({{.rendezvous = at(place, 0, 3)}, {.rendezvous = at(place, 2, 3)}});
  REQUIRE(created[0].ok());
  REQUIRE(created[1].ok());
  std::vector<Ear> ears(2);
  std::vector<Plane> planes;
  planes.push_back(std::move(created[0]).value());
  planes.push_back(std::move(created[1]).value());
  ears[0].listen(*planes[0]);
  ears[1].listen(*planes[1]);
  auto up = gather(*planes[0], "up", "");
  REQUIRE(gather(*planes[1], "up", "").get().ok());
  REQUIRE(up.get().ok());
  auto in_vain = gather(*planes[0], "with the dead", "");
  victim.end(SIGKILL);
  CHECK(in_vain.get().status().code() == StatusCode::kPeerLost);
  planes[1]->report({.code = StatusCode::kConnection,
                     .reporter = GlobalRank(2U),
                     .peer = GlobalRank(1U),
                     .text = "link to rank 1 was reset in all_gather #3"});
  for (Ear& ear : ears) {
    const Status heard = ear.heard();
    INFO(heard.message());
    CHECK(heard.code() == StatusCode::kPeerLost);
    CHECK(has(heard.message(), "rank 1 ("));
    CHECK(has(heard.message(), "pid " + victim.pid() + ") is gone"));
    CHECK(ear.count() == 1);
  }
}

TEST_CASE("when the coordinator dies or stops, the others still get a verdict") {
  const bool stopped = GENERATE(false, true);
  const std::string place = free_place();
  const RankProcess first(at(place, 0, 3));
  auto created = create_all({{.rendezvous = at(place, 1, 3)}, {.rendezvous = at(place, 2, 3)}});
  REQUIRE(created[0].ok());
  REQUIRE(created[1].ok());
  Ear first_ear;
  Ear second_ear;
  const Plane one = std::move(created[0]).value();
  const Plane two = std::move(created[1]).value();
  first_ear.listen(*one);
  second_ear.listen(*two);
  auto up = gather(*one, "up", "");
  REQUIRE(gather(*two, "up", "").get().ok());
  REQUIRE(up.get().ok());
  first.end(stopped ? SIGSTOP : SIGKILL);
  if (!stopped) {
    for (Ear* ear : {&first_ear, &second_ear}) {
      CHECK(ear->heard().code() == StatusCode::kPeerLost);
      CHECK(has(ear->heard().message(), "rank 0 ("));
      CHECK(has(ear->heard().message(), "is gone"));
    }
    return;
  }
  one->report({.code = StatusCode::kTimeout,
               .reporter = GlobalRank(1U),
               .peer = {},
               .text = "all_reduce #3 did not complete"});
  const Status heard = first_ear.heard();
  CHECK(heard.code() == StatusCode::kTimeout);
  CHECK(has(heard.message(), "all_reduce #3 did not complete"));
  CHECK(has(heard.message(), "coordinator rank 0 does not answer"));
}

TEST_CASE("a rank that leaves as planned is no failure; a gather with it is") {
  std::vector<Ear> ears(3);
  auto planes = world(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    ears[rank].listen(*planes[rank]);
  }
  planes[1].reset();
  const Status with = gather(*planes[2], "with the left", "").get().status();
  CHECK(with.code() == StatusCode::kPeerLost);
  CHECK(has(with.message(), "has left"));
  const std::vector<GlobalRank> rest{GlobalRank(0U), GlobalRank(2U)};
  auto a = gather(*planes[0], "rest", "", rest);
  CHECK(gather(*planes[2], "rest", "", rest).get().ok());
  CHECK(a.get().ok());
  // The coordinator leaves before rank 2: still no failure, and a report still has an end.
  planes[0].reset();
  CHECK(gather(*planes[2], "alone", "", {GlobalRank(2U)}).get().status().code() ==
        StatusCode::kPeerLost);
  CHECK(ears[2].count() == 0);
  planes[2]->report({.code = StatusCode::kConnection,
                     .reporter = GlobalRank(2U),
                     .peer = {},
                     .text = "link to rank 0 closed"});
  CHECK(has(ears[2].heard().message(), "link to rank 0 closed"));
}

TEST_CASE("who leaves a communicator is told to its members, each with its own messages") {
  std::vector<Ear> ears(4);
  const auto planes = world(4);
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
    ears[rank].listen(*planes[rank]);
  }
  Departure departure;
  departure.communicator = 77;
  departure.rank = GlobalRank(3U);  // a lie that nobody believes
  departure.channels = {{0, ""}, {0, ""}, {5, "all_reduce"}};
  departure.pairs = {{GlobalRank(0U), 2, 1}};
  planes[1]->leave(departure);
  // To two of them only; the other hears nothing between two that it does hear.
  departure.communicator = 78;
  departure.members = {GlobalRank(1U), GlobalRank(3U)};
  planes[1]->leave(departure);
  departure.communicator = 79;
  departure.members = {};
  planes[1]->leave(departure);
  const auto heard = ears[0].departures(2);
  REQUIRE(heard.size() == 2);
  CHECK(heard[0].communicator == 77);
  CHECK(heard[1].communicator == 79);
  CHECK(heard[0].rank == GlobalRank(1U));
  CHECK(has(heard[0].name, "rank 1 ("));
  REQUIRE(heard[0].channels.size() == 3);
  CHECK(heard[0].channels[2].completed == 5);
  CHECK(heard[0].channels[2].last == "all_reduce");
  REQUIRE(heard[0].pairs.size() == 1);
  CHECK(heard[0].pairs[0].sent == 2);
  CHECK(heard[0].pairs[0].received == 1);
  CHECK(heard[0].members.empty());
  const auto others = ears[3].departures(3);
  REQUIRE(others.size() == 3);
  CHECK(others[1].communicator == 78);
  CHECK(others[0].pairs.empty());
  // Whoever starts to listen later hears of it too.
  ears[2].listen(*planes[2]);
  CHECK(ears[2].departures(2).size() == 2);
  CHECK(ears[1].count() == 0);
}

TEST_CASE("the last words of rank 0 arrive before its farewell") {
  Ear ear;
  auto planes = world(2);
  ear.listen(*planes[1]);
  Departure departure;
  departure.communicator = 5;
  planes[0]->leave(departure);
  planes[0].reset();
  REQUIRE(ear.departures(1).size() == 1);
  CHECK(ear.departures(1)[0].rank == GlobalRank(0U));
  planes[1]->leave(departure);  // to nobody
  CHECK(ear.count() == 0);
}

TEST_CASE("gathers of a communicator end when a member has left, also those that begin later") {
  const auto planes = world(2);
  auto pending = gather(*planes[1], "split 3 of communicator 12", "");
  const Status why(StatusCode::kPeerLost, "rank 0 has left");
  while (pending.wait_for(1ms) != std::future_status::ready) {
    planes[1]->end_gathers(" of communicator 12", why);
  }
  const Status ended = pending.get().status();
  CHECK(ended.code() == StatusCode::kPeerLost);
  CHECK(has(ended.message(), "all_gather \"split 3 of communicator 12\": rank 0 has left"));
  const Status later = gather(*planes[1], "split 4 of communicator 12", "").get().status();
  CHECK(later.code() == StatusCode::kPeerLost);
  auto other = gather(*planes[1], "split 4 of communicator 2", "");
  CHECK(gather(*planes[0], "split 4 of communicator 2", "").get().ok());
  CHECK(other.get().ok());
}

TEST_CASE("two worlds one after the other may use the same place") {
  const std::string place = free_place();
  for (int round = 0; round < 3; ++round) {
    const auto planes = world(2, place);
    CHECK(planes.size() == 2);
  }
}
