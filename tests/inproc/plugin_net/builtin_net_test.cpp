// The builtin network through the suite of all drivers, and what only it promises: a descriptor to
// sleep on, and constant memory.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "core/builtin/devices.hpp"
#include "core/builtin/listener.hpp"
#include "core/driver/process_text.hpp"
#include "has.hpp"
#include "port_block.hpp"
#include "scoped_variable.hpp"

namespace ho::plugin::conformance {

std::unique_ptr<NetDriver> make_under_test(const BuiltinCase& options) {
  return make_builtin(options);
}

namespace {

TEST_CASE("the builtin network passes the suite over one connection") {
  run_suite(builtin_under_test({}));
}

TEST_CASE("the builtin network passes the suite over four connections") {
  BuiltinCase options;
  options.connections = 4;
  run_suite(builtin_under_test(options));
}

TEST_CASE("the builtin network passes the suite over IPv6 with a job key") {
  BuiltinCase options;
  options.address = "::1";
  options.secret = "a secret of this test's own";
  run_suite(builtin_under_test(options));
}

// A window of requests at one end of a comm, driven by repeating all that may get further.
struct UnderWay {
  static constexpr size_t kRequests = 32;
  std::array<void*, kRequests> requests{};
  uint64_t begun = 0;
  uint64_t ended = 0;

  // Posts and tests until nothing gets further; true when all are done.
  [[nodiscard]] Result<bool> turn(End& end,
                                  uint64_t total,
                                  const std::function<Result<void*>(uint64_t)>& post) {
    bool moved = true;
    while (moved && ended < total) {
      moved = false;
      while (begun < total && begun < ended + kRequests) {
        HORING_ASSIGN(void* const request, post(begun));
        if (request == nullptr) {
          break;
        }
        requests.at(begun++ % kRequests) = request;
        moved = true;
      }
      while (ended < begun) {
        HORING_ASSIGN(const bool done, end.test(requests.at(ended % kRequests)));
        if (!done) {
          break;
        }
        ++ended;
        moved = true;
      }
    }
    return ended == total;
  }
};

using Wait = std::function<Status(void* comm)>;

// Moves `total` messages of 8 bytes that count up.
std::string move_small(Pair& pair, uint64_t total, const Wait& wait) {
  return run_both(
      [&]() -> Status {
        End end(*pair.net, pair.send);
        UnderWay under_way;
        std::array<uint64_t, UnderWay::kRequests> data{};
        while (true) {
          HORING_ASSIGN(const bool all, under_way.turn(end, total, [&](uint64_t i) {
            uint64_t& word = data.at(i % data.size());
            word = i;
            return end.try_send(reinterpret_cast<const std::byte*>(&word), sizeof word, 0);
          }));
          if (all) {
            return {};
          }
          HORING_TRY(wait(pair.send));
        }
      },
      [&]() -> Status {
        End end(*pair.net, pair.receive);
        UnderWay under_way;
        std::array<uint64_t, UnderWay::kRequests> buffers{};
        uint64_t checked = 0;
        while (true) {
          const auto check = [&]() -> Status {
            for (; checked < under_way.ended; ++checked) {
              if (buffers.at(checked % buffers.size()) != checked) {
                return {StatusCode::kInternal, "message " + std::to_string(checked) + " differs"};
              }
            }
            return {};
          };
          HORING_ASSIGN(
              const bool all, under_way.turn(end, total, [&](uint64_t i) -> Result<void*> {
                HORING_TRY(check());
                uint64_t& buffer = buffers.at(i % buffers.size());
                return end.try_receive({{reinterpret_cast<std::byte*>(&buffer), sizeof buffer, 0}});
              }));
          HORING_TRY(check());
          if (all) {
            return {};
          }
          HORING_TRY(wait(pair.receive));
        }
      });
}

// Open sockets of this process whose packets carry that class.
size_t sockets_of_class(int traffic_class) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int four = 0;
    int six = 0;
    socklen_t size = sizeof four;
    const bool is_four = ::getsockopt(fd, IPPROTO_IP, IP_TOS, &four, &size) == 0;
    size = sizeof six;
    const bool is_six = ::getsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &six, &size) == 0;
    count += (is_four && four == traffic_class) || (is_six && six == traffic_class) ? 1U : 0U;
  }
  return count;
}

size_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident;
}

