// Device memory inside a node: which way messages take, and that nothing is left of what was
// shared.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "cuda_double.hpp"
#include "has.hpp"
#include "job.hpp"
#include "rank_memory.hpp"
#include "scoped_variable.hpp"
#include "silent_link.hpp"
#include "transport/staged/staged_link.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr size_t kSharedCount = 300001;  // more than one piece

class SilentSharing : public SilentLink, public OffsetMessages {
 public:
  OffsetMessages* offsets() override { return this; }
  Result<bool> try_offer(ConstBytes /*offer*/) override { return false; }
  Result<OfferAnswer> offer_answer() override { return OfferAnswer::kNone; }
  void take_offers(OfferTaker /*taker*/) override {}
  Result<bool> try_send_offset(const Frame& /*frame*/, uint64_t /*offset*/) override {
    return false;
  }
  Result<Message> try_recv_offset(const Frame& /*expected*/) override { return Message{true}; }
  void release_offset() override {}
};

// Ranks of one group, each with memory, who take turns around what the whole job has.
void require_group(const std::string& groups,
                   const std::function<void(ho_comm*, RankMemory&)>& body) {
  require_job({groups}, [&](ho_comm* comm) {
    RankMemory memory(ho_comm_rank(comm) % 2, kSharedCount);
    memory.fill(std::vector<float>(kSharedCount, static_cast<float>(ho_comm_rank(comm))));
    body(comm, memory);
  });
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
}

void barrier(ho_comm* comm) {
  must(ho_barrier(comm, nullptr, nullptr));
}

// In a ring: each rank sends to the next one and to no other.
ho_call_options in_a_ring(const RankMemory& memory) {
  ho_call_options options = memory.options();
  options.algorithm = HO_ALGORITHM_RING;
  return options;
}

// The first of a rank is its number.
void gather_in_a_ring(ho_comm* comm, const RankMemory& memory) {
  const ho_call_options options = in_a_ring(memory);
  const size_t each = kSharedCount / static_cast<size_t>(ho_comm_world_size(comm));
  must(ho_all_gather(
      comm, memory.send(), memory.recv(), each, HO_FLOAT32, &options, nullptr, nullptr));
}

bool has_gathered(ho_comm* comm, RankMemory& memory) {
  memory.fetch();
  const std::vector<float> all = memory.fetched();
  const auto ranks = static_cast<size_t>(ho_comm_world_size(comm));
  bool right = true;
  for (size_t rank = 0; rank < ranks; ++rank) {
    right &= all[rank * (kSharedCount / ranks)] == static_cast<float>(rank);
  }
  return right;
}

// What the double has counted of the whole job in a call that adds all ranks' values.
uint64_t counted_in_sums(const std::string& groups, uint64_t (*count)()) {
  std::atomic<uint64_t> counted = 0;
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
    counted = count();
    must(ho_barrier(comm, nullptr, nullptr));
  });
  CHECK(cuda_double::violations().empty());
  CHECK(cuda_double::live().none());
  return counted;
}

uint64_t pinned_allocations() {
  return cuda_double::calls("host_allocate");
}
uint64_t bytes_added() {
  return cuda_double::bytes_written_by("ho_sum_float32");
}

}  // namespace

TEST_CASE("inside a node messages take pinned memory only where ranks cannot share theirs") {
  cuda_double::reset({});
  CHECK(counted_in_sums("1x4", pinned_allocations) == 0);

  SECTION("because it is switched off") {
    const ScopedVariable off("HORING_DEVICE_SHARING", "0");
    CHECK(counted_in_sums("1x4", pinned_allocations) > 0);
  }
  SECTION("because the devices do not reach each other") {
    cuda_double::Config config;
    config.peers = false;
    cuda_double::reset(config);
    CHECK(counted_in_sums("1x4", pinned_allocations) > 0);
  }
  SECTION("because the driver cannot export") {
    cuda_double::Config config;
    config.ipc = false;
    cuda_double::reset(config);
    CHECK(counted_in_sums("1x4", pinned_allocations) > 0);
  }
}

