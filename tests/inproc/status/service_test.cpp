// Ranks whose job has several control planes, one for each group of it: one socket, one report.
#include "status/service.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "has.hpp"
#include "must_have.hpp"
#include "os/local_socket.hpp"
#include "scoped_variable.hpp"
#include "status/folder.hpp"
#include "temporary_folder.hpp"

namespace ho::test {
namespace {

constexpr std::chrono::seconds kSoon{60};  // for hangs
constexpr uint64_t kJob = 0xc0ffee;

struct Folder {
  TemporaryFolder folder;
  ScopedVariable variable{"HORING_STATUS_DIR", folder.path("sockets")};

  [[nodiscard]] std::vector<std::string> sockets() const {
    std::vector<std::string> paths;
    std::error_code none;
    for (const auto& each : std::filesystem::directory_iterator(folder.path("sockets"), none)) {
      paths.push_back(each.path().string());
    }
    return paths;
  }
};

WatchedReach reach_of(uint64_t plane, std::initializer_list<uint32_t> ranks) {
  WatchedReach reach{plane, {}};
  for (const uint32_t rank : ranks) {
    reach.ranks.emplace_back(rank);
  }
  return reach;
}

// Rank 1 of a job of four, and two of its groups: all ranks in another order, and ranks 3 and 1.
struct Groups {
  std::shared_ptr<StatusService> service = StatusService::of_process();
  std::optional<StatusService::Member> world;
  std::optional<StatusService::Member> part;

  Groups() {
    const WatchedJob job{.job = kJob, .rank = 1, .world_size = 4};
    world.emplace(service, job, reach_of(11, {3, 2, 1, 0}));
    part.emplace(service, job, reach_of(22, {3, 1}));
  }
};

WatchedCommunicator communicator(uint32_t ranks) {
  WatchedCommunicator made{.key = 5, .recorder = must_have(Recorder::create())};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    made.ranks.emplace_back(rank);
  }
  return made;
}

Fd request(const std::string& path, std::string_view question) {
  Fd client = must_have(connect_local(path));
  const std::string line = std::string(question) + "\n";
  REQUIRE(::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(line.size()));
  return client;
}

std::string answer(const Fd& client) {
  std::string text;
  while (true) {
    pollfd waited{client.get(), POLLIN, 0};
    REQUIRE(::poll(&waited, 1, static_cast<int>(std::chrono::milliseconds(kSoon).count())) == 1);
    std::array<char, 4096> bytes{};
    const ssize_t got = ::recv(client.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      return text;
    }
    text.append(bytes.data(), static_cast<size_t>(got));
  }
}

// The number of the question that a group is to ask. Lives longer than the group.
class Requested {
 public:
  void of(StatusService::Member& group) {
    group.ask_others_with([this](uint64_t number) {
      number_.set_value(number);
      return true;
    });
  }
  [[nodiscard]] uint64_t soon() {
    REQUIRE(future_.wait_for(kSoon) == std::future_status::ready);
    return future_.get();
  }
  [[nodiscard]] bool not_yet() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  }

 private:
  std::promise<uint64_t> number_;
  std::future<uint64_t> future_ = number_.get_future();
};

}  // namespace

TEST_CASE("groups of one job share a socket, and a report with the job's ranks") {
  const Folder folder;
  Groups groups;
  groups.world->add(communicator(4));
  groups.part->add(communicator(2));
  groups.part->set_name(5, "group 'b'");
  groups.part->failed(5, "rank 0 (three, pid 7) is gone");
  groups.part->set_hosts({"three", "one"});
  REQUIRE(folder.sockets().size() == 1);
  const std::string path = folder.sockets().front();
  CHECK(path.find("/0000000000c0ffee-1-") != std::string::npos);
  const auto report = nlohmann::json::parse(answer(request(path, kAskStatus)));
  CHECK(report.at("rank") == 1);
  CHECK(report.at("world_size") == 4);
  CHECK(report.at("host") == "one");
  CHECK(report.at("hosts") == nlohmann::json({"", "one", "", "three"}));
  const auto& world = report.at("communicators").at(0);
  const auto& part = report.at("communicators").at(1);
  CHECK(world.at("size") == 4);
  CHECK(world.at("ranks") == nlohmann::json({3, 2, 1, 0}));
  CHECK(world.at("name") == "");
  CHECK(world.at("cause") == "");
  CHECK(part.at("size") == 2);
  CHECK(part.at("ranks") == nlohmann::json({3, 1}));
  CHECK(part.at("name") == "group 'b'");
  CHECK(part.at("cause") == "rank 3 (three, pid 7) is gone");
  CHECK(part.at("key") != world.at("key"));
}

