// Device memory inside a node: which way messages take, and that nothing is left of what was
// shared.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda_double.hpp"
#include "job.hpp"
#include "rank_memory.hpp"
#include "scoped_variable.hpp"
#include "silent_link.hpp"
#include "transport/staged/staged_link.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kSharedCount = 300001;  // more than one piece

// How often the driver's function was called by the whole job in a call that adds all ranks'
// values.
uint64_t calls_in_sums(const std::string& groups, std::string_view function) {
  std::atomic<uint64_t> calls = 0;
  require_job({groups}, [&](ho_comm* comm) {
    RankMemory memory(ho_comm_rank(comm) % 2, kSharedCount);
    std::vector<float> values(kSharedCount);
    for (size_t i = 0; i < kSharedCount; ++i) {
      values[i] = static_cast<float>(i % 1000) + static_cast<float>(ho_comm_rank(comm));
    }
    must(ho_barrier(comm, nullptr, nullptr));
    cuda_double::forget_counts();
    must(ho_barrier(comm, nullptr, nullptr));
    memory.fill(values);
    must(memory.all_reduce(comm));
    memory.fetch();
    const std::vector<float> sums = memory.fetched();
    const auto ranks = static_cast<float>(ho_comm_world_size(comm));
    for (size_t i = 0; i < kSharedCount; i += 101) {
      if (sums[i] != ranks * static_cast<float>(i % 1000) + ranks * (ranks - 1) / 2) {
        throw std::runtime_error("wrong sum at " + std::to_string(i));
      }
    }
    must(ho_barrier(comm, nullptr, nullptr));
    calls = cuda_double::calls(function);
    must(ho_barrier(comm, nullptr, nullptr));
  });
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
  return calls;
}

}  // namespace

TEST_CASE("inside a node messages take pinned memory only where ranks cannot share theirs") {
  cuda_double::reset({});
  CHECK(calls_in_sums("1x4", "host_allocate") == 0);

  SECTION("because it is switched off") {
    const ScopedVariable off("HORING_DEVICE_SHARING", "0");
    CHECK(calls_in_sums("1x4", "host_allocate") > 0);
  }
  SECTION("because the devices do not reach each other") {
    cuda_double::Config config;
    config.peers = false;
    cuda_double::reset(config);
    CHECK(calls_in_sums("1x4", "host_allocate") > 0);
  }
  SECTION("because the driver cannot export") {
    cuda_double::Config config;
    config.ipc = false;
    cuda_double::reset(config);
    CHECK(calls_in_sums("1x4", "host_allocate") > 0);
  }
}

TEST_CASE("a setting says who adds what lies in pinned memory, between the steps of a rail") {
  cuda_double::reset({});
  uint64_t launches = 0;
  {
    const ScopedVariable host("HORING_DEVICE_SUMS", "host");
    launches = calls_in_sums("3x2", "launch");
  }
  const ScopedVariable on_device("HORING_DEVICE_SUMS", "device");
  CHECK(calls_in_sums("3x2", "launch") > launches);
}

TEST_CASE("shared memory of a rank that ends first stays until the others have ended") {
  cuda_double::reset({});
  std::atomic<size_t> held = 0;
  std::atomic<bool> seen = false;
  require_job({"1x2"}, [&](ho_comm* comm) {
    ho_comm* part = nullptr;
    must(ho_comm_split(comm, 0, ho_comm_rank(comm), &part));
    must(ho_barrier(comm, nullptr, nullptr));
    held = cuda_double::live().device_memory;
    must(ho_barrier(comm, nullptr, nullptr));
    if (ho_comm_rank(comm) == 0) {
      ho_comm_destroy(part);
      seen = cuda_double::live().device_memory == held;
      must(ho_barrier(comm, nullptr, nullptr));
    } else {
      must(ho_barrier(comm, nullptr, nullptr));
      ho_comm_destroy(part);
    }
  });
  CHECK(held == 4);  // of two communicators and two ranks
  CHECK(seen);
  CHECK(cuda_double::live().none());
}

