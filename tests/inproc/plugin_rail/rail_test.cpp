// CollNet's calls on rails of real sockets, as NCCL makes them: many at once, monotone windows,
// tests of the oldest only, and every byte checked.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <numeric>
#include <thread>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "core/forward/forward.hpp"
#include "core/links/link_net.hpp"
#ifdef HORING_HAVE_UCX
#include "core/ucx/ucx_net.hpp"
#endif
#include "more_time.hpp"
#include "rail_job.hpp"

using namespace ho;
using namespace ho::plugin;
using namespace ho::plugin::rail_test;

namespace {

template <typename T>
T must(Result<T> result) {
  expect(result.ok(), result.status().message());
  return std::move(result).value();
}

// Memory that the rail knows.
struct Registered {
  Registered(CollComm& of, size_t bytes) : comm(of), data(bytes, std::byte{0xee}) {
    memory = must(comm.register_memory(data.data(), data.size(), kHostMemory));
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() { (void)comm.deregister(memory); }
  [[nodiscard]] CollBuffer part(size_t offset, size_t bytes) {
    return {data.data() + offset, bytes, memory};
  }
  template <typename T>
  [[nodiscard]] T* as() {
    return reinterpret_cast<T*>(data.data());
  }

  CollComm& comm;
  std::vector<std::byte> data;
  const rail::Registration* memory = nullptr;
};

template <typename Condition>
void wait_until(const std::string& what, const Condition& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    expect(std::chrono::steady_clock::now() < until, "within a minute: " + what);
    std::this_thread::yield();
  }
}

void wait_for(CollComm& comm, CollRequest& request) {
  wait_until("a call ends", [&] { return must(comm.test(request)); });
}

// Tries again until there is room, and tests only the oldest.
class Pipeline {
 public:
  Pipeline(CollComm& comm, size_t depth) : comm_(comm), depth_(depth) {}
  template <typename Call>
  void push(const Call& call) {
    while (outstanding_.size() >= depth_) {
      pop();
    }
    CollRequest* request = must(call());
    while (request == nullptr && !outstanding_.empty()) {
      pop();
      request = must(call());
    }
    // With nothing outstanding the rail's thread is about to make room.
    wait_until("there is room when nothing is outstanding",
               [&] { return request != nullptr || (request = must(call())) != nullptr; });
    outstanding_.push_back(request);
  }
  void drain() {
    while (!outstanding_.empty()) {
      pop();
    }
  }

