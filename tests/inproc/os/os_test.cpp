// The owning wrappers of descriptors, sockets and waits against the kernel.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "base/text_file.hpp"
#include "catch.hpp"
#include "os/close_on_fork.hpp"
#include "os/fd_passing.hpp"
#include "os/futex.hpp"
#include "os/peer_memory.hpp"
#include "os/process_watch.hpp"
#include "os/random_bytes.hpp"
#include "os/shared_memory.hpp"
#include "os/socket.hpp"
#include "os/written_file.hpp"
#include "temporary_folder.hpp"

namespace {

using ho::Fd;
using ho::RemoteRange;
using ho::SharedMemory;
using ho::StatusCode;

// Nothing waits for it but what would hang.
ho::Deadline soon() {
  return ho::deadline_after(std::chrono::minutes(2));
}

std::string random_name() {
  std::array<std::byte, 8> bytes{};
  REQUIRE(ho::fill_random(bytes).ok());
  std::string name = "horing-test-";
  for (const std::byte byte : bytes) {
    name += std::to_string(std::to_integer<int>(byte));
  }
  return name;
}

RemoteRange range_of(std::span<const std::byte> bytes) {
  return {static_cast<uint64_t>(reinterpret_cast<uintptr_t>(bytes.data())), bytes.size()};
}

}  // namespace

TEST_CASE("a futex wait ends where the word differs, and at its deadline") {
  const std::atomic<uint32_t> word{5};
  CHECK(ho::futex_wait(word, 4, ho::Deadline::max()) == ho::FutexResult::kChanged);
  const auto deadline = ho::deadline_after(std::chrono::milliseconds(5));
  while (ho::futex_wait(word, 5, deadline) != ho::FutexResult::kTimedOut) {
  }
  CHECK(ho::passed(deadline));
}