TEST_CASE("a setting says who adds what lies in pinned memory, between the steps of a rail") {
  cuda_double::reset({});
  uint64_t bytes = 0;
  {
    const ScopedVariable host("HORING_DEVICE_SUMS", "host");
    bytes = counted_in_sums("3x2", bytes_added);
  }
  const ScopedVariable on_device("HORING_DEVICE_SUMS", "device");
  CHECK(counted_in_sums("3x2", bytes_added) > bytes);
}

TEST_CASE("a rank holds slots for those alone to which it has sent device memory") {
  cuda_double::reset({});
  size_t buffers = 0;
  size_t made = 0;
  size_t in_ring = 0;
  size_t summed = 0;
  size_t to_all = 0;
  require_group("1x4", [&](ho_comm* comm, RankMemory& memory) {
    // Between two barriers nobody makes or frees anything. Scratch memory is no whole slots.
    const auto held = [&] {
      memory.finish();
      barrier(comm);
      const size_t bytes = cuda_double::live().device_memory_bytes;
      barrier(comm);
      return bytes;
    };
    const size_t created = held();
    const ho_call_options options = in_a_ring(memory);
    gather_in_a_ring(comm, memory);
    const size_t gathered = held();
    must(ho_all_reduce(comm,
                       memory.send(),
                       memory.recv(),
                       kSharedCount,
                       HO_FLOAT32,
                       HO_SUM,
                       &options,
                       nullptr,
                       nullptr));
    const size_t reduced = held();
    const ho_call_options plain = memory.options();
    must(ho_all_to_all(comm,
                       memory.send(),
                       memory.recv(),
                       kSharedCount / 4,
                       HO_FLOAT32,
                       &plain,
                       nullptr,
                       nullptr));
    const size_t exchanged = held();
    if (ho_comm_rank(comm) == 0) {
      buffers = 4 * 2 * kSharedCount * sizeof(float);
      made = created;
      in_ring = gathered - created;
      summed = (reduced - created) / PeerSlots::kBytes;
      to_all = (exchanged - created) / PeerSlots::kBytes;
    }
  });
  CHECK(made == buffers);
  CHECK(in_ring == 4 * PeerSlots::kBytes);
  CHECK(summed == 4);  // another channel, the same peers
  CHECK(to_all == 4 * 3);
}

TEST_CASE("slots that the peer refuses are freed, and none of its messages is lost") {
  cuda_double::Config config;
  config.peers = false;
  cuda_double::reset(config);
  require_group("1x4", [&](ho_comm* comm, RankMemory& memory) {
    barrier(comm);
    const size_t before = cuda_double::live().device_memory;
    barrier(comm);
    gather_in_a_ring(comm, memory);
    const bool right = has_gathered(comm, memory);
    barrier(comm);
    if (!right || cuda_double::live().device_memory != before) {
      throw std::runtime_error(right ? "refused slots are still there" : "wrong data");
    }
    barrier(comm);
  });
}

TEST_CASE(
    "where the device has no memory left for slots, messages take pinned memory, as is said") {
  cuda_double::reset({});
  CaughtStderr caught;
  std::atomic<bool> right = true;
  require_group("1x4", [&](ho_comm* comm, RankMemory& memory) {
    memory.finish();
    barrier(comm);
    if (ho_comm_rank(comm) == 0) {
      cuda_double::fail_call("memory_allocate", 1, device::kOutOfDeviceMemory);
    }
    barrier(comm);
    gather_in_a_ring(comm, memory);
    right = right && has_gathered(comm, memory);
  });
  const std::string said = caught.end();
  CHECK(right);
  CHECK(has(said, "shares no device memory with rank "));
  CHECK(has(said, "cuMemAlloc of " + std::to_string(PeerSlots::kBytes) + " bytes: "));
}