 private:
  void pop() {
    wait_for(comm_, *outstanding_.front());
    outstanding_.pop_front();
  }
  CollComm& comm_;
  size_t depth_;
  std::deque<CollRequest*> outstanding_;
};

std::byte byte_of(uint32_t member, uint64_t offset) {
  return static_cast<std::byte>(uint64_t{member} * 37 + offset * 11 + offset / 251);
}

// All blocks, window by window.
void gather_all(Member& member, uint64_t block, uint64_t window, size_t depth) {
  const uint64_t total = block * member.members;
  Registered mine(*member.comm, block + 1);
  Registered all(*member.comm, total + 1);
  for (uint64_t i = 0; i < block; ++i) {
    mine.data[i] = byte_of(member.self, i);
  }
  Pipeline pipeline(*member.comm, depth);
  const uint64_t own_begin = block * member.self;
  for (uint64_t offset = 0; offset < total; offset += window) {
    const uint64_t bytes = std::min(window, total - offset);
    const uint64_t from = std::max(offset, own_begin);
    const uint64_t to = std::max(from, std::min(offset + bytes, own_begin + block));
    pipeline.push([&] {
      return member.comm->all_gather(
          mine.part(from < own_begin + block ? from - own_begin : 0, to - from),
          all.part(offset, bytes),
          block,
          offset);
    });
  }
  pipeline.drain();
  for (uint64_t i = 0; i < total; ++i) {
    if (all.data[i] != byte_of(static_cast<uint32_t>(i / block), i % block)) {
      throw std::runtime_error("all-gather: byte " + std::to_string(i) + " of " +
                               std::to_string(total) + " is wrong");
    }
  }
  expect(all.data[total] == std::byte{0xee}, "nothing is written beyond the end");
}

void scatter_all(Member& member, uint64_t block_count, uint64_t window_count, size_t depth) {
  const uint64_t total = block_count * member.members;
  Registered mine(*member.comm, total * 4);
  Registered result(*member.comm, block_count * 4 + 4);
  for (uint64_t i = 0; i < total; ++i) {
    mine.as<int32_t>()[i] = static_cast<int32_t>(i * 3 + uint64_t{member.self} * 1000);
  }
  Pipeline pipeline(*member.comm, depth);
  const uint64_t own_begin = block_count * member.self;
  for (uint64_t offset = 0; offset < total; offset += window_count) {
    const uint64_t count = std::min(window_count, total - offset);
    const uint64_t from = std::max(offset, own_begin);
    const uint64_t to = std::max(from, std::min(offset + count, own_begin + block_count));
    pipeline.push([&] {
      return member.comm->reduce_scatter(
          mine.part(offset * 4, count * 4),
          result.part(from < own_begin + block_count ? (from - own_begin) * 4 : 0, (to - from) * 4),
          block_count * 4,
          offset * 4,
          DType::kInt32,
          ReduceOp::kSum);
    });
  }
  pipeline.drain();
  const auto n = static_cast<int64_t>(member.members);
  for (uint64_t i = 0; i < block_count; ++i) {
    const int64_t sum = static_cast<int64_t>(own_begin + i) * 3 * n + 1000 * n * (n - 1) / 2;
    expect(result.as<int32_t>()[i] == static_cast<int32_t>(sum),
           "reduce-scatter: element " + std::to_string(i));
  }
  expect(result.data[block_count * 4] == std::byte{0xee}, "nothing is written beyond the end");
}

void reduce_all(Member& member, uint64_t count, size_t calls, bool in_place) {
  Registered mine(*member.comm, std::max<size_t>(count * calls * 4, 1));
  Registered other(*member.comm, std::max<size_t>(count * calls * 4, 1));
  Registered& result = in_place ? mine : other;
  for (uint64_t i = 0; i < count * calls; ++i) {
    mine.as<float>()[i] = static_cast<float>(i % 1000 + member.self);
  }
  Pipeline pipeline(*member.comm, 64);
  for (size_t call = 0; call < calls; ++call) {
    pipeline.push([&] {
      return member.comm->all_reduce(mine.part(call * count * 4, count * 4),
                                     result.part(call * count * 4, count * 4),
                                     count,
                                     DType::kFloat32,
                                     ReduceOp::kSum);
    });
  }
  pipeline.drain();
  const auto n = static_cast<float>(member.members);
  for (uint64_t i = 0; i < count * calls; ++i) {
    const float wanted = static_cast<float>(i % 1000) * n + n * (n - 1) / 2;
    if (result.as<float>()[i] != wanted) {
      throw std::runtime_error("all-reduce of " + std::to_string(count) + ": element " +
                               std::to_string(i) + " is " + std::to_string(result.as<float>()[i]) +
                               ", not " + std::to_string(wanted));
    }
  }
}

// A call that another member, who has gone, would have to join.
void fails_soon(Member& member) {
  Registered data(*member.comm, 400000);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Result<CollRequest*> request = member.comm->all_reduce(
      data.part(0, 400000), data.part(0, 400000), 100000, DType::kInt32, ReduceOp::kSum);
  Result<bool> done = false;
  while (request.ok() && done.ok() && !*done && std::chrono::steady_clock::now() < until) {
    done = member.comm->test(**request);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  expect(!request.ok() || !done.ok(), "an error");
  const std::string why = (request.ok() ? done.status() : request.status()).message();
  expect(why.find("rank ") != std::string::npos || why.find("member ") != std::string::npos,
         "names a member: " + why);
}

void require_errors_when_one_goes(const RailJobOptions& options) {
  const auto errors = run_rail(options, [](Member& member) {
    expect(member.connected.ok(), member.connected.message());
    reduce_all(member, 1000, 5, false);
    if (member.self == 1) {
      return;  // destroys its communicator
    }
    fails_soon(member);
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
}

RailJobOptions members(uint32_t count) {
  RailJobOptions options;
  options.members = count;
  options.rotate_handles = count / 2;
  return options;
}

}  // namespace

TEST_CASE("all-reduce is right for all counts, many at once, in place and not") {
  for (uint32_t count = 1; count <= 5; ++count) {
    require_rail(members(count), [](Member& member) {
      for (const uint64_t elements : {0U, 1U, 5U, 256U, 20011U}) {
        reduce_all(member, elements, elements > 1000 ? 10 : 100, elements % 2 == 0);
      }
    });
  }
}

TEST_CASE("all-gather is right for windows in one block, over edges and over all") {
  for (uint32_t count = 1; count <= 5; ++count) {
    require_rail(members(count), [](Member& member) {
      for (const uint64_t block : {1U, 1024U, 5000U}) {
        for (const uint64_t window : {uint64_t{700}, uint64_t{5000}, block * member.members}) {
          gather_all(member, block, window, 8);
          gather_all(member, block, window, 64);
        }
      }
    });
  }
}

TEST_CASE("reduce-scatter is right for windows in one block, over edges and over all") {
  for (uint32_t count = 1; count <= 5; ++count) {
    require_rail(members(count), [](Member& member) {
      for (const uint64_t block : {1U, 1024U, 5000U}) {
        for (const uint64_t window : {uint64_t{300}, uint64_t{2000}, block * member.members}) {
          scatter_all(member, block, window, 8);
          scatter_all(member, block, window, 64);
        }
      }
    });
  }
}

TEST_CASE("calls of all kinds follow each other without waiting") {
  require_rail(members(4), [](Member& member) {
    for (int round = 0; round < 8; ++round) {
      reduce_all(member, 100 + static_cast<uint64_t>(round) * 37, 10, false);
      gather_all(member, 3000, 900, 16);
      scatter_all(member, 800, 300, 16);
    }
  });
}

TEST_CASE("results are right in pieces that follow the size of what moves") {
  RailJobOptions options = members(3);
  options.wanted_piece_bytes = 0;
  require_rail(options, [](Member& member) {
    for (const uint64_t elements : {1000U, 70'000U, 400'001U}) {
      reduce_all(member, elements, 3, elements % 2 == 0);
    }
    gather_all(member, 700'001, 600'000, 8);
    scatter_all(member, 200'001, 150'000, 8);
    gather_all(member, 700'001, uint64_t{700'001} * member.members, 8);
  });
}

// Small ones are exchanged whole, large ones go around; what is sent is overwritten by the result.
TEST_CASE("two members reduce small and large windows in turn, in place and not") {
  for (const uint64_t piece_bytes : {uint64_t{0}, uint64_t{1024}}) {
    RailJobOptions options = members(2);
    options.wanted_piece_bytes = piece_bytes;
    require_rail(options, [](Member& member) {
      const uint64_t most = rail::kMaxExchangeBytes / 4;
      for (const uint64_t elements : {uint64_t{1}, most / 4, most, most + 1, most}) {
        reduce_all(member, elements, 20, true);
        reduce_all(member, elements, 4, false);
      }
    });
  }
}

// Any bits, also those of NaNs, whose sum keeps the bits of one of them.
std::vector<std::byte> reduce_any_bits(Member& member, DType dtype, ReduceOp op) {
  constexpr size_t kCount = 1000;
  const size_t bytes = kCount * size_bytes(dtype);
  Registered data(*member.comm, bytes);
  uint32_t state = 12345 + member.self;
  for (std::byte& each : data.data) {
    state = state * 1664525 + 1013904223;
    // Every other element has all bits of an exponent, so is a NaN in the types that have one.
    each = static_cast<std::byte>(state >> 24U) |
           std::byte(static_cast<uint64_t>(&each - data.data.data()) / 8 % 2 == 0 ? 0x7c : 0);
  }
  wait_for(
      *member.comm,
      *must(member.comm->all_reduce(data.part(0, bytes), data.part(0, bytes), kCount, dtype, op)));
  return data.data;
}

TEST_CASE("all members get the same bits, whatever the type and the operation") {
  for (const uint32_t count : {2U, 3U}) {
    std::vector<std::vector<std::vector<std::byte>>> results(count);
    require_rail(members(count), [&](Member& member) {
      for (uint8_t type = 0; type <= static_cast<uint8_t>(DType::kFloat8E5m2); ++type) {
        for (uint8_t op = 0; op < static_cast<uint8_t>(ReduceOp::kAvg); ++op) {
          results[member.self].push_back(
              reduce_any_bits(member, static_cast<DType>(type), static_cast<ReduceOp>(op)));
        }
      }
    });
    for (uint32_t self = 1; self < count; ++self) {
      REQUIRE(results[self].size() == results[0].size());
      for (size_t i = 0; i < results[0].size(); ++i) {
        INFO("members " << count << " type and operation " << i);
        CHECK(results[self][i] == results[0][i]);
      }
    }
  }
}

// A forwarded network has no descriptor to sleep on: the rail's thread polls it.
RailJobOptions polled_members(uint32_t count, int version) {
  RailJobOptions options = members(count);
  options.make_driver = [version]() -> std::unique_ptr<NetDriver> {
    auto made = forward::forward_to(std::string(FORWARDED_FOLDER) + "/libnccl-net-loopback" +
                                    std::to_string(version) + ".so");
    expect(made.ok(), made.status().message());
    return *std::move(made);
  };
  return options;
}

// In 200 ms, once all that can move has moved. A thread that spins takes thousands.
uint64_t fewest_turns(const CollComm& comm) {
  uint64_t turns = 100;
  for (int looks = 0; looks < 100 && turns >= 100; ++looks) {
    const uint64_t before = comm.turns();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    turns = comm.turns() - before;
  }
  return turns;
}

// Two members have posted all their receives and wait for one that has made no call: messages and
// news of credits reach threads that have nothing to do with them.
void require_sleep(const RailJobOptions& options) {
  std::atomic<uint32_t> waited = 0;
  require_rail(options, [&](Member& member) {
    const auto start = [&](Registered& data) {
      return must(member.comm->all_reduce(data.part(0, data.data.size()),
                                          data.part(0, data.data.size()),
                                          data.data.size() / 4,
                                          DType::kInt32,
                                          ReduceOp::kSum));
    };
    reduce_all(member, 1000, 5, false);
    Registered data(*member.comm, 64 << 10U);
    CollRequest* const early = member.self == 1 ? nullptr : start(data);
    const uint64_t turns = fewest_turns(*member.comm);
    ++waited;
    wait_until("all members have waited", [&] { return waited == options.members; });
    wait_for(*member.comm, early != nullptr ? *early : *start(data));
    expect(turns < 100, std::to_string(turns) + " turns while nothing could move");
  });
}

TEST_CASE("a thread that can only wait sleeps") {
  require_sleep(members(3));
}

TEST_CASE("a thread whose neighbours have closed sleeps") {
  std::atomic<uint32_t> closed = 0;
  require_rail(members(2), [&](Member& member) {
    reduce_all(member, 1000, 5, false);
    if (member.self == 1) {
      member.close();
      closed = 1;
      return;
    }
    wait_until("the other member has closed", [&] { return closed == 1; });
    expect(fewest_turns(*member.comm) < 100, "a ring without neighbours takes turns all the time");
  });
}

void require_calls_of_all_kinds(const RailJobOptions& options) {
  require_rail(options, [](Member& member) {
    for (int round = 0; round < 4; ++round) {
      reduce_all(member, 100 + static_cast<uint64_t>(round) * 37, 100, round % 2 == 0);
      gather_all(member, 3000, 900, 16);
      scatter_all(member, 800, 300, 64);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the thread sleeps too
    }
    reduce_all(member, 20011, 10, true);
    gather_all(member, 5000, uint64_t{5000} * member.members, 8);
  });
}

TEST_CASE("calls of all kinds are right over a network that must be polled") {
  for (const int version : {8, 12}) {
    for (const uint32_t count : {2U, 3U, 4U}) {
      require_calls_of_all_kinds(polled_members(count, version));
    }
  }
}

// The builtin network with that carrier.
template <typename Net, typename... Settings>
RailJobOptions carried_members(uint32_t count, const Settings&... settings) {
  RailJobOptions options = members(count);
  options.make_driver = [settings...]() -> std::unique_ptr<NetDriver> {
    BuiltinConfig config;
    config.devices = {make_device("lo", "a host", "127.0.0.1", "")};
    config.key = JobKey::none(false);
    auto made = Net::create(std::move(config), settings...);
    expect(made.ok(), made.status().message());
    return *std::move(made);
  };
  return options;
}

TEST_CASE("links that fail over carry calls of all kinds, and who waits for them sleeps") {
  require_sleep(carried_members<LinkNet>(3, FailoverOptions()));
  require_calls_of_all_kinds(carried_members<LinkNet>(2, FailoverOptions()));
}

#ifdef HORING_HAVE_UCX
TEST_CASE("a thread that can only wait for UCX sleeps") {
  require_sleep(carried_members<UcxNet>(3));
}

TEST_CASE("calls of all kinds are right over UCX") {
  require_calls_of_all_kinds(carried_members<UcxNet>(GENERATE(2U, 3U)));
}

TEST_CASE("members over TCP and over UCX refuse at once, and say which is which") {
  RailJobOptions options = members(3);
  std::atomic<int> made{0};
  options.make_driver = [&made, ucx = carried_members<UcxNet>(3).make_driver] {
    return made++ == 0 ? ucx() : conformance::make_builtin({});
  };
  const auto errors = run_rail(options, [](Member& member) {
    const std::string& why = member.connected.message();
    expect(member.connected.code() == StatusCode::kMismatch, "refuses: " + why);
    for (const char* const part : {"networks of rail member ", "over TCP", "over UCX"}) {
      expect(why.find(part) != std::string::npos, "says what differs: " + why);
    }
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
}

TEST_CASE("when one member goes, calls over UCX end in an error") {
  require_errors_when_one_goes(carried_members<UcxNet>(3));
}
#endif

TEST_CASE("when one member goes, calls over a network that is polled end in an error") {
  require_errors_when_one_goes(polled_members(3, 12));
}

TEST_CASE("a member whose plugin is another makes all refuse at once") {
  RailJobOptions options = members(3);
  options.foreign = {1};
  const auto errors = run_rail(options, [](Member& member) {
    expect(member.connected.code() == StatusCode::kUnsupported, "refuses");
    expect(member.connected.message().find("handle 2 of the rail") != std::string::npos,
           "names it: " + member.connected.message());
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
}

TEST_CASE("members whose settings differ all refuse, and say which setting does") {
  RailJobOptions options = members(3);
  // Members have their own numbers in messages, whatever the order of the handles.
  options.rotate_handles = 1;
  options.consistency = {"NICs=4\nrates=100\n", "NICs=4\nrates=100\n", "NICs=4\nrates=25\n"};
  const auto errors = run_rail(options, [](Member& member) {
    const std::string& why = member.connected.message();
    expect(member.connected.code() == StatusCode::kMismatch, "refuses");
    for (const char* const part :
         {"rates of rail member 2 (", " and rail member 0 (", " differ: 25 and 100"}) {
      expect(why.find(part) != std::string::npos, "says what differs: " + why);
    }
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
  options.consistency[2] = options.consistency[0];
  require_rail(options, [](Member& member) { reduce_all(member, 100, 3, false); });
}

TEST_CASE("a member that cannot listen tells all why") {
  RailJobOptions options = members(3);
  options.rotate_handles = 1;
  options.deaf = {1};
  const auto errors = run_rail(options, [](Member& member) {
    const std::string& why = member.connected.message();
    for (const char* const part :
         {"rail member 1 (", "could not listen on device 99: it reported"}) {
      expect(why.find(part) != std::string::npos, "says who and why: " + why);
    }
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
}

TEST_CASE("a member that never comes makes all refuse at the deadline") {
  for (const uint32_t absent : {0U, 2U}) {
    RailJobOptions options = members(4);
    options.rotate_handles = 0;
    options.absent = {absent};
    std::vector<std::string> errors;
    // Where others had not connected by then either, they are named too.
    const auto only_one_is_missing = [&](std::chrono::milliseconds time) {
      options.timeout = time;
      errors = run_rail(options, [absent](Member& member) {
        const std::string& why = member.connected.message();
        expect(member.connected.code() == StatusCode::kTimeout, "refuses: " + why);
        // Who connects to member 0 sees only that nobody opens.
        const std::string missing = absent == 0 ? "rank 0" : "missing: rank 2";
        expect(why.find(missing) != std::string::npos, "names the member: " + why);
      });
      return std::count(errors.begin(), errors.end(), "") == std::ssize(errors);
    };
    (void)ho::test::with_more_time(std::chrono::milliseconds(1500), only_one_is_missing);
    for (const std::string& error : errors) {
      CHECK(error == "");
    }
  }
}

TEST_CASE("when one member goes, calls of all the others end in an error") {
  require_errors_when_one_goes(members(4));
}

TEST_CASE("arguments that cannot be are refused") {
  require_rail(members(2), [](Member& member) {
    Registered data(*member.comm, 100);
    const auto refused = [](const Result<CollRequest*>& result) {
      expect(result.status().code() == StatusCode::kInvalidArgument, "refused");
    };
    CollComm& comm = *member.comm;
    refused(
        comm.all_reduce(data.part(0, 100), data.part(0, 100), 26, DType::kFloat32, ReduceOp::kSum));
    refused(
        comm.all_reduce(data.part(0, 100), data.part(0, 100), 25, DType::kFloat32, ReduceOp::kAvg));
    refused(comm.all_reduce(
        {data.data.data(), 100, nullptr}, data.part(0, 100), 25, DType::kFloat32, ReduceOp::kSum));
    refused(comm.all_gather(data.part(0, 50), data.part(0, 60), 50, 50));
    refused(comm.all_gather(data.part(0, 50), data.part(0, 10), 50, 101));
    refused(comm.reduce_scatter(
        data.part(0, 50), data.part(0, 50), 50, 0, DType::kFloat32, ReduceOp::kSum));
    refused(comm.all_gather(data.part(0, 50), data.part(0, 50), UINT64_MAX, 0));
    refused(comm.reduce_scatter(data.part(0, 40),
                                {data.data.data(), 4000, nullptr},
                                20,
                                0,
                                DType::kFloat32,
                                ReduceOp::kSum));
    refused(comm.reduce_scatter(
        data.part(0, 40), data.part(90, 4000), 20, 0, DType::kFloat32, ReduceOp::kSum));
    expect(!comm.deregister(nullptr).ok(), "no such registration");
  });
}