TEST_CASE("a futex wakes a sleeper in another process") {
  const auto memory = SharedMemory::create("futex", 4096);
  REQUIRE(memory.ok());
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(memory->bytes().data());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    while (word.load() == 0) {
      if (ho::futex_wait(word, 0, soon()) == ho::FutexResult::kTimedOut) {
        ::_exit(1);
      }
    }
    ::_exit(0);
  }
  word.store(1);
  ho::futex_wake(word, 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("a forked child does not hold what is closed on forks, and may close its number") {
  std::array<int, 2> ends{};
  std::array<int, 2> until{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(until.data(), O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const Fd until_reader(until[0]);
  Fd until_writer(until[1]);
  ho::CloseOnFork closed(writer.get());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    until_writer.reset();
    const int other = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    writer.reset();  // as its owner does
    const bool there = ::fcntl(other, F_GETFD) >= 0;
    std::array<char, 1> nothing{};
    ::_exit(there && ::read(until_reader.get(), nothing.data(), 1) == 0 ? 0 : 1);
  }
  closed.set(ho::CloseOnFork::kNone);
  writer.reset();
  pollfd ended{reader.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 120'000) == 1);  // the child lives
  until_writer.reset();
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("reading what is not there is an error with a reason") {
  std::vector<std::byte> target(100);
  const std::span<std::byte> into(target);
  const RemoteRange unmapped{8, 100};
  const auto fault = ho::read_peer_memory(::getpid(), {&unmapped, 1}, {&into, 1});
  CHECK(fault.code() == StatusCode::kSystem);
  CHECK(fault.message().find("process_vm_readv") != std::string::npos);
  const RemoteRange shorter{unmapped.address, 99};
  CHECK(ho::read_peer_memory(::getpid(), {&shorter, 1}, {&into, 1}).code() ==
        StatusCode::kInvalidArgument);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(0);
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  const RemoteRange own = range_of(target);
  CHECK(ho::read_peer_memory(child, {&own, 1}, {&into, 1}).code() == StatusCode::kSystem);
}

TEST_CASE("descriptors travel with their message") {
  const std::string name = random_name();
  const auto listener = ho::listen_abstract(name, 4);
  REQUIRE(listener.ok());
  REQUIRE_FALSE(ho::accept_waiting(*listener)->valid());
  const auto caller = ho::connect_abstract(name, soon());
  REQUIRE(caller.ok());
  const auto called = ho::accept_waiting(*listener);
  REQUIRE((called.ok() && called->valid()));
  CHECK(ho::peer_credentials(*called)->uid == ::geteuid());
  CHECK(ho::peer_credentials(*called)->pid == ::getpid());
  CHECK(ho::peer_credentials(*caller)->uid == ::geteuid());

  const auto memory = SharedMemory::create("passed", 4096);
  REQUIRE(memory.ok());
  memory->bytes()[1] = std::byte{42};
  const std::array<std::byte, 3> message{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::array<int, 1> fds{memory->fd()};
  REQUIRE(ho::send_with_fds(*caller, message, fds, soon()).ok());
  std::array<std::byte, 16> got{};
  auto received = ho::receive_with_fds(*called, got);
  REQUIRE(received.ok());
  CHECK(received->message_bytes == 3);
  CHECK(std::equal(message.begin(), message.end(), got.begin()));
  REQUIRE(received->fds.size() == 1);
  const auto mapped = SharedMemory::attach(std::move(received->fds[0]), 4096);
  REQUIRE(mapped.ok());
  CHECK(mapped->bytes()[1] == std::byte{42});

  REQUIRE(ho::send_with_fds(*caller, message, {}, soon()).ok());
  CHECK(ho::receive_with_fds(*called, std::span(got).first(2)).status().code() ==
        StatusCode::kProtocol);
}

TEST_CASE("who may open no more files learns that descriptors were lost, with the message") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Fd here(ends[0]);
  const Fd there(ends[1]);
  const std::array<std::byte, 3> message{};
  const std::array<int, 2> fds{here.get(), there.get()};
  REQUIRE(ho::send_with_fds(there, message, fds, soon()).ok());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit tight = before;
  const Fd next(::fcntl(here.get(), F_DUPFD_CLOEXEC, 0));
  tight.rlim_cur = static_cast<rlim_t>(next.get()) + 2;  // one of the two fits
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  std::array<std::byte, 16> got{};
  const auto received = ho::receive_with_fds(here, got);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  INFO(received.status().message());
  REQUIRE(received.ok());
  CHECK(received->fds_lost);
  CHECK(received->message_bytes == 3);
}

TEST_CASE("no listener, a name that is too long and a full queue are errors") {
  CHECK(ho::connect_abstract(random_name(), soon()).status().code() == StatusCode::kConnection);
  CHECK(ho::listen_abstract(std::string(200, 'x'), 1).status().code() ==
        StatusCode::kInvalidArgument);
  const std::string name = random_name();
  const auto listener = ho::listen_abstract(name, 1);
  REQUIRE(listener.ok());
  std::vector<Fd> callers;
  StatusCode last = StatusCode::kOk;
  for (int i = 0; i < 10 && last == StatusCode::kOk; ++i) {
    auto caller = ho::connect_abstract(name, ho::deadline_after(std::chrono::milliseconds(5)));
    last = caller.status().code();
    if (caller.ok()) {
      callers.push_back(std::move(*caller));
    }
  }
  CHECK(last == StatusCode::kTimeout);
}

TEST_CASE("numeric addresses of both families parse, names do not") {
  for (const char* text : {"10.1.0.1", "127.0.0.1", "::1", "fd00::1:2"}) {
    const auto address = ho::SocketAddress::numeric(text, 4711);
    REQUIRE(address.ok());
    REQUIRE(address->host() == text);
    REQUIRE(address->port() == 4711);
  }
  for (const char* text : {"", "localhost", "10.1.0", "10.1.0.256", "::g", "10.1.0.1:80"}) {
    REQUIRE_FALSE(ho::SocketAddress::numeric(text, 1).ok());
  }
  REQUIRE(ho::SocketAddress::numeric("fd00::1", 80)->to_string() == "[fd00::1]:80");
}

TEST_CASE("a reserved port is nobody else's, but a listener may come to it by its number") {
  const auto loopback = ho::SocketAddress::numeric("127.0.0.1", 0).value();
  ho::Fd reserved = ho::reserve_port(loopback).value();
  const auto address = ho::local_address(reserved.get()).value();
  REQUIRE(address.port() != 0);
  const auto connects = [&address] {
    const ho::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(fd.get(), address.get(), address.size_bytes()) == 0;
  };
  // As a program does that takes whatever port it is told is free.
  const auto taken = [&address] {
    const ho::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::bind(fd.get(), address.get(), address.size_bytes()) == 0;
  };
  CHECK_FALSE(connects());
  CHECK_FALSE(taken());
  CHECK(ho::local_address(ho::reserve_port(loopback)->get())->port() != address.port());
  for (int round = 0; round < 2; ++round) {  // whoever listens may leave and come again
    const auto listener = ho::listen_on(address);
    INFO(listener.status().message());
    REQUIRE(listener.ok());
    CHECK(connects());
  }
  CHECK_FALSE(connects());
  reserved.reset();
  CHECK(taken());
}

TEST_CASE("an interface's state is known by its name") {
  CHECK(ho::interface_state("lo") == ho::InterfaceState::kUp);
  CHECK(ho::interface_state("") == ho::InterfaceState::kUnknown);
  CHECK(ho::interface_state("nosuchrail") == ho::InterfaceState::kUnknown);
  CHECK(ho::interface_state("a name that is too long for any") == ho::InterfaceState::kUnknown);
}

TEST_CASE("a process has ended also before its parent asks for its status") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    write_end.reset();
    char byte = 0;
    ::_exit(::read(read_end.get(), &byte, 1) == 0 ? 0 : 1);
  }
  REQUIRE(child > 0);
  const ho::ProcessWatch watch(child);
  CHECK_FALSE(watch.ended());
  write_end.reset();
  const auto deadline = soon();
  while (!watch.ended() && !ho::passed(deadline)) {
    ::usleep(1000);
  }
  CHECK(watch.ended());
  CHECK(::waitpid(child, nullptr, 0) == child);
  CHECK(watch.ended());
  CHECK_FALSE(ho::ProcessWatch(0).ended());
}

TEST_CASE("a file is replaced whole, and nothing that is no file is touched") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("a file");
  REQUIRE(ho::check_replaceable(path).ok());
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(ho::replace_file(path, "one").ok());
  CHECK(*ho::read_text_file(path, 100) == "one");
  const Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  REQUIRE(ho::replace_file(path, "two").ok());
  std::array<char, 8> old{};
  CHECK(::read(reader.get(), old.data(), old.size()) == 3);
  CHECK(std::string(old.data()) == "one");  // who reads the old one goes on
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.root()), {}) == 1);
  std::filesystem::create_symlink(path, folder.path("link"));
  for (const std::string& other :
       {folder.path("link"), std::string("/dev/full"), folder.path("")}) {
    INFO(other);
    CHECK(ho::check_replaceable(other).message().find("no regular file") != std::string::npos);
    CHECK(ho::replace_file(other, "three").message().find("no regular file") != std::string::npos);
    CHECK_FALSE(ho::open_log_file(other).ok());
  }
  CHECK(*ho::read_text_file(path, 100) == "two");
  CHECK(std::filesystem::is_character_file("/dev/full"));
}
