#include "base/bytes.hpp"

#include <array>
#include <limits>

#include "base/hash.hpp"
#include "catch.hpp"

namespace {

std::vector<std::byte> written() {
  ho::ByteWriter writer;
  writer.number(0x0201, 2);
  writer.text("name that is cut", 4);
  writer.padded_text("ab", 3);
  writer.blob(std::array{std::byte{9}}, 1);
  return writer.take();
}

}  // namespace

TEST_CASE("numbers are little endian and come back with their sign") {
  std::array<std::byte, 8> bytes{};
  ho::store_le(bytes, 1, uint32_t{0x04030201});
  for (size_t i = 0; i < 4; ++i) {
    CHECK(bytes.at(i + 1) == static_cast<std::byte>(i + 1));
  }
  CHECK(bytes.at(5) == std::byte{0});
  for (const int64_t value : {int64_t{-2}, std::numeric_limits<int64_t>::min(), int64_t{7}}) {
    ho::store_le(bytes, 0, value);
    CHECK(ho::load_le<int64_t>(bytes, 0) == value);
  }
}

TEST_CASE("a reader gives back what a writer wrote") {
  const auto bytes = written();
  ho::ByteReader reader(bytes);
  CHECK(reader.number<uint16_t>() == 0x0201);
  CHECK(ho::as_text(reader.blob(4)) == "name");
  CHECK(ho::as_text(reader.bytes(3)) == std::string_view("ab\0", 3));
  CHECK(reader.blob(1, 1).front() == std::byte{9});
  CHECK(reader.left() == 0);
  reader.finish();
  CHECK(reader.ok());
}

TEST_CASE("bytes that are cut off anywhere are a fault, and nothing is read after it") {
  const auto bytes = written();
  for (size_t length = 0; length < bytes.size(); ++length) {
    INFO(length);
    ho::ByteReader reader{std::span(bytes).first(length)};
    (void)reader.number<uint16_t>("a number");
    (void)reader.blob(4);
    (void)reader.bytes(3);
    (void)reader.blob(1, 1);
    CHECK_FALSE(reader.ok());
    CHECK(reader.left() == 0);
    CHECK(reader.number<uint64_t>() == 0);
  }
  ho::ByteReader reader{std::span(bytes).first(1)};
  (void)reader.number<uint16_t>("a number");
  CHECK(reader.fault() == "ends inside a number");
}

TEST_CASE("lengths and counts of a peer are held against what is there and what may be") {
  const std::array<std::byte, 6> bytes{std::byte{2}, {}, {}, {}, std::byte{1}, std::byte{1}};
  SECTION("a blob over its limit is a fault") {
    ho::ByteReader reader(bytes);
    CHECK(reader.blob(1).empty());
    CHECK(reader.fault() == "holds 2 bytes where at most 1 may be");
  }
  SECTION("a blob beyond the end is a fault") {
    ho::ByteReader reader{std::span(bytes).first(5)};
    CHECK(reader.blob(8).empty());
    CHECK(reader.fault() == "ends early");
  }
  SECTION("more elements than there can be are a fault") {
    ho::ByteReader reader(bytes);
    CHECK(reader.count(100, 2) == 0);
    CHECK(reader.fault() == "claims 2 elements, more than it can hold");
  }
  SECTION("as many elements as there can be are read") {
    ho::ByteReader reader(bytes);
    CHECK(reader.count(100, 1) == 2);
    CHECK(reader.left() == 2);
  }
  SECTION("more bytes than fields are a fault") {
    ho::ByteReader reader(bytes);
    (void)reader.number<uint32_t>();
    reader.finish();
    CHECK(reader.fault() == "has 2 bytes too many");
  }
}

TEST_CASE("the first fault is the one that stays") {
  ho::ByteReader reader({});
  reader.fail("first");
  reader.fail("second");
  (void)reader.number<uint8_t>();
  CHECK(reader.fault() == "first");
}

TEST_CASE("a hash tells orders and cuts apart, and is the same everywhere") {
  const auto of = [](std::string_view one, std::string_view two) {
    return ho::Hash().add(one).add(two).value();
  };
  CHECK(of("ab", "c") != of("a", "bc"));
  CHECK(of("a", "b") != of("b", "a"));
  CHECK(ho::Hash().add(uint64_t{1}).value() != ho::Hash().add(uint64_t{256}).value());
  CHECK(ho::Hash(ho::Hash().add("a").value()).add("b").value() == of("a", "b"));
  // XXH3's own value of nothing.
  CHECK(ho::Hash().add("").value() == 0x2d06800538d394c2U);
}
