// Numbers, texts and blobs as bytes that leave this process: little endian, whatever the host. All
// wire, handle and blob formats are written and read with this. Bytes that arrive are another
// process's: ByteReader checks every length before it uses it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ho {

// For layouts of fixed offsets. The caller has checked that the number lies inside.
template <std::integral Number>
constexpr void store_le(std::span<std::byte> bytes, size_t offset, Number value) {
  const auto wide = static_cast<uint64_t>(static_cast<std::make_unsigned_t<Number>>(value));
  for (size_t i = 0; i < sizeof(Number); ++i) {
    bytes[offset + i] = static_cast<std::byte>((wide >> (8 * i)) & 0xffU);
  }
}

template <std::integral Number>
[[nodiscard]] constexpr Number load_le(std::span<const std::byte> bytes, size_t offset) {
  uint64_t wide = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    wide |= std::to_integer<uint64_t>(bytes[offset + i]) << (8 * i);
  }
  return static_cast<Number>(static_cast<std::make_unsigned_t<Number>>(wide));
}

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Two small hexadecimal digits a byte.
[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);

// Takes equally long wherever the two differ: for secrets.
[[nodiscard]] bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b);

// Appends. The caller keeps texts and blobs within the limits of the format; text() cuts them.
class ByteWriter {
 public:
  void number(uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) {
      bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xffU));
    }
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  void zeros(size_t count) { bytes_.resize(bytes_.size() + count); }
  // A length of `width` bytes, then as many bytes.
  void blob(std::span<const std::byte> bytes, size_t width = sizeof(uint32_t)) {
    number(bytes.size(), width);
    append(bytes);
  }
  void text(std::string_view text, size_t max_bytes, size_t width = sizeof(uint32_t)) {
    blob(std::as_bytes(std::span(text.substr(0, max_bytes))), width);
  }
  // Cut, or filled up with zeros, to `width` bytes.
  void padded_text(std::string_view text, size_t width) {
    const std::string_view kept = text.substr(0, width);
    append(kept);
    zeros(width - kept.size());
  }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Remembers its first fault and from then on returns zeros: a decoder reads all its fields in
// order and checks once, at its end. `field` names what is read, for the fault's text. Views into
// the bytes live as long as these.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral Number>
  [[nodiscard]] Number number(std::string_view field = {}) {
    const auto found = bytes(sizeof(Number), field);
    return found.empty() ? Number{0} : load_le<Number>(found, 0);
  }
  // Exactly so many; none after a fault.
  [[nodiscard]] std::span<const std::byte> bytes(size_t count, std::string_view field = {});
  // What ByteWriter::blob() wrote with a length of `width` bytes.
  [[nodiscard]] std::span<const std::byte> blob(size_t max_bytes,
                                                size_t width = sizeof(uint32_t),
                                                std::string_view field = {});
  // Of elements that take `element_bytes` each at least: never more than the bytes left can hold.
  [[nodiscard]] size_t count(size_t max_count, size_t element_bytes);
  [[nodiscard]] std::span<const std::byte> rest() { return bytes(left()); }

  void fail(std::string fault);
  // Unread bytes are a fault.
  void finish();

  [[nodiscard]] bool ok() const { return fault_.empty(); }
  [[nodiscard]] const std::string& fault() const { return fault_; }
  // Where the next field begins; after a fault, where the faulty one does.
  [[nodiscard]] size_t position() const { return at_; }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] size_t left() const { return ok() ? bytes_.size() - at_ : 0; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string fault_;
};

}  // namespace ho