TEST_CASE("a group that ends takes its communicators with it, and the last one the socket") {
  const Folder folder;
  Groups groups;
  groups.world->add(communicator(4));
  groups.part->add(communicator(2));
  groups.world.reset();
  const auto report = nlohmann::json::parse(answer(request(folder.sockets().at(0), kAskStatus)));
  REQUIRE(report.at("communicators").size() == 1);
  CHECK(report.at("communicators").at(0).at("ranks") == nlohmann::json({3, 1}));
  groups.part->remove(5);
  const auto after = nlohmann::json::parse(answer(request(folder.sockets().at(0), kAskStatus)));
  CHECK(after.at("communicators").empty());
  CHECK(after.at("ended") == 2);
  groups.part.reset();
  CHECK(folder.sockets().empty());
}

TEST_CASE("two jobs and two ranks of a process have sockets of their own") {
  const Folder folder;
  const Groups groups;
  const StatusService::Member rank_2(groups.service, {.job = kJob, .rank = 2, .world_size = 4});
  const StatusService::Member other(groups.service, {.job = kJob + 1, .rank = 1, .world_size = 4});
  CHECK(folder.sockets().size() == 3);
}

TEST_CASE("the largest group asks for all, and no other one does") {
  const Folder folder;
  Requested of_world;
  Requested of_part;
  Groups groups;
  of_part.of(*groups.part);
  of_world.of(*groups.world);
  const Fd client = request(folder.sockets().at(0), kAskOthers);
  const uint64_t number = of_world.soon();
  groups.world->take(number, 3, "{\"zero\": 0}");
  CHECK(of_part.not_yet());
}

TEST_CASE("a rank that has left one group is asked over another one that it is in") {
  const Folder folder;
  Requested of_world;
  Requested of_part;
  Groups groups;
  of_part.of(*groups.part);
  of_world.of(*groups.world);
  const Fd client = request(folder.sockets().at(0), kAskOthers);
  const uint64_t number = of_world.soon();
  groups.world->take(number, 1, "");  // rank 2 of the job, which is in no other group
  groups.world->take(number, 0, "");  // rank 3
  CHECK(of_part.soon() == number);
  groups.part->take(number, 0, "{\"three\": 3}");
  groups.world->take(number, 3, "{\"zero\": 0}");
  CHECK(answer(client) == "0 {\"zero\": 0}\n2 gone\n3 {\"three\": 3}\n");
}

TEST_CASE("where the largest group can ask nobody the others ask for those they reach") {
  const Folder folder;
  Requested of_part;
  Groups groups;
  groups.world->ask_others_with([](uint64_t) { return false; });
  of_part.of(*groups.part);
  const Fd client = request(folder.sockets().at(0), kAskOthers);
  groups.part->take(of_part.soon(), 0, "{}");
  CHECK(answer(client) == "0\n2\n3 {}\n");
}

TEST_CASE("a thread that cannot end holds up the end of a job only so long") {
  std::promise<void> may_run;
  std::promise<void> ended;
  CaughtStderr caught;
  auto service = StatusService::create([&](std::function<void()> run) {
    return std::thread([&, run = std::move(run)] {
      may_run.get_future().wait();
      run();
      ended.set_value();
    });
  });
  REQUIRE(service != nullptr);
  service.reset();
  CHECK(has(caught.end(), "has not ended within 5000 ms"));
  may_run.set_value();
  CHECK(ended.get_future().wait_for(kSoon) == std::future_status::ready);
}

TEST_CASE("where no thread can be had a job goes on without a service") {
  const Folder folder;
  CaughtStderr caught;
  const auto none = StatusService::create([](const std::function<void()>&) -> std::thread {
    throw std::system_error(EAGAIN, std::generic_category());
  });
  CHECK(none == nullptr);
  CHECK(has(caught.end(), "the job goes on without"));
  StatusService::Member member(
      none, {.job = kJob, .rank = 1, .world_size = 4}, reach_of(22, {3, 1}));
  member.ask_others_with([](uint64_t) { return true; });
  member.add(communicator(2));
  member.set_name(5, "a");
  member.set_hosts({"three", "one"});
  member.failed(5, "why");
  member.take(1, 0, "");
  member.remove(5);
  CHECK(member.report(1000) == "{}");
  CHECK(folder.sockets().empty());
}

}  // namespace ho::test
