// The owning wrappers against the kernel, within one process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <numeric>

#include "catch.hpp"
#include "os/event_fd.hpp"
#include "os/fd_passing.hpp"
#include "os/futex.hpp"
#include "os/peer_memory.hpp"
#include "os/private_memory.hpp"
#include "os/random_bytes.hpp"
#include "os/shared_memory.hpp"
#include "os/socket.hpp"

namespace {

using ho::Fd;
using ho::RemoteRange;
using ho::SharedMemory;
using ho::StatusCode;

ho::Deadline soon() {
  return ho::deadline_after(std::chrono::seconds(10));
}

Fd duplicate(int fd) {
  return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
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

TEST_CASE("two mappings of one memory file show the same bytes") {
  auto own = SharedMemory::create("test", 8192);
  REQUIRE(own.ok());
  auto other = SharedMemory::attach(duplicate(own->fd()), 8192);
  REQUIRE(other.ok());
  REQUIRE(own->bytes().data() != other->bytes().data());
  CHECK(own->bytes()[8191] == std::byte{0});
  own->bytes()[8191] = std::byte{7};
  CHECK(other->bytes()[8191] == std::byte{7});
  own->close_fd();
  own->bytes()[0] = std::byte{9};
  CHECK(other->bytes()[0] == std::byte{9});
}

TEST_CASE("memory of another size, or that could shrink, is refused") {
  const auto own = SharedMemory::create("test", 8192);
  REQUIRE(own.ok());
  CHECK(SharedMemory::attach(duplicate(own->fd()), 4096).status().code() == StatusCode::kProtocol);
  CHECK(SharedMemory::attach(duplicate(own->fd()), 16384).status().code() == StatusCode::kProtocol);
  CHECK(::ftruncate(own->fd(), 0) != 0);
  Fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), 8192) == 0);
  // CHECK names its expression twice, and evaluates it once.
  // NOLINTNEXTLINE(bugprone-use-after-move)
  CHECK(SharedMemory::attach(std::move(loose), 8192).status().code() == StatusCode::kProtocol);
  CHECK_FALSE(SharedMemory::attach(Fd(), 8192).ok());
}

TEST_CASE("an event fd counts rings and resets") {
  const auto event = ho::EventFd::create();
  REQUIRE(event.ok());
  CHECK(event->drain() == 0);
  event->ring();
  event->ring();
  CHECK(event->drain() == 2);
  CHECK(event->drain() == 0);
}

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

TEST_CASE("ranges of a process are read into ranges of another cut") {
  std::vector<std::byte> source(1000);
  REQUIRE(ho::fill_random(source).ok());
  const std::span<const std::byte> from(source);
  const std::array<RemoteRange, 3> ranges{
      range_of(from.first(300)), range_of(from.subspan(300, 0)), range_of(from.subspan(300))};
  std::vector<std::byte> target(1000);
  const std::span<std::byte> into(target);
  const std::array<std::span<std::byte>, 3> parts{
      into.first(1), into.subspan(1, 600), into.subspan(601)};
  REQUIRE(ho::read_peer_memory(::getpid(), ranges, parts).ok());
  CHECK(source == target);
  CHECK(ho::read_peer_memory(::getpid(), {}, {}).ok());
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
  CHECK(*ho::peer_uid(*called) == ::geteuid());

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

TEST_CASE("nobody listens, a name that is too long, a full queue") {
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
    const auto listener = ho::listen_on(address, 8);
    INFO(listener.status().message());
    REQUIRE(listener.ok());
    CHECK(connects());
  }
  CHECK_FALSE(connects());
  reserved.reset();
  CHECK(taken());
}

TEST_CASE("private memory is zeros, moves with its owner and goes back to the kernel") {
  constexpr size_t kBytes = size_t{3} << 20U;
  CHECK(ho::PrivateMemory().bytes().empty());
  CHECK_FALSE(ho::PrivateMemory::create(0).ok());
  auto made = ho::PrivateMemory::create(kBytes);
  REQUIRE(made.ok());
  const std::span<std::byte> bytes = made->bytes();
  REQUIRE(bytes.size() == kBytes);
  CHECK(
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{}; }));
  const auto is_mapped = [bytes] {
    unsigned char in_memory = 0;
    return ::mincore(bytes.data(), 1, &in_memory) == 0;
  };
  {
    ho::PrivateMemory other;
    other = *std::move(made);
    CHECK(other.bytes().data() == bytes.data());
    const ho::PrivateMemory last(std::move(other));
    CHECK(last.bytes().size() == kBytes);
    CHECK(is_mapped());
  }
  CHECK_FALSE(is_mapped());
}

TEST_CASE("an interface's state is known by its name") {
  CHECK(ho::interface_state("lo") == ho::InterfaceState::kUp);
  CHECK(ho::interface_state("") == ho::InterfaceState::kUnknown);
  CHECK(ho::interface_state("nosuchrail") == ho::InterfaceState::kUnknown);
  CHECK(ho::interface_state("a name that is too long for any") == ho::InterfaceState::kUnknown);
}
