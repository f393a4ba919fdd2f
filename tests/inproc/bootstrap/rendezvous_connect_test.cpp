// How ranks find each other over real sockets, and how that ends for all of them when they may not.
// Deadlines are far away except where a test is about them.
#include "bootstrap/rendezvous/rendezvous_connect.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bootstrap/control/control_connection.hpp"
#include "caught_stderr.hpp"
#include "more_time.hpp"
#include "planes.hpp"
#include "temporary_folder.hpp"

using namespace ho;
using namespace ho::test;
using namespace std::chrono_literals;

TEST_CASE("ranks find each other over loopback and share a job id") {
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
  auto created = ControlPlane::create(at("", 0, 1), key_of(), deadline_after(kFar));
  REQUIRE(created.ok());
  auto result = (*created)->all_gather("alone", blob_of("x"), {}, deadline_after(kFar));
  REQUIRE(result.ok());
  REQUIRE(result->size() == 1);
  CHECK(as_string(result->front()) == "x");
}

TEST_CASE("ranks find each other through a file that is gone afterwards") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-meet-" + std::to_string(::getpid()));
  // Left over from an earlier job: a port that nobody listens at.
  const ReservedPort left;
  std::ofstream(path) << "horing rendezvous 1\n127.0.0.1:" << left.port() << "\nend\n";
  {
    const auto planes = world(3, "file://" + path);
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(planes[0]->job_id() == planes[2]->job_id());
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

namespace {

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("what is no rendezvous file is neither replaced nor removed, and every rank says so") {
  const ho::test::TemporaryFolder folder;
  const std::string text = folder.path("text");
  const std::string link = folder.path("link");
  const std::string inner = folder.path("folder");
  const std::string pipe = folder.path("pipe");
  std::ofstream(text) << "important\n";
  std::filesystem::create_symlink(text, link);
  std::filesystem::create_directory(inner);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::vector<std::pair<std::string, std::string>> cases{
      {text, "did not write"}, {link, "symbolic link"}, {inner, "folder"}, {pipe, "no regular"}};
  for (const auto& [path, what] : cases) {
    const auto created = create_all(
        {{at("file://" + path, 0, 2), key_of(), 60s}, {at("file://" + path, 1, 2), key_of(), 60s}});
    for (const Created& one : created) {
      INFO(one.status().message());
      CHECK(one.status().code() == StatusCode::kInvalidArgument);
      CHECK(has(one.status().message(), "HORING_RENDEZVOUS names " + path));
      CHECK(has(one.status().message(), what));
      CHECK(has(one.status().message(), "does not exist yet"));
    }
  }
  CHECK(contents_of(text) == "important\n");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::is_directory(inner));
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("an empty file is a place to meet") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("empty");
  std::ofstream(path).close();
  CHECK(world(2, "file://" + path).size() == 2);
}

TEST_CASE("a rendezvous file in a folder that is not there names the setting and the remedy") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("none") + "/file";
  const auto first =
      ControlPlane::create(at("file://" + path, 0, 2), key_of(), deadline_after(60s));
  INFO(first.status().message());
  CHECK(first.status().code() == StatusCode::kSystem);
  CHECK(has(first.status().message(), "cannot create the rendezvous file " + path));
  CHECK(has(first.status().message(), "No such file"));
  CHECK(has(first.status().message(), "HORING_RENDEZVOUS"));
  const auto second =
      ControlPlane::create(at("file://" + path, 1, 2), key_of(), deadline_after(100ms));
  INFO(second.status().message());
  CHECK(has(second.status().message(), path));
  CHECK(has(second.status().message(), "HORING_RENDEZVOUS"));
}

TEST_CASE("missing ranks are named to everybody") {
  CHECK(with_more_time(700ms, [](std::chrono::milliseconds time) {
    const ReservedPort reserved;
    const std::string address = reserved.text();
    const auto created = create_all({{at(address, 0, 5), key_of(), time},
                                     {at(address, 1, 5), key_of(), 3 * time},
                                     {at(address, 3, 5), key_of(), 3 * time}});
    const bool all_came = has(created[0].status(), "3 of 5 ranks arrived");
    for (const Created& one : created) {
      REQUIRE_FALSE(one.ok());
      CHECK(one.status().code() == StatusCode::kTimeout);
      INFO(one.status().message());
      CHECK((!all_came || has(one.status(), "3 of 5 ranks arrived")));
      CHECK((!all_came || has(one.status(), "missing: ranks 2, 4")));
    }
    return all_came;
  }));
}

