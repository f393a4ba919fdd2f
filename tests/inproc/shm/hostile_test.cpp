// Rings whose content a peer has damaged: an error, never an access out of bounds or a hang. The
// ring lies in heap memory of its exact size, so that the address sanitizer sees every stray byte.
#include <unistd.h>

#include <cstring>
#include <random>

#include "catch.hpp"
#include "conformance.hpp"
#include "os/event_fd.hpp"
#include "os/peer_memory.hpp"
#include "transport/shm/shm_link.hpp"

namespace ho::conformance {
namespace {

constexpr size_t kRingBytes = SegmentGeometry::kMinRingBytes;

// One direction of a link, with this process as the peer.
class Victim {
 public:
  Victim()
      : writer_(*control_, ring()),
        event_(*EventFd::create()),
        link_(ShmLink::Wiring{GlobalRank(1),
                              GlobalRank(0),
                              0,
                              RingWriter(*back_control_, std::span(back_ring_)),
                              RingReader(*control_, ring()),
                              Bell(*doorbell_, event_),
                              &end_,
                              ::getpid(),
                              true,
                              true,
                              1}) {}

  [[nodiscard]] std::span<std::byte> ring() { return ring_; }
  [[nodiscard]] RingControl& control() { return *control_; }
  [[nodiscard]] RingControl& back_control() { return *back_control_; }
  void write(RecordKind kind, const Frame& frame, std::span<const std::byte> payload) {
    std::byte* to = writer_.reserve(payload.size(), record_bytes(payload.size()));
    REQUIRE(to != nullptr);
    std::copy(payload.begin(), payload.end(), to);
    static_cast<void>(writer_.publish(kind, encode(frame), payload.size(), true));
  }
  [[nodiscard]] Result<bool> receive(const Frame& expected) {
    std::vector<std::byte> into(expected.payload_bytes);
    const Bytes part(into);
    return link_.try_recv(expected, std::span(&part, 1));
  }
  [[nodiscard]] StatusCode receive_code(const Frame& expected) {
    return receive(expected).status().code();
  }
  [[nodiscard]] ShmLink& link() { return link_; }

