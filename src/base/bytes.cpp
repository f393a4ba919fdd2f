#include "base/bytes.hpp"

namespace ho {

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