TEST_CASE("shared memory of a rank that ends first stays until the others have ended") {
  cuda_double::reset({});
  std::atomic<size_t> held = 0;
  std::atomic<bool> seen = false;
  require_group("1x2", [&](ho_comm* comm, RankMemory& memory) {
    ho_comm* part = nullptr;
    must(ho_comm_split(comm, 0, ho_comm_rank(comm), &part));
    gather_in_a_ring(part, memory);
    memory.finish();
    barrier(comm);
    held = cuda_double::live().device_memory;
    barrier(comm);
    if (ho_comm_rank(comm) == 0) {
      ho_comm_destroy(part);
      seen = cuda_double::live().device_memory == held;
      barrier(comm);
    } else {
      barrier(comm);
      ho_comm_destroy(part);
    }
  });
  CHECK(held == 2 * 2 + 2);  // buffers, and one rank's slots for the other
  CHECK(seen);
}

TEST_CASE("an offer of device memory that is cut, too large or another one is refused") {
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto ended = [] { return true; };
  const GlobalRank peer(1);
  SharedSlots mine(GlobalRank(0), device, nullptr, ended);
  const auto theirs = must_have(PeerSlots::create(device, ended));
  std::vector<std::byte> offer = theirs->offer();
  CHECK(offer.size() <= OffsetMessages::kMaxOfferBytes);
  for (size_t bytes = 0; bytes < offer.size(); ++bytes) {
    CHECK(mine.open(peer, std::span(offer).first(bytes)).status().code() == StatusCode::kProtocol);
  }
  constexpr size_t kBytesAt = 28;  // behind process, device and address
  const auto say_bytes = [&](uint64_t bytes) {
    std::memcpy(&offer.at(kBytesAt), &bytes, sizeof(bytes));
  };
  say_bytes(0);
  CHECK(mine.open(peer, offer).status().code() == StatusCode::kProtocol);
  CHECK(mine.of_peer(peer).empty());

  say_bytes(PeerSlots::kBytes + 1);
  CHECK_FALSE(must_have(mine.open(GlobalRank(2), offer)));  // pinned memory does without
  CHECK(mine.of_peer(GlobalRank(2)).empty());
  say_bytes(PeerSlots::kBytes);
  CHECK(must_have(mine.open(peer, offer)));
  CHECK(must_have(mine.open(peer, offer)));  // another link's
  CHECK(mine.of_peer(peer).size() == PeerSlots::kBytes);
  // What was said once stays so, on all links to the peer.
  CHECK(mine.open(GlobalRank(2), offer).status().code() == StatusCode::kProtocol);
}

TEST_CASE("a link takes no more than its slots, and leaves the others theirs") {
  // Takes all messages and releases none.
  class Keeping : public SilentSharing {
   public:
    Result<bool> try_send_offset(const Frame&, uint64_t) override { return true; }
    Result<bool> try_offer(ConstBytes) override { return true; }
    Result<OfferAnswer> offer_answer() override { return OfferAnswer::kTaken; }
  };
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  SharedSlots slots(GlobalRank(0), device, nullptr, [] { return true; });
  const device::DeviceMemory payload = must_have(device::DeviceMemory::create(*device, 100));
  const std::array parts{ConstBytes(static_cast<const std::byte*>(payload.pointer()), 100)};
  Frame frame;
  frame.payload_bytes = 100;
  const auto sent = [&](StagedLink& link) {
    size_t count = 0;
    while (count <= 2 * PeerSlots::kCount && must_have(link.try_send_from_device(frame, parts))) {
      must_be_ok(work->start());
      ++count;
    }
    return count;
  };
  Keeping inner;
  std::vector<std::unique_ptr<StagedLink>> links;
  for (const uint32_t peer : {1U, 2U}) {
    const StagedLink::Shared shared{&slots, GlobalRank(peer)};
    links.push_back(std::make_unique<StagedLink>(inner, *work, shared));
    CHECK(sent(*links.back()) == StagedLink::kSlots);
    // However many have theirs, a link has one that no other takes.
    for (size_t at = 1; at < PeerSlots::kLinks; ++at) {
      links.push_back(std::make_unique<StagedLink>(inner, *work, shared));
      CHECK(sent(*links.back()) == 1);
    }
  }
  must_be_ok(work->drain(deadline_after(std::chrono::seconds(60))));
}