void check_constant_memory(uint64_t total) {
  const auto net = make_builtin({});
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  const auto poll_on = [](void*) {
    std::this_thread::yield();
    return Status();
  };
  REQUIRE(move_small(pair, 20000, poll_on) == "");
  const size_t before = resident_pages();
  REQUIRE(move_small(pair, total, poll_on) == "");
  // Sanitizers keep books of their own.
  if (scaled(total) == total) {
    REQUIRE(resident_pages() <= before + 256);
  }
}

TEST_CASE("builtin net: a million small messages take constant memory") {
  check_constant_memory(scaled(1'000'000));
}

TEST_CASE("builtin net: ten million small messages take constant memory", "[.long]") {
  check_constant_memory(10'000'000);
}

TEST_CASE("builtin net: a thread that only sleeps on the descriptor misses nothing") {
  BuiltinCase options;
  options.connections = GENERATE(1U, 3U);
  const auto net = make_builtin(options);
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  if (GENERATE(false, true)) {
    net->promise_order(pair.send);
    net->promise_order(pair.receive);
  }
  const auto sleeps = [&](void* comm) { return sleep_on(*net, comm); };
  REQUIRE(move_small(pair, scaled(options.connections == 1 ? 1'000'000 : 200'000), sleeps) == "");
}

// Messages of several megabytes need many wake-ups each, at both ends.
TEST_CASE("builtin net: a sleeper moves large messages too") {
  const auto net = make_builtin({});
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  constexpr size_t kBytes = size_t{20} << 20U;
  const auto drive = [&](void* comm, const std::function<Result<void*>()>& post) -> Status {
    End end(*net, comm);
    void* request = nullptr;
    for (bool done = false; !done;) {
      if (request == nullptr) {
        HORING_ASSIGN(request, post());
      }
      if (request != nullptr) {
        HORING_ASSIGN(done, end.test(request));
      }
      HORING_TRY(done ? Status() : sleep_on(*net, comm));
    }
    return {};
  };
  const auto data = pattern(5, kBytes);
  std::vector<std::byte> buffer(kBytes);
  REQUIRE(run_both(
              [&] {
                return drive(pair.send,
                             [&] { return End(*net, pair.send).try_send(data.data(), kBytes, 0); });
              },
              [&] {
                return drive(pair.receive, [&] {
                  return End(*net, pair.receive).try_receive({{buffer.data(), kBytes, 0}});
                });
              }) == "");
  REQUIRE(check_pattern(5, buffer.data(), kBytes).message() == "");
}

// The peer's news come while there is nothing to do with them.
TEST_CASE("builtin net: what has been looked at wakes nobody again") {
  const auto net = make_builtin({});
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  End sender(*net, pair.send);
  End receiver(*net, pair.receive);
  for (void* const comm : {pair.send, pair.receive}) {
    REQUIRE(net->progress_fd(comm) >= 0);
  }
  std::array<std::byte, 8> buffer{};
  const auto request = receiver.try_receive({{buffer.data(), buffer.size(), 0}});
  REQUIRE(request.ok());
  REQUIRE(*request != nullptr);
  REQUIRE(net->has_pending(pair.receive));
  net->look(pair.receive);
  // The buffer is announced to the sender, which sends nothing.
  pollfd waiting{net->progress_fd(pair.send), POLLIN, 0};
  REQUIRE(::poll(&waiting, 1, 20'000) == 1);
  net->look(pair.send);
  REQUIRE_FALSE(net->has_pending(pair.send));
  REQUIRE(::poll(&waiting, 1, 0) == 0);
  // Sent and received: once all is told and looked at, both descriptors are silent.
  const auto sent = sender.try_send(buffer.data(), buffer.size(), 0);
  REQUIRE(sent.ok());
  REQUIRE(*sent != nullptr);
  REQUIRE(net->has_pending(pair.send));
  net->look(pair.send);
  bool done = false;
  while (!done) {
    REQUIRE(sleep_on(*net, pair.receive).message() == "");
    done = *receiver.test(*request);
  }
  REQUIRE(*sender.test(*sent));
  for (void* const comm : {pair.send, pair.receive}) {
    net->look(comm);
    waiting.fd = net->progress_fd(comm);
    REQUIRE_FALSE(net->has_pending(comm));
    REQUIRE(::poll(&waiting, 1, 0) == 0);
  }
}

// Prints, asserts nothing about time: what one core moves depends on the machine.
TEST_CASE("builtin net: large messages are moved, and their rate is printed", "[.rate]") {
  BuiltinCase options;
  options.connections = GENERATE(1U, 4U);
  const auto net = make_builtin(options);
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  constexpr size_t kBytes = size_t{4} << 20U;
  constexpr uint64_t kMessages = 1000;
  const std::vector<std::byte> data(kBytes);
  std::vector<std::byte> buffer(kBytes);
  const auto move = [&](void* comm, const std::function<Result<void*>(End&)>& post) -> Status {
    End end(*net, comm);
    std::array<void*, 4> under_way{};
    for (uint64_t i = 0; i < kMessages + under_way.size(); ++i) {
      void*& slot = under_way.at(i % under_way.size());
      if (i >= under_way.size()) {
        HORING_TRY(end.finish(slot).status());
      }
      if (i < kMessages) {
        HORING_ASSIGN(slot, post(end));
      }
    }
    return {};
  };
  const int64_t begin_ns = now_ns();
  const std::clock_t begin_cpu = std::clock();
  const std::string errors = run_both(
      [&] { return move(pair.send, [&](End& end) { return end.send(data.data(), kBytes, 0); }); },
      [&] {
        return move(pair.receive, [&](End& end) {
          return end.receive({{buffer.data(), kBytes, 0}});
        });
      });
  const double seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  const double cpu = static_cast<double>(std::clock() - begin_cpu) / CLOCKS_PER_SEC;
  REQUIRE(errors == "");
  const double gigabytes = static_cast<double>(kBytes * kMessages) * 1e-9;
  WARN(options.connections << " streams: " << gigabytes / seconds << " GB/s, both ends together "
                           << gigabytes / cpu << " GB per second of processor time");
}

TEST_CASE("builtin net: a traffic class is on the connection's packets") {
  BuiltinCase options;
  options.address = GENERATE("127.0.0.1", "::1");
  const auto net = make_builtin(options);
  const size_t before = sockets_of_class(104);
  SECTION("the class of a connection is on its sending end") {
    Pair pair(*net);
    pair.traffic_class = 104;
    REQUIRE(pair.connect().message() == "");
    REQUIRE(sockets_of_class(104) == before + 1);  // the accepting end was not told
  }
  SECTION("the class of a communicator is on both ends") {
    Pair pair(*net);
    pair.opening.traffic_class = 104;
    REQUIRE(pair.connect().message() == "");
    REQUIRE(sockets_of_class(104) == before + 2);
  }
  SECTION("no class is on the packets by default") {
    Pair pair(*net);
    REQUIRE(pair.connect().message() == "");
    REQUIRE(sockets_of_class(104) == before);
  }
}

TEST_CASE("builtin net: a traffic class that IP has no room for is refused") {
  const auto net = make_builtin({});
  NetDriver::Opening opening;
  opening.traffic_class = 256;
  void* context = nullptr;
  REQUIRE(net->open(opening, &context) == Reply::kInvalidArgument);
  REQUIRE(context == nullptr);
  std::array<std::byte, kHandleBytes> handle{};
  void* comm = nullptr;
  REQUIRE(net->connect(nullptr, 0, 1000, handle.data(), &comm, nullptr) == Reply::kInvalidArgument);
}

// Faster than the pace is impossible; slower, on a busy machine, is no fault.
TEST_CASE("builtin net: sends keep to the pace of their rail, polled and asleep") {
  BuiltinCase options;
  options.pace_mbit = 100;
  options.connections = GENERATE(1U, 3U);
  const bool asleep = GENERATE(false, true);
  const auto net = make_builtin(options);
  Pair pair(*net);
  REQUIRE(pair.connect().message() == "");
  constexpr size_t kBytes = 1'000'000;
  const auto wait = [&](void* comm) { return asleep ? sleep_on(*net, comm) : Status(); };
  const auto drive = [&](void* comm, const std::function<Result<void*>()>& post) -> Status {
    End end(*net, comm);
    void* request = nullptr;
    for (bool done = false; !done;) {
      if (request == nullptr) {
        HORING_ASSIGN(request, post());
      }
      if (request != nullptr) {
        HORING_ASSIGN(done, end.test(request));
      }
      HORING_TRY(done ? Status() : wait(comm));
    }
    return {};
  };
  const auto data = pattern(6, kBytes);
  std::vector<std::byte> buffer(kBytes);
  const int64_t begin_ns = now_ns();
  REQUIRE(run_both(
              [&] {
                return drive(pair.send,
                             [&] { return End(*net, pair.send).try_send(data.data(), kBytes, 0); });
              },
              [&] {
                return drive(pair.receive, [&] {
                  return End(*net, pair.receive).try_receive({{buffer.data(), kBytes, 0}});
                });
              }) == "");
  REQUIRE(check_pattern(6, buffer.data(), kBytes).message() == "");
  // 80 ms, less what may leave at once.
  REQUIRE(now_ns() - begin_ns > 70'000'000);
}

TEST_CASE("builtin net: a driver answers for its devices, memory and contexts") {
  const auto net = make_builtin({});
  int32_t count = 0;
  REQUIRE(net->device_count(&count) == Reply::kSuccess);
  REQUIRE(count == 1);
  DeviceProperties properties;
  REQUIRE(net->properties(0, &properties) == Reply::kSuccess);
  REQUIRE(properties.max_recvs == 8);
  REQUIRE(properties.speed_mbps >= 1000);
  REQUIRE(net->properties(1, &properties) == Reply::kInvalidArgument);
  REQUIRE(net->properties(-1, &properties) == Reply::kInvalidArgument);
  void* memory = nullptr;
  REQUIRE(net->register_memory(nullptr, &count, 4, kHostMemory, &memory) == Reply::kSuccess);
  REQUIRE(memory != nullptr);
  REQUIRE(net->deregister(nullptr, memory) == Reply::kSuccess);
  REQUIRE(net->register_memory(nullptr, &count, 4, kCudaMemory, &memory) == Reply::kInvalidUsage);
  REQUIRE(net->register_dma_buf(nullptr, {&count, 4, kHostMemory, 0, -1}, &memory) ==
          Reply::kInvalidUsage);
  void* request = &count;
  REQUIRE(net->iflush(nullptr, {0, nullptr, nullptr, nullptr}, &request) == Reply::kSuccess);
  REQUIRE(request == nullptr);
  void* one = nullptr;
  void* two = nullptr;
  REQUIRE(net->open({}, &one) == Reply::kSuccess);
  REQUIRE(net->open({}, &two) == Reply::kSuccess);
  REQUIRE(one != two);
  REQUIRE(net->close(one) == Reply::kSuccess);
  std::array<std::byte, kHandleBytes> handle{};
  void* listener = nullptr;
  REQUIRE(net->listen(one, 0, handle.data(), &listener) == Reply::kInvalidArgument);
  REQUIRE(net->listen(two, 0, handle.data(), &listener) == Reply::kSuccess);
  REQUIRE(net->close(two) == Reply::kSuccess);
  REQUIRE(net->close(nullptr) == Reply::kSuccess);
}

TEST_CASE("builtin net: listeners take HORING_PORT_RANGE, and one that finds no port says so") {
  const auto device = make_device("lo", "host", "127.0.0.1", "");
  const auto open = [&device] {
    return Listener::open(device, *JobKey::none(false), NetOptions{});
  };
  const uint16_t port = test::free_ports(1);
  const test::ScopedVariable range("HORING_PORT_RANGE", test::range_text(port, 1));
  {
    const auto only = open();
    REQUIRE(only.status().message() == "");
    REQUIRE((*only)->handle().port == port);
    REQUIRE(has(open().status(), "HORING_PORT_RANGE=" + test::range_text(port, 1)));
  }
  REQUIRE(open().ok());
}

TEST_CASE("builtin net: a listener's handle names rank and host, however long other names are") {
  const test::ScopedVariable rank("RANK", "1");
  const test::ScopedVariable host_id("NCCL_HOSTID", "a-name-that-leaves-no-room-for-the-host-1");
  const auto listener = Listener::open(
      make_device("lo", "host", "127.0.0.1", ""), *JobKey::none(false), NetOptions{});
  REQUIRE(listener.ok());
  std::array<std::byte, kHandleBytes> bytes{};
  encode((*listener)->handle(), bytes);
  const auto reported = decode_handle(bytes);
  REQUIRE(reported.ok());
  std::array<char, 256> host{};
  REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
  REQUIRE(reported->who == on_host_text("RANK 1", host.data(), "", kMaxWhoBytes));
}

}  // namespace
}  // namespace ho::plugin::conformance
