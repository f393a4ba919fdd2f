#include "topo/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr size_t kIpv4Bytes = 4;
constexpr size_t kIpv6Bytes = 16;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view take_number(std::string_view text, size_t from) {
  size_t end = from;
  while (end < text.size() && is_digit(text[end])) {
    ++end;
  }
  return text.substr(from, end - from);
}

std::string_view without_zeros(std::string_view digits) {
  const size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view() : digits.substr(first);
}

// A network that several hosts share has room for more than two addresses.
bool shared_network(uint32_t prefix, size_t address_bytes) {
  return prefix + 2 <= address_bytes * 8;
}

std::string network_text(std::array<uint8_t, kIpv6Bytes> bytes, size_t count, uint32_t prefix) {
  for (size_t i = 0; i < count; ++i) {
    const size_t bits_before = i * 8;
    const size_t kept = prefix > bits_before ? std::min<size_t>(8, prefix - bits_before) : 0;
    bytes[i] = static_cast<uint8_t>(bytes[i] & (0xff00U >> kept));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(count == kIpv4Bytes ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return std::string(text.data()) + "/" + std::to_string(prefix);
}

}  // namespace

std::optional<InterfaceAddress> parse_interface_address(std::string_view text) {
  const size_t slash = text.find('/');
  InterfaceAddress address;
  address.host = std::string(text.substr(0, slash));
  address.ipv6 = address.host.find(':') != std::string::npos;
  const size_t count = address.ipv6 ? kIpv6Bytes : kIpv4Bytes;
  std::array<uint8_t, kIpv6Bytes> bytes{};
  if (inet_pton(address.ipv6 ? AF_INET6 : AF_INET, address.host.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  const std::array<uint8_t, kIpv6Bytes> ipv6_loopback{
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  address.loopback = address.ipv6 ? bytes == ipv6_loopback : bytes[0] == 127;
  address.link_local = address.ipv6 && bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80;
  if (slash == std::string_view::npos) {
    return address;
  }
  const auto prefix = whole_number<uint32_t>(text.substr(slash + 1));
  if (!prefix || *prefix > count * 8) {
    return std::nullopt;
  }
  if (shared_network(*prefix, count) && !address.link_local) {
    address.subnet = network_text(bytes, count, *prefix);
  }
  return address;
}

bool natural_less(std::string_view left, std::string_view right) {
  size_t i = 0;
  size_t j = 0;
  while (i < left.size() && j < right.size()) {
    if (!is_digit(left[i]) || !is_digit(right[j])) {
      if (left[i] != right[j]) {
        return left[i] < right[j];
      }
      ++i;
      ++j;
      continue;
    }
    const std::string_view left_digits = take_number(left, i);
    const std::string_view right_digits = take_number(right, j);
    const std::string_view a = without_zeros(left_digits);
    const std::string_view b = without_zeros(right_digits);
    if (a != b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
    i += left_digits.size();
    j += right_digits.size();
  }
  if (i == left.size() && j == right.size()) {
    return left < right;  // "rail01" and "rail1": a total order all the same
  }
  return i == left.size();
}

}  // namespace ho
