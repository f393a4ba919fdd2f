#include "base/bytes.hpp"

#include <algorithm>

namespace ho {

std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  std::byte difference{a.size() != b.size()};
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == std::byte{0};
}

std::span<const std::byte> ByteReader::bytes(size_t count, std::string_view field) {
  if (count > left()) {
    fail(field.empty() ? "ends early" : "ends inside " + std::string(field));
    return {};
  }
  const auto found = bytes_.subspan(at_, count);
  at_ += count;
  return found;
}

std::span<const std::byte> ByteReader::blob(size_t max_bytes,
                                            size_t width,
                                            std::string_view field) {
  uint64_t length = 0;
  for (size_t i = 0; const std::byte byte : bytes(width, field)) {
    length |= std::to_integer<uint64_t>(byte) << (8 * i++);
  }
  if (length > max_bytes) {
    fail("holds " + std::to_string(length) + " bytes where at most " + std::to_string(max_bytes) +
         " may be");
    return {};
  }
  return bytes(length, field);
}

size_t ByteReader::count(size_t max_count, size_t element_bytes) {
  const size_t value = number<uint32_t>();
  if (value > max_count || value > left() / element_bytes) {
    fail("claims " + std::to_string(value) + " elements, more than it can hold");
    return 0;
  }
  return value;
}

void ByteReader::fail(std::string fault) {
  if (ok()) {
    fault_ = std::move(fault);
  }
}

void ByteReader::finish() {
  if (left() != 0) {
    fail("has " + std::to_string(left()) + " bytes too many");
  }
}

}  // namespace ho