 private:
  std::unique_ptr<RingControl> control_ = std::make_unique<RingControl>();
  std::unique_ptr<RingControl> back_control_ = std::make_unique<RingControl>();
  std::unique_ptr<DoorbellBlock> doorbell_ = std::make_unique<DoorbellBlock>();
  std::vector<std::byte> ring_ = std::vector<std::byte>(kRingBytes);
  std::vector<std::byte> back_ring_ = std::vector<std::byte>(kRingBytes);
  RingWriter writer_;
  EventFd event_;
  const ProcessWatch nobody_{0};
  const PeerEnd end_{*control_, nobody_};
  ShmLink link_;
};

std::vector<std::byte> reference_to(std::vector<RemoteRange> ranges) {
  const auto bytes = std::as_bytes(std::span(ranges));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("a position outside of the ring is an error") {
  for (const uint64_t written : {uint64_t{kRingBytes + 64}, uint64_t{63}, ~uint64_t{0}}) {
    Victim victim;
    victim.control().written = written;
    CHECK(victim.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);
    CHECK(victim.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);
  }
}

TEST_CASE("a record longer than what is there is an error") {
  for (const uint32_t bytes : {129U, uint32_t{kRingBytes}, ~0U}) {
    Victim victim;
    victim.write(RecordKind::kInline, frame_of(0, 128), pattern(1, 128));
    std::memcpy(
        victim.ring().data() + offsetof(RecordHeader, payload_bytes), &bytes, sizeof(bytes));
    CHECK(victim.receive_code(frame_of(0, 128)) == StatusCode::kProtocol);
  }
}

TEST_CASE("an unknown kind, padding in the middle, a foreign header are errors") {
  for (const uint32_t kind : {0U, 1U, 8U, ~0U}) {
    Victim victim;
    victim.write(RecordKind::kInline, frame_of(0, 8), pattern(1, 8));
    std::memcpy(victim.ring().data(), &kind, sizeof(kind));
    CHECK(victim.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);
  }
  Victim victim;
  victim.write(RecordKind::kInline, frame_of(0, 8), pattern(1, 8));
  victim.ring()[offsetof(RecordHeader, frame)] = std::byte{0};
  CHECK(victim.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);
}

TEST_CASE("a payload of another size than the frame says is an error") {
  Victim whole;
  whole.write(RecordKind::kInline, frame_of(0, 8), pattern(1, 9));
  CHECK(whole.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);
  CHECK(whole.link().try_view(frame_of(0, 8)).status().code() == StatusCode::kProtocol);

  Victim fragments;
  fragments.write(RecordKind::kFirst, frame_of(0, 3000), pattern(1, 1900));
  fragments.write(RecordKind::kMore, frame_of(0, 3000), pattern(1, 1900));
  CHECK(fragments.receive_code(frame_of(0, 3000)) == StatusCode::kProtocol);

  Victim empty;
  empty.write(RecordKind::kFirst, frame_of(0, 3000), {});
  CHECK(empty.receive_code(frame_of(0, 3000)) == StatusCode::kProtocol);

  Victim headless;
  headless.write(RecordKind::kMore, frame_of(0, 3000), pattern(1, 100));
  CHECK(headless.receive_code(frame_of(0, 3000)) == StatusCode::kProtocol);

  Victim interrupted;
  interrupted.write(RecordKind::kFirst, frame_of(0, 3000), pattern(1, 1000));
  interrupted.write(RecordKind::kInline, frame_of(0, 3000), pattern(1, 100));
  CHECK(interrupted.receive_code(frame_of(0, 3000)) == StatusCode::kProtocol);
}

TEST_CASE("a reference must name exactly the message's bytes, in memory that is there") {
  const std::vector<std::byte> payload = pattern(1, 100);
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(payload.data()));
  const Frame frame = frame_of(0, 100);
  const auto code_of = [&](const std::vector<std::byte>& reference) {
    Victim victim;
    victim.write(RecordKind::kSingleCopy, frame, reference);
    return victim.receive_code(frame);
  };
  CHECK(code_of(reference_to({{address, 100}})) == StatusCode::kOk);
  CHECK(code_of(reference_to({{address, 40}, {address + 40, 60}})) == StatusCode::kOk);
  CHECK(code_of(reference_to({{address, 101}})) == StatusCode::kProtocol);
  CHECK(code_of(reference_to({{address, 99}})) == StatusCode::kProtocol);
  CHECK(code_of(reference_to({{address, ~uint64_t{0}}, {address, 101}})) == StatusCode::kProtocol);
  CHECK(code_of(reference_to({})) == StatusCode::kProtocol);
  CHECK(code_of(std::vector<std::byte>(15)) == StatusCode::kProtocol);
  CHECK(code_of(reference_to(std::vector<RemoteRange>(65, {address, 1}))) == StatusCode::kProtocol);
  CHECK(code_of(reference_to({{8, 100}})) == StatusCode::kPeerLost);
}

TEST_CASE("an offer that is too long, a second one and an unknown answer are errors") {
  Victim victim;
  victim.write(RecordKind::kOffer, frame_of(0, 0), pattern(1, OffsetMessages::kMaxOfferBytes + 1));
  CHECK(victim.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);

  Victim twice;
  twice.write(RecordKind::kOffer, frame_of(0, 0), pattern(1, OffsetMessages::kMaxOfferBytes));
  CHECK_FALSE(twice.receive(frame_of(0, 8)).value());
  twice.write(RecordKind::kOffer, frame_of(0, 0), pattern(1, OffsetMessages::kMaxOfferBytes));
  CHECK(twice.receive_code(frame_of(0, 8)) == StatusCode::kProtocol);

  Victim offers;
  REQUIRE(offers.link().try_offer(pattern(1, 100)).value());
  for (const uint32_t answer : {3U, ~0U}) {
    offers.back_control().offer_answer = answer;
    CHECK(offers.link().offer_answer().status().code() == StatusCode::kProtocol);
  }
}

TEST_CASE("random damage to a ring is survived") {
  std::mt19937 random(11);
  size_t errors = 0;
  for (int round = 0; round < 3000; ++round) {
    Victim victim;
    for (uint32_t k = 0; k < 4; ++k) {
      victim.write(RecordKind::kInline, frame_of(k, 200), pattern(k, 200));
    }
    for (int hit = 0; hit < 4; ++hit) {
      // Headers mostly: record k begins at 320 k.
      const size_t at = random() % 4 * 320 + random() % (random() % 4 == 0 ? 320 : 40);
      victim.ring()[at] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) {
      victim.control().written = random() % 3 == 0 ? random() : random() % 200 * 64;
      victim.control().wants_space = random();
      victim.control().published = random();
    }
    for (uint32_t k = 0; k < 6; ++k) {
      const auto got = victim.receive(frame_of(k, 200));
      errors += got.ok() ? 0U : 1U;
      if (!got.ok() || !*got) {
        break;
      }
    }
  }
  CHECK(errors > 1000);
}

TEST_CASE("a reader that damages its own position only blocks its writer") {
  std::vector<std::byte> ring(kRingBytes);
  auto control = std::make_unique<RingControl>();
  RingWriter writer(*control, ring);
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    control->read = random() % 2 == 0 ? random() : random() % kRingBytes;
    const uint64_t bytes = random() % (writer.max_payload_bytes() + 1);
    if (std::byte* to = writer.reserve(bytes, record_bytes(bytes)); to != nullptr) {
      REQUIRE((to >= ring.data() && to + bytes <= ring.data() + ring.size()));
      std::memset(to, 1, bytes);
      static_cast<void>(
          writer.publish(RecordKind::kInline, encode(frame_of(0, bytes)), bytes, true));
    }
  }
}

}  // namespace
}  // namespace ho::conformance