TEST_CASE("without rank 0 the others say where they looked") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  const auto created = ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(200ms));
  REQUIRE_FALSE(created.ok());
  CHECK(created.status().code() == StatusCode::kTimeout);
  CHECK(has(created.status().message(), address));
  CHECK(has(created.status().message(), "refused"));
  CHECK(has(created.status().message(), "HORING_RENDEZVOUS (or MASTER_ADDR"));
  // Who meets without those says what to do instead.
  Rendezvous own = at(address, 1, 2);
  own.remedy = "look at the other end";
  const auto again = ControlPlane::create(own, key_of(), deadline_after(200ms));
  CHECK(has(again.status().message(), "; look at the other end"));
  CHECK_FALSE(has(again.status().message(), "HORING_RENDEZVOUS"));
}

namespace {

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

TEST_CASE("ranks of another key than rank 0's say so, and rank 0 too, and goes on") {
  const bool through_file = GENERATE(false, true);
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-keys-" + std::to_string(::getpid()));
  for (const Keys& keys : keys_that_differ()) {
    const ReservedPort reserved;
    const std::string address = through_file ? "file://" + path : reserved.text();
    CaughtStderr caught;
    auto first = std::async(std::launch::async, [&] {
      return ControlPlane::create(at(address, 0, 4), keys.first, deadline_after(kFar));
    });
    // Who has a key waits for a proof of it until its deadline.
    std::vector<Status> others;
    for (const uint32_t rank : {1U, 2U}) {
      others.push_back(keys.others->authenticated()
                           ? end_without_proof(at(address, rank, 4), keys.others)
                           : create_all({{at(address, rank, 4), keys.others, kFar}})[0].status());
    }
    const Status at_deadline = end_by_timeout(address, keys.first, first);
    const std::string said = caught.end();
    for (size_t i = 0; i < others.size(); ++i) {
      const Status& status = others[i];
      INFO(address << ", rank " << i + 1 << ": " << status.message());
      CHECK(status.code() == StatusCode::kUnauthenticated);
      CHECK(has(status.message(), keys.said));
      CHECK(has(status.message(), "set HORING_JOB_KEY"));
      CHECK(has(status.message(), "server is rank 0"));
      CHECK_FALSE(shows_a_secret(status.message()));
    }
    INFO(at_deadline.message());
    INFO(said);
    CHECK(at_deadline.code() == StatusCode::kUnauthenticated);
    CHECK(has(at_deadline.message(), "2 of 4 ranks arrived"));
    CHECK(has(at_deadline.message(), "missing: ranks 1, 2"));
    for (const std::string rank : {"rank 1 (", "rank 2 ("}) {
      CHECK(has(at_deadline.message(), rank));
      CHECK(has(said, "[warning] rendezvous: " + rank));
    }
    // Behind a file it comes from an address of this host.
    CHECK(
        has(at_deadline.message(),
            std::string(through_file ? "" : "from 127.0.0.1") + " was refused for the job key: "));
    CHECK(has(at_deadline.message(), keys.said));
    CHECK(has(said, "was refused for the job key: "));
    CHECK(has(said, "the rendezvous of the others goes on"));
    CHECK_FALSE(shows_a_secret(at_deadline.message() + said));
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("who cannot prove the key changes nothing for those who can") {
  // A stranger as the one rank that is missing; ranks of a second job at the same port, also as
  // ranks that are here, and of another number of ranks.
  const auto strangers = GENERATE(std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}},
                                  std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}, {0, 2}},
                                  std::vector<std::pair<uint32_t, uint32_t>>{{1, 3}, {2, 3}});
  const ReservedPort reserved;
  const std::string address = reserved.text();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(address, 0, 2), key_of(), deadline_after(kFar));
  });
  for (const auto& [rank, world_size] : strangers) {
    if (rank > 0) {
      const Status stranger = end_without_proof(at(address, rank, world_size),
                                                key_of("quite another secret of some length"));
      INFO(stranger.message());
      CHECK(stranger.code() == StatusCode::kUnauthenticated);
    } else {
      // Its rank 0 finds the port taken.
      const auto stranger = ControlPlane::create(at(address, rank, world_size),
                                                 key_of("quite another secret of some length"),
                                                 deadline_after(kFar));
      INFO(stranger.status().message());
      CHECK(stranger.status().code() == StatusCode::kSystem);
      CHECK(has(stranger.status().message(), "choose a free port"));
    }
  }
  // Longer than rank 0 thinks twice where it has reason to give up.
  std::this_thread::sleep_for(800ms);
  const auto second = ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(kFar));
  INFO(second.status().message());
  CHECK(second.ok());
  CHECK(first.get().ok());
}

