#include "conformance.hpp"

#include <atomic>
#include <random>
#include <thread>

#include "catch.hpp"

namespace ho::conformance {
namespace {

using Payload = std::shared_ptr<std::vector<std::byte>>;

enum class Shape : uint8_t { kWhole, kParts, kView };

// Cuts `bytes` into `count` parts of differing sizes, the first and last ones empty.
template <typename Part>
std::vector<Part> cut(Part bytes, size_t count) {
  std::vector<Part> parts{bytes.first(0)};
  size_t begin = 0;
  for (size_t i = 1; i + 2 < count; ++i) {
    const size_t size = (bytes.size() - begin) * (i % 3 + 1) / 4;
    parts.push_back(bytes.subspan(begin, size));
    begin += size;
  }
  parts.push_back(bytes.subspan(begin));
  parts.push_back(bytes.last(0));
  return parts;
}

// Sends messages 0..n-1 of the given sizes, message k with pattern `seed + k`.
Step send_all(Link* link, uint64_t seed, const std::vector<size_t>& sizes, size_t parts = 1) {
  struct State {
    size_t next = 0;
    std::vector<Payload> payloads;  // kept until the link has released them
  };
  auto state = std::make_shared<State>();
  return [=]() -> Result<bool> {
    while (state->next < sizes.size()) {
      const size_t k = state->next;
      if (state->payloads.size() == k) {
        state->payloads.push_back(
            std::make_shared<std::vector<std::byte>>(pattern(seed + k, sizes[k])));
      }
      const ConstBytes whole(*state->payloads[k]);
      const auto pieces = parts == 1 ? std::vector<ConstBytes>{whole} : cut(whole, parts);
      HORING_ASSIGN(const bool sent,
                    link->try_send(frame_of(static_cast<uint32_t>(k), sizes[k]), pieces));
      if (!sent) {
        return false;
      }
      ++state->next;
    }
    return link->released() >= sizes.size();
  };
}

Result<bool> receive_one(Link* link,
                         const Frame& frame,
                         Shape shape,
                         std::vector<std::byte>& into) {
  if (shape == Shape::kView) {
    HORING_ASSIGN(const ConstBytes view, link->try_view(frame));
    if (view.data() == nullptr) {
      return false;
    }
    into.assign(view.begin(), view.end());
    link->release_view();
    return true;
  }
  const Bytes whole(into);
  const auto parts = shape == Shape::kParts ? cut(whole, 7) : std::vector<Bytes>{whole};
  return link->try_recv(frame, parts);
}

Step receive_all(Link* link,
                 uint64_t seed,
                 const std::vector<size_t>& sizes,
                 const std::function<Shape(size_t)>& shape_of) {
  struct State {
    size_t next = 0;
    std::vector<std::byte> into;
  };
  auto state = std::make_shared<State>();
  return [=]() -> Result<bool> {
    while (state->next < sizes.size()) {
      const size_t k = state->next;
      state->into.resize(sizes[k]);
      const Frame frame = frame_of(static_cast<uint32_t>(k), sizes[k]);
      HORING_ASSIGN(const bool got, receive_one(link, frame, shape_of(k), state->into));
      if (!got) {
        return false;
      }
      if (state->into.size() != sizes[k]) {
        return Status(StatusCode::kInternal, "a view has the wrong size");
      }
      HORING_TRY(check_pattern(seed + k, state->into));
      ++state->next;
    }
    return true;
  };
}

uint64_t seed_of(GlobalRank from, GlobalRank to, uint32_t salt) {
  return 1'000'000ULL * (from.value() + 1) + 10'000ULL * to.value() + 1000ULL * salt;
}

// Everybody with everybody, both directions at once.
Status all_pairs(Rank& rank,
                 const std::vector<size_t>& sizes,
                 uint8_t channels,
                 const std::function<Shape(size_t)>& shape,
                 size_t send_parts) {
  std::vector<Step> steps;
  for (uint32_t peer = 0; peer < rank.world_size; ++peer) {
    for (uint8_t channel = 0; channel < channels && GlobalRank(peer) != rank.self; ++channel) {
      HORING_ASSIGN(Link * link, rank.link(peer, 0, channel));
      const GlobalRank other(peer);
      steps.push_back(send_all(link, seed_of(rank.self, other, channel), sizes, send_parts));
      steps.push_back(receive_all(link, seed_of(other, rank.self, channel), sizes, shape));
    }
  }
  return rank.run(std::move(steps));
}

void check_shapes(const UnderTest& under_test) {
  const std::vector<size_t> sizes{
      0, 1, 31, 4096, 1U << 20, 0, 2047, 2048, 2049, 65536, 1U << 20, 1};
  for (const Shape shape : {Shape::kWhole, Shape::kParts, Shape::kView}) {
    for (const size_t send_parts : {size_t{1}, size_t{5}, size_t{64}}) {
      const std::string errors = run_ranks(under_test, 2, [&](Rank& rank) {
        return all_pairs(
            rank, sizes, 1, [shape](size_t) { return shape; }, send_parts);
      });
      INFO("shape " << static_cast<int>(shape) << ", parts " << send_parts);
      REQUIRE(errors == "");
    }
  }
}

void check_channels(const UnderTest& under_test) {
  const std::vector<size_t> sizes{8, 70000, 0, 300, 5000, 100, 100, 100, 40000};
  REQUIRE(run_ranks(under_test, 4, [&](Rank& rank) {
            return all_pairs(
                rank, sizes, kChannelCount, [](size_t k) { return static_cast<Shape>(k % 3); }, 3);
          }) == "");
}

// A peek shows the next message's header and leaves the message where it is.
void check_peek(const UnderTest& under_test) {
  const std::vector<size_t> sizes{0, 8, 5000, 1U << 20, 0, 300000, 1};
  REQUIRE(run_ranks(under_test, 2, [&](Rank& rank) -> Status {
            HORING_ASSIGN(Link * link, rank.link(1 - rank.self.value()));
            size_t k = 0;
            std::vector<std::byte> payload;
            if (rank.self.value() == 0) {
              std::vector<std::vector<std::byte>> payloads;
              for (size_t i = 0; i < sizes.size(); ++i) {
                payloads.push_back(pattern(i, sizes[i]));
              }
              HORING_TRY(rank.run({[&, link]() -> Result<bool> {
                for (; k < sizes.size(); ++k) {
                  const ConstBytes part(payloads[k]);
                  HORING_ASSIGN(const bool sent,
                                link->try_send(frame_of(static_cast<uint32_t>(k), sizes[k]),
                                               std::span(&part, 1)));
                  if (!sent) {
                    return false;
                  }
                }
                return link->released() == sizes.size();
              }}));
              return {};
            }
            return rank.run({[&, link]() -> Result<bool> {
              for (; k < sizes.size(); ++k) {
                const Frame expected = frame_of(static_cast<uint32_t>(k), sizes[k]);
                if (payload.empty()) {
                  HORING_ASSIGN(const auto seen, link->try_peek(k % 2 == 0));
                  if (!seen.has_value()) {
                    return false;
                  }
                  HORING_ASSIGN(const auto again, link->try_peek(false));
                  if (seen != expected || again != seen) {
                    return Status(StatusCode::kInternal, "a peek shows another header");
                  }
                  payload.resize(sizes[k]);
                }
                const Bytes part(payload);
                HORING_ASSIGN(const bool came, link->try_recv(expected, std::span(&part, 1)));
                if (!came) {
                  return false;
                }
                HORING_TRY(check_pattern(k, payload));
                payload.clear();
              }
              return true;
            }});
          }) == "");
}

// The sender runs ahead until it is held back; only then does the receiver begin.
void check_back_pressure(const UnderTest& under_test) {
  constexpr uint32_t kMessages = 1024;
  constexpr size_t kBytes = 65536;
  std::atomic<bool> held_back = false;
  const std::vector<std::byte> payload = pattern(5, kBytes);
  const std::string errors = run_ranks(under_test, 2, [&](Rank& rank) -> Status {
    HORING_ASSIGN(Link * link, rank.link(1 - rank.self.value()));
    uint32_t k = 0;
    if (rank.self.value() == 0) {
      HORING_TRY(rank.run({[&, link]() -> Result<bool> {
        const ConstBytes part(payload);
        while (k < kMessages) {
          HORING_ASSIGN(const bool sent, link->try_send(frame_of(k, kBytes), std::span(&part, 1)));
          if (!sent) {
            // The link is open once something was accepted.
            held_back = held_back || k > 0 || under_test.opens_at_once;
            return false;
          }
          ++k;
        }
        return link->released() == kMessages;
      }}));
      return {};
    }
    while (!held_back) {  // keeps the connection's set-up going, receives nothing
      HORING_TRY(rank.transport->progress());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::vector<std::byte> into(kBytes);
    return rank.run({[&, link]() -> Result<bool> {
      const Bytes part(into);
      for (; k < kMessages; ++k) {
        HORING_ASSIGN(const bool got, link->try_recv(frame_of(k, kBytes), std::span(&part, 1)));
        if (!got) {
          return false;
        }
        if (into != payload) {
          return Status(StatusCode::kInternal, "message " + std::to_string(k) + " differs");
        }
      }
      return true;
    }});
  });
  REQUIRE(errors == "");
  REQUIRE(held_back.load());
}

void check_mismatch(const UnderTest& under_test) {
  const std::string errors = run_ranks(under_test, 2, [&](Rank& rank) -> Status {
    HORING_ASSIGN(Link * link, rank.link(1 - rank.self.value()));
    if (rank.self.value() == 0) {
      return rank.run({send_all(link, 1, {64})});
    }
    std::vector<std::byte> into(64 + 16, std::byte{0x5a});
    const Bytes part = Bytes(into).first(64);
    Frame expected = frame_of(0, 64);
    expected.sequence = 2;
    for (int attempt = 0; attempt < 2; ++attempt) {  // the link keeps returning its error
      const Status status = rank.run(
          {[&, link]() -> Result<bool> { return link->try_recv(expected, std::span(&part, 1)); }});
      if (status.code() != StatusCode::kMismatch) {
        return {StatusCode::kInternal, "expected a mismatch, got " + status.to_string()};
      }
    }
    for (size_t i = 64; i < into.size(); ++i) {
      if (into[i] != std::byte{0x5a}) {
        return {StatusCode::kInternal, "wrote outside of the parts"};
      }
    }
    return {};
  });
  REQUIRE(errors == "");
}

void check_soak(const UnderTest& under_test) {
  std::mt19937 random(20240521);  // NOLINT: the same run every time
  std::vector<size_t> sizes;
  sizes.reserve(400);
  for (int i = 0; i < 400; ++i) {
    sizes.push_back(random() % (size_t{1} << (random() % 18)));
  }
  for (const size_t send_parts : {size_t{1}, size_t{9}}) {
    REQUIRE(run_ranks(under_test, 3, [&](Rank& rank) {
              return all_pairs(
                  rank,
                  sizes,
                  2,
                  [&](size_t k) { return static_cast<Shape>((k + rank.self.value()) % 3); },
                  send_parts);
            }) == "");
  }
}

// A ring: each rank sends on what it has received, so any lost wake-up stops all.
void check_ping_pong(const UnderTest& under_test) {
  const std::string errors = run_ranks(under_test, 3, [&](Rank& rank) -> Status {
    const uint32_t me = rank.self.value();
    HORING_ASSIGN(Link * ahead, rank.link((me + 1) % 3));
    HORING_ASSIGN(Link * behind, rank.link((me + 2) % 3));
    for (uint32_t k = 0; k < 300; ++k) {
      const size_t size = k % 2 == 0 ? 8 : 9000;
      const auto receive = [&] {
        return rank.run({[&, got = std::vector<std::byte>(size)]() mutable -> Result<bool> {
          const Bytes part(got);
          return behind->try_recv(frame_of(k, size), std::span(&part, 1));
        }});
      };
      if (me != 0) {
        HORING_TRY(receive());
      }
      const std::vector<std::byte> payload = pattern(k, size);
      const ConstBytes part(payload);
      HORING_TRY(rank.run({[&]() -> Result<bool> {
        return ahead->try_send(frame_of(k, size), std::span(&part, 1));
      }}));
      if (me == 0) {
        HORING_TRY(receive());
      }
      HORING_TRY(rank.run({[&]() -> Result<bool> { return ahead->released() == k + 1; }}));
    }
    return {};
  });
  REQUIRE(errors == "");
}

void check_lost_peer(const UnderTest& under_test) {
  constexpr size_t kBytes = size_t{32} << 20;
  const std::string errors = run_ranks(under_test, 2, [&](Rank& rank) -> Status {
    HORING_ASSIGN(Link * link, rank.link(1 - rank.self.value()));
    std::vector<std::byte> bytes(kBytes);
    if (rank.self.value() == 1) {
      // Part of a message, then gone.
      HORING_TRY(rank.run({send_all(link, 1, {16})}));
      const ConstBytes part(bytes);
      HORING_TRY(link->try_send(frame_of(1, kBytes), std::span(&part, 1)).status());
      const bool sent = link->released() == 2;
      rank.transport.reset();
      HORING_TRY(rank.exchange->barrier(1));
      return sent ? Status(StatusCode::kInternal, "the message was too small for the test")
                  : Status();
    }
    HORING_TRY(rank.run({receive_all(link, 1, {16}, [](size_t) { return Shape::kWhole; })}));
    HORING_TRY(rank.exchange->barrier(0));  // reads nothing of it before the peer is gone
    const Status status = rank.run({[&, link]() -> Result<bool> {
      const Bytes part(bytes);
      return link->try_recv(frame_of(1, kBytes), std::span(&part, 1));
    }});
    const bool expected =
        status.code() == StatusCode::kPeerLost || status.code() == StatusCode::kConnection;
    return expected ? Status()
                    : Status(StatusCode::kInternal, "expected an error, got " + status.to_string());
  });
  REQUIRE(errors == "");
}

}  // namespace

void run_suite(const UnderTest& under_test) {
  SECTION("a peek shows the next header and takes nothing") {
    check_peek(under_test);
  }
  SECTION("every size and shape passes, both directions at once") {
    check_shapes(under_test);
  }
  SECTION("many channels and peers keep their messages apart") {
    check_channels(under_test);
  }
  SECTION("a sender far ahead is held back and loses nothing") {
    check_back_pressure(under_test);
  }
  SECTION("a message of another operation is a mismatch") {
    check_mismatch(under_test);
  }
  SECTION("random sizes and shapes pass") {
    check_soak(under_test);
  }
  SECTION("a chain of dependent messages loses no wake-up") {
    check_ping_pong(under_test);
  }
  if (under_test.reports_lost_peer) {
    SECTION("a peer that vanishes inside a message is an error") {
      check_lost_peer(under_test);
    }
  }
}

}  // namespace ho::conformance
