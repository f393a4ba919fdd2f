// The owning wrappers of memory against the kernel, within one thread.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "catch.hpp"
#include "os/event_fd.hpp"
#include "os/peer_memory.hpp"
#include "os/private_memory.hpp"
#include "os/random_bytes.hpp"
#include "os/shared_memory.hpp"

namespace {

using ho::Fd;
using ho::RemoteRange;
using ho::SharedMemory;
using ho::StatusCode;

Fd duplicate(int fd) {
  return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
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