TEST_CASE("a file that another job left ends nothing while rank 0 may still replace it") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("horing-stale-" + std::to_string(::getpid()));
  const ReservedPort other_port;
  // That job is larger, and waits for ranks of its own.
  auto other_job = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(other_port.text(), 0, 9),
                                key_of("quite another secret of some length"),
                                deadline_after(3s));
  });
  leave_file(path, other_port.port());
  const auto come = [&path](uint32_t rank) {
    return std::async(std::launch::async, [&path, rank] {
      return ControlPlane::create(at("file://" + path, rank, 2), key_of(), deadline_after(kFar));
    });
  };
  auto second = come(1);
  CHECK(second.wait_for(1500ms) == std::future_status::timeout);
  auto first = come(0);
  CHECK(second.get().ok());
  CHECK(first.get().ok());
  CHECK(other_job.get().status().code() == StatusCode::kTimeout);
}

TEST_CASE("without a key an address that is not loopback is told why it may not enter") {
  const Fd reserved = reserve_port(SocketAddress::numeric("0.0.0.0", 0).value()).value();
  const uint16_t port = local_address(reserved.get())->port();
  std::string host;
  const auto addresses = interface_addresses(port);
  for (const SocketAddress& address : *addresses) {
    host = host.empty() && !address.is_loopback() && address.family() == AF_INET ? address.host()
                                                                                 : host;
  }
  if (host.empty()) {
    WARN("this host has loopback only");
    return;
  }
  const std::string address = "tcp://" + host + ":" + std::to_string(port);
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
    CHECK(with_more_time(1s, [&](std::chrono::milliseconds time) {
      const auto created = create_all(
          {{at(address, 0, 2), each.first, time}, {at(address, 1, 2), each.second, 3 * time}});
      const Status first = created[0].status();
      const Status second = created[1].status();
      if (second.code() == StatusCode::kTimeout) {
        return false;  // it came when rank 0 had given up
      }
      INFO(first.message() << "\n" << second.message());
      CHECK(first.code() == StatusCode::kUnauthenticated);
      CHECK(has(first.message(), each.said_to_first));
      CHECK((second.code() == StatusCode::kUnauthenticated ||
             second.code() == StatusCode::kMismatch));
      CHECK(has(second.message(), each.said_to_second));
      return true;
    }));
  }
  // Without rank 0 there is nobody to tell.
  const auto alone = ControlPlane::create(at(address, 1, 2), none, deadline_after(kFar));
  CHECK(alone.status().code() == StatusCode::kUnauthenticated);
  CHECK(has(alone.status().message(), no_key));
}

TEST_CASE("a duplicate rank and another world size end the rendezvous at once, naming both sides") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  const auto come = [&](uint32_t rank, uint32_t world_size) {
    return std::async(std::launch::async, [&address, rank, world_size] {
      return ControlPlane::create(at(address, rank, world_size), key_of(), deadline_after(kFar));
    });
  };
  auto first = come(0, 4);
  std::vector<std::future<Created>> twins;
  twins.push_back(come(1, 4));
  twins.push_back(come(1, 4));
  size_t double_one = 0;
  while (twins[double_one].wait_for(10ms) != std::future_status::ready) {
    double_one = 1 - double_one;
  }
  // Two ranks may be missing until this one has come: rank 3 never comes.
  const Status other_world = come(2, 5).get().status();
  CHECK(other_world.code() == StatusCode::kMismatch);
  CHECK(has(other_world, "world size of 4"));
  CHECK(has(other_world, "with 5"));
  const Status refused = twins[double_one].get().status();
  const Status waited = twins[1 - double_one].get().status();
  for (const Status& status : {refused, waited, first.get().status()}) {
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(has(status, "rank 1 has come twice"));
    CHECK(has(status, "its own rank (RANK)"));
  }
  CHECK_FALSE(has(refused, "missing:"));
  CHECK(has(waited, "2 of 4 ranks arrived"));
  CHECK(has(waited, "missing: ranks 2, 3"));
}

TEST_CASE("a doubled rank alone, or a world size alone, ends the rendezvous at once") {
  const bool doubled = GENERATE(false, true);
  const ReservedPort reserved;
  const std::string address = reserved.text();
  const auto created =
      create_all({{at(address, 0, 3), key_of(), kFar},
                  {at(address, 1, 3), key_of(), kFar},
                  {doubled ? at(address, 1, 3) : at(address, 2, 5), key_of(), kFar}});
  for (const Created& one : created) {
    INFO(one.status().message());
    CHECK(one.status().code() == StatusCode::kMismatch);
    CHECK(has(one.status().message(), doubled ? "has come twice" : "(WORLD_SIZE)"));
  }
}