TEST_CASE("an offer of device memory that is cut or too large is refused") {
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto ended = [] { return true; };
  SharedSlots mine(device, 1, nullptr, ended);
  SharedSlots other(device, 1, nullptr, ended);
  CHECK(mine.why_not().empty());
  std::vector<std::byte> offer = other.offer();
  for (size_t bytes = 1; bytes < offer.size(); ++bytes) {
    CHECK(mine.open(GlobalRank(1), std::span(offer).first(bytes)).code() == StatusCode::kProtocol);
  }
  CHECK(mine.open(GlobalRank(1), {}).code() == StatusCode::kUnsupported);
  CHECK(mine.of_peer(GlobalRank(1)).empty());

  constexpr size_t kBytesAt = 28;  // behind process, device and address
  uint64_t bytes = SharedSlots::kSlotsPerPeer * SharedSlots::kSlotBytes + 1;
  std::memcpy(&offer.at(kBytesAt), &bytes, sizeof(bytes));
  const Status otherwise = mine.open(GlobalRank(1), offer);
  CHECK(otherwise.code() == StatusCode::kUnsupported);  // pinned memory does without
  CHECK(otherwise.message().find("does not show it here as it was offered") != std::string::npos);
  --bytes;
  std::memcpy(&offer.at(kBytesAt), &bytes, sizeof(bytes));
  CHECK(mine.open(GlobalRank(1), offer).ok());
  CHECK(mine.of_peer(GlobalRank(1)).size() == bytes);
}

TEST_CASE("a link takes no more than its slots, and leaves the others theirs") {
  // Takes all messages and releases none.
  class Keeping : public SilentLink {
   public:
    Result<bool> try_send_shared(const Frame&, uint64_t) override { return true; }
  };
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  SharedSlots slots(device, 2, nullptr, [] { return true; });
  const device::DeviceMemory payload = must_have(device::DeviceMemory::create(*device, 100));
  const std::array parts{ConstBytes(static_cast<const std::byte*>(payload.pointer()), 100)};
  Frame frame;
  frame.payload_bytes = 100;
  const auto sent = [&](StagedLink& link) {
    size_t count = 0;
    while (count <= 2 * SharedSlots::kSlotsPerPeer &&
           must_have(link.try_send_from_device(frame, parts))) {
      ++count;
    }
    return count;
  };
  Keeping inner;
  StagedLink first(inner, *work, {&slots, {}});
  StagedLink second(inner, *work, {&slots, {}});
  CHECK(sent(first) == StagedLink::kSlots);
  CHECK(sent(second) == StagedLink::kSlots);
  // However many have theirs, a link has one that no other takes.
  std::vector<std::unique_ptr<StagedLink>> more;
  for (size_t at = 2; at < 2 * SharedSlots::kLinksPerPeer; ++at) {
    more.push_back(std::make_unique<StagedLink>(inner, *work, StagedLink::Shared{&slots, {}}));
    CHECK(sent(*more.back()) == 1);
  }
  must_be_ok(work->drain(deadline_after(std::chrono::seconds(60))));
}

TEST_CASE("a message outside of the peer's shared memory is an error and read nowhere") {
  class Hostile : public Link {
   public:
    uint64_t offset = 0;
    Result<bool> try_send(const Frame&, std::span<const ConstBytes>) override { return true; }
    uint64_t released() override { return 0; }
    Result<bool> try_recv(const Frame&, std::span<const Bytes>) override { return false; }
    Result<std::optional<Frame>> try_peek(bool) override { return std::optional<Frame>(); }
    Result<ConstBytes> try_view(const Frame&) override { return ConstBytes(); }
    void release_view() override {}
    Result<SharedMessage> try_recv_shared(const Frame&) override {
      return SharedMessage{false, offset};
    }
    std::string describe() const override { return "hostile"; }
  };
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  std::vector<std::byte> memory(1000);
  Hostile inner;
  StagedLink link(inner, *work, {nullptr, memory});
  Frame frame;
  frame.payload_bytes = 100;
  for (const uint64_t offset : {uint64_t{901}, uint64_t{1001}, UINT64_MAX, UINT64_MAX - 99}) {
    inner.offset = offset;
    CHECK(link.try_view_for_device(frame).status().code() == StatusCode::kProtocol);
    CHECK(link.try_view(frame).status().code() == StatusCode::kProtocol);
  }
  inner.offset = 900;
  CHECK(link.try_view_for_device(frame)->data() == memory.data() + 900);
}