TEST_CASE("a link sends nothing to a peer that has not answered, and then as it has answered") {
  class Answering : public SilentSharing {
   public:
    OfferAnswer answer = OfferAnswer::kNone;
    size_t offers = 0;
    Result<bool> try_offer(ConstBytes offer) override {
      offers += offer.empty() ? 0U : 1U;
      return true;
    }
    Result<OfferAnswer> offer_answer() override { return answer; }
  };
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  SharedSlots slots(GlobalRank(0), device, nullptr, [] { return true; });
  const device::DeviceMemory payload = must_have(device::DeviceMemory::create(*device, 100));
  const std::array parts{ConstBytes(static_cast<const std::byte*>(payload.pointer()), 100)};
  Frame frame;
  frame.payload_bytes = 100;
  Answering first;
  Answering second;
  StagedLink link(first, *work, {&slots, GlobalRank(1)});
  StagedLink other(second, *work, {&slots, GlobalRank(1)});
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(must_have(link.try_send_from_device(frame, parts)));
    CHECK_FALSE(must_have(other.try_send_from_device(frame, parts)));
  }
  CHECK((first.offers == 1 && second.offers == 1));
  const size_t with_slots = cuda_double::live().device_memory_bytes;
  first.answer = OffsetMessages::OfferAnswer::kRefused;
  CHECK(must_have(link.try_send_from_device(frame, parts)));
  CHECK(has(link.to_string(), "staged"));
  CHECK(cuda_double::live().pinned_memory > 0);
  CHECK(cuda_double::live().device_memory_bytes == with_slots);  // the other link's peer may read
  second.answer = OffsetMessages::OfferAnswer::kRefused;
  CHECK(must_have(other.try_send_from_device(frame, parts)));
  CHECK(cuda_double::live().device_memory_bytes == with_slots - PeerSlots::kBytes);
  // Another link to that peer asks no more.
  Answering third;
  StagedLink late(third, *work, {&slots, GlobalRank(1)});
  CHECK(must_have(late.try_send_from_device(frame, parts)));
  CHECK(third.offers == 0);
  must_be_ok(work->drain(deadline_after(std::chrono::seconds(60))));
}

TEST_CASE("a message outside of the peer's shared memory is an error and read nowhere") {
  class Hostile : public SilentSharing {
   public:
    uint64_t offset = 0;
    OfferTaker taker;
    Result<Message> try_recv_offset(const Frame&) override { return Message{false, offset}; }
    void take_offers(OfferTaker offered) override { taker = std::move(offered); }
  };
  cuda_double::reset({});
  const auto device = must_have(device::Device::open(*must_have(device::driver()), 0));
  const auto work = must_have(device::Work::create(device));
  const auto ended = [] { return true; };
  SharedSlots slots(GlobalRank(0), device, nullptr, ended);
  const auto theirs = must_have(PeerSlots::create(device, ended));
  Hostile inner;
  StagedLink link(inner, *work, {&slots, GlobalRank(1)});
  Frame frame;
  frame.payload_bytes = 100;
  CHECK(link.try_view_for_device(frame).status().code() == StatusCode::kProtocol);
  CHECK(must_have(inner.taker(theirs->offer())));
  constexpr uint64_t kEnd = PeerSlots::kBytes;
  for (const uint64_t offset : {kEnd - 99, kEnd + 1, UINT64_MAX, UINT64_MAX - 99}) {
    inner.offset = offset;
    CHECK(link.try_view_for_device(frame).status().code() == StatusCode::kProtocol);
    CHECK(link.try_view(frame).status().code() == StatusCode::kProtocol);
  }
  inner.offset = kEnd - 100;
  CHECK(must_have(link.try_view_for_device(frame)).data() == theirs->slot(0) + inner.offset);
}