TEST_CASE("a process of another world does not end a rendezvous that can still come about") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(address, 0, 3), key_of(), deadline_after(kFar));
  });
  const auto other = ControlPlane::create(at(address, 1, 7), key_of(), deadline_after(kFar));
  CHECK(other.status().code() == StatusCode::kMismatch);
  // Were rank 2 here first, nobody would be expected any more, and rank 1 had to be quick.
  const auto right = come_as(
      reserved.port(),
      key_of(),
      {.rank = 1, .world_size = 3, .pid = 4711, .timeout_ms = 120'000, .host = "elsewhere"});
  CHECK(right.second.ok());
  CHECK(ControlPlane::create(at(address, 2, 3), key_of(), deadline_after(kFar)).ok());
  CHECK(first.get().ok());
}

TEST_CASE("garbage connections do not disturb the job") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  auto first = std::async(std::launch::async, [&] {
    return ControlPlane::create(at(address, 0, 2), key_of(), deadline_after(kFar));
  });
  std::vector<Fd> garbage;
  for (int i = 0; i < 300; ++i) {  // more than may be pending
    Fd fd = raw_connection(reserved.port());
    REQUIRE(fd.valid());
    const std::string text = i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : i % 3 == 1 ? "HOR" : "";
    REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0);
    garbage.push_back(std::move(fd));
  }
  const auto second = ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(kFar));
  INFO(second.status().message());
  CHECK(second.ok());
  CHECK(first.get().ok());
}

namespace {

// Less than a rank waits for an answer after its deadline.
constexpr std::chrono::milliseconds kQuick = 500ms;

// Rank 0 as it is on a host that is slow: lets the rank in `late` after it came, and answers when
// it sees that rank's deadline pass. False: later than that rank waits for it.
bool slow_rank_0(const Fd& listener, std::chrono::milliseconds late) {
  Fd fd;
  while (!fd.valid()) {
    auto accepted = accept_from(listener.get()).value();
    fd = accepted.has_value() ? std::move(accepted->fd) : Fd();
    std::this_thread::sleep_for(1ms);
  }
  const auto handshake = Handshake::server(key_of(), "control");
  bool accepted = false;
  Deadline let_in;
  while (!handshake->done()) {
    const auto output = handshake->output();
    if (!output.empty()) {
      handshake->sent(
          static_cast<size_t>(::send(fd.get(), output.data(), output.size(), MSG_NOSIGNAL)));
    } else if (handshake->needs_decision() && !accepted) {
      std::this_thread::sleep_for(late);
      let_in = Clock::now();
      handshake->accept();
      accepted = true;
    } else {
      std::array<std::byte, 1024> chunk{};
      const ssize_t got = ::recv(fd.get(), chunk.data(), handshake->wanted(), MSG_DONTWAIT);
      if (got == 0) {
        return false;
      }
      if (got > 0) {
        (void)handshake->consume(std::span(chunk).first(static_cast<size_t>(got)));
      }
      std::this_thread::sleep_for(1ms);
    }
  }
  const auto who = wire::decode<wire::RankClaim>(handshake->claim()).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(who.timeout_ms));
  ControlConnection connection(std::move(fd));
  connection.queue(wire::Type::kRefusal,
                   0,
                   ControlConnection::body_of(wire::encode(wire::Outcome{
                       StatusCode::kTimeout, "1 of 3 ranks arrived; missing: rank 2"})));
  const bool sent = connection.send_some().ok();
  return sent && Clock::now() < let_in + std::chrono::milliseconds(who.timeout_ms) + kQuick;
}

}  // namespace

TEST_CASE("a rank hears who is missing also from a rank 0 that was slow to let it in") {
  Status heard;
  bool in_time = false;
  for (int attempt = 0; attempt < kAttempts && !in_time; ++attempt) {
    const Fd listener = listen_on(SocketAddress::numeric("127.0.0.1", 0).value()).value();
    const std::string address =
        "tcp://127.0.0.1:" + std::to_string(local_address(listener.get())->port());
    auto rank_0 = std::async(std::launch::async, [&] { return slow_rank_0(listener, 1200ms); });
    heard = ControlPlane::create(at(address, 1, 3), key_of(), deadline_after(2500ms)).status();
    in_time = rank_0.get();
  }
  CHECK(has(heard, "missing: rank 2"));
}

TEST_CASE("two worlds one after the other may use the same place") {
  const ReservedPort reserved;
  const std::string address = reserved.text();
  for (int round = 0; round < 3; ++round) {
    const auto planes = world(2, address);
    CHECK(planes.size() == 2);
  }
}
