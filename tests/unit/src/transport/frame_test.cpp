#include "transport/frame.hpp"

#include "catch.hpp"

namespace ho {
namespace {

Frame sample() {
  Frame frame;
  frame.collective = 1;
  frame.algorithm = 3;
  frame.dtype = 7;
  frame.op = 0;
  frame.phase = 2;
  frame.flags = kFp32Sums;
  frame.communicator = 0x1234;
  frame.digest = 0x5678;
  frame.sequence = 0x89abcdef;
  frame.op_index = 0x76543210;
  frame.payload_bytes = kMaxPayloadBytes;
  frame.count = 0x1122334455667788ULL;
  return frame;
}

TEST_CASE("a frame survives its encoding") {
  const FrameBytes bytes = encode(sample());
  const auto decoded = decode(bytes);
  REQUIRE(decoded.ok());
  REQUIRE(*decoded == sample());
}

TEST_CASE("frames with a wrong magic, type, flag or length are refused") {
  const FrameBytes good = encode(sample());
  for (const size_t offset : {0U, 1U, 7U, 23U}) {
    FrameBytes bad = good;
    bad.at(offset) = std::byte{0x7f};
    const auto decoded = decode(bad);
    REQUIRE_FALSE(decoded.ok());
    REQUIRE(decoded.status().code() == StatusCode::kProtocol);
  }
}

TEST_CASE("every field that differs is a mismatch with both sides' words") {
  const Frame mine = sample();
  REQUIRE(check_expected(mine, mine).ok());
  const auto message = [&](auto change) {
    Frame other = mine;
    change(other);
    const Status status = check_expected(mine, other);
    REQUIRE(status.code() == StatusCode::kMismatch);
    return status.message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  REQUIRE(has(message([](Frame& f) { f.collective = 0; }), "all_gather"));
  REQUIRE(has(message([](Frame& f) { f.sequence = 12; }), "#12"));
  REQUIRE(has(message([](Frame& f) { f.count = 31; }), "31"));
  REQUIRE(has(message([](Frame& f) { f.dtype = 2; }), "int32"));
  REQUIRE(has(message([](Frame& f) { f.op = 2; }), "max"));
  REQUIRE(has(message([](Frame& f) { f.communicator = 9; }), "communicator 9"));
  REQUIRE(has(message([](Frame& f) { f.algorithm = 1; }), "algorithm multi_ring"));
  REQUIRE(has(message([](Frame& f) { f.flags = 0; }), "fp32_sums is set on this rank"));
  REQUIRE(has(message([](Frame& f) { f.flags |= kLabelled; }), "a label is set on the peer"));
  REQUIRE(has(message([](Frame& f) { f.digest = 1; }), "other counts per rank"));
  REQUIRE(has(message([](Frame& f) { f.payload_bytes = 77; }), "77 bytes"));
  REQUIRE(has(message([](Frame& f) { f.op_index = 78; }), "message 78"));
  message([](Frame& f) { f.phase = 9; });
}

TEST_CASE("different roots are named, the peer's and the own one") {
  for (const uint8_t rooted : {uint8_t{3}, uint8_t{5}, uint8_t{6}, uint8_t{7}}) {
    Frame mine = sample();
    mine.collective = rooted;
    mine.digest = 4;
    Frame other = mine;
    other.digest = 65535;
    REQUIRE(check_expected(mine, other)
                .message()
                .find("peer passed root 65535, this rank root 4; pass the same") !=
            std::string::npos);
  }
}

TEST_CASE("different labels are told, as what else the digest has") {
  Frame mine = sample();
  mine.flags |= kLabelled;
  Frame other = mine;
  other.digest = 1;
  REQUIRE(decode(encode(mine)).ok());
  const std::string text = check_expected(mine, other).message();
  REQUIRE(text.find("peer passed another label, or other counts per rank") != std::string::npos);
}

}  // namespace
}  // namespace ho
