// What two ends say before messages go on, which attempt counts, and over which rails they go.
#include "transport/tcp/resume.hpp"

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "has.hpp"
#include "transport/tcp/paths.hpp"

namespace ho::tcp {
namespace {

Frame frame_of(Frame::Type type, uint32_t epoch, uint64_t count) {
  Frame frame;
  frame.type = type;
  frame.sequence = epoch;
  frame.count = count;
  return frame;
}

// Takes the next frame that one end has to say.
Frame next_from(Resume& end) {
  const auto bytes = end.unwritten();
  REQUIRE(bytes.size() >= kFrameBytes);
  const auto frame = decode(std::span<const std::byte, kFrameBytes>(bytes.data(), kFrameBytes));
  REQUIRE(frame.ok());
  end.wrote(kFrameBytes);
  return *frame;
}

}  // namespace

TEST_CASE("both ends come over, then count, and only then may messages follow") {
  Resume left(6, 3);
  Resume right(6, 3);
  const auto hears = [](Resume& end, const Frame& frame, uint64_t received) {
    CHECK(frame.communicator == 3);
    const auto then = end.on_frame(frame);
    REQUIRE(then.ok());
    if (*then == Resume::Then::kState) {
      CHECK_FALSE(end.stated());
      end.state_count(received);
    }
  };
  hears(right, next_from(left), 7);
  hears(left, next_from(right), 9);
  CHECK(right.stated());
  CHECK_FALSE(right.peer_counted());
  hears(left, next_from(right), 0);
  CHECK(left.peer_counted());
  CHECK(left.peer_count() == 7);
  CHECK_FALSE(left.complete());  // its own count has not left
  hears(right, next_from(left), 0);
  CHECK(left.complete());
  CHECK(right.complete());
  CHECK(right.peer_count() == 9);
}

TEST_CASE("a peer that says something else, or in another order, is refused") {
  const auto refused = [](std::vector<Frame> frames) {
    Resume end(4, 0);
    Status last;
    for (size_t i = 0; i < frames.size(); ++i) {
      last = end.on_frame(frames[i]).status();
      CHECK(last.ok() == (i + 1 < frames.size()));
    }
    CHECK(last.code() == StatusCode::kProtocol);
    return last;
  };
  const Frame comes = frame_of(Frame::Type::kSwitch, 4, 0);
  const Frame counts = frame_of(Frame::Type::kCount, 4, 1);
  CHECK(has(refused({counts}), "a count where none is due"));
  CHECK(has(refused({comes, comes}), "comes over twice"));
  CHECK(has(refused({comes, counts, counts}), "a count where none is due"));
  CHECK(
      has(refused({frame_of(Frame::Type::kSwitch, 6, 0)}), "of epoch 6 on connections of epoch 4"));
  CHECK(has(refused({comes, frame_of(Frame::Type::kData, 4, 0)}), "before the peer has counted"));
  CHECK(has(refused({frame_of(Frame::Type::kCloseHint, 4, 0)}), "before the peer has counted"));
  Frame loaded = comes;
  loaded.payload_bytes = 1;
  CHECK(has(refused({loaded}), "payload"));
}

TEST_CASE("attempts of the two ends never have one epoch, and a new one is above all that were") {
  Epochs opener(true);
  Epochs other(false);
  CHECK(opener.begin() == 2);
  CHECK(other.begin() == 3);
  CHECK(opener.newer(1));
  opener.adopt(3);
  other.adopt(3);
  CHECK_FALSE(opener.newer(3));
  CHECK_FALSE(opener.newer(2));
  CHECK(opener.begin() == 4);
  CHECK(other.begin() == 5);
  for (const uint32_t seen : {10U, 11U, 11U, 4U}) {
    opener.saw(seen);
    other.saw(seen);
  }
  CHECK(opener.begin() == 12);
  CHECK(other.begin() == 13);
  CHECK(opener.current() == 3);
}

TEST_CASE("the own rail is tried first, then equal rails, then each pair of rails once") {
  for (const size_t own : {size_t{1}, size_t{2}, size_t{4}}) {
    for (const size_t peer : {size_t{1}, size_t{3}, size_t{4}}) {
      const size_t common = std::min(own, peer);
      for (uint32_t rail = 0; rail < common; ++rail) {
        const auto paths = paths_from(RailIndex(rail), own, peer);
        INFO(own << " and " << peer << " rails, from rail " << rail);
        CHECK(std::set(paths.begin(), paths.end()).size() == own * peer);
        CHECK(paths.size() == own * peer);
        CHECK(paths.front() == Path{RailIndex(rail), RailIndex(rail)});
        for (size_t i = 0; i < paths.size(); ++i) {
          CHECK((paths[i].own == paths[i].peer) == (i < common));
        }
      }
    }
  }
}

}  // namespace ho::tcp
