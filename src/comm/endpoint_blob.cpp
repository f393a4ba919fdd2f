#include "comm/endpoint_blob.hpp"

#include <string>

namespace ho {
namespace {

// Numeric IPv6 with scope, generously.
constexpr size_t kLongestAddress = 80;

Status malformed(const std::string& what) {
  return {StatusCode::kProtocol, "endpoint: " + what};
}

}  // namespace

// port (2 bytes, little endian), then per rail: length (1 byte), address
std::vector<std::byte> encode(const TcpEndpoint& endpoint) {
  std::vector<std::byte> blob;
  blob.push_back(static_cast<std::byte>(endpoint.port & 0xff));
  blob.push_back(static_cast<std::byte>(endpoint.port >> 8));
  for (const std::string& address : endpoint.rail_addresses) {
    const std::string_view text = std::string_view(address).substr(0, kLongestAddress);
    blob.push_back(static_cast<std::byte>(text.size()));
    for (const char character : text) {
      blob.push_back(static_cast<std::byte>(character));
    }
  }
  return blob;
}

Result<TcpEndpoint> parse_endpoint(std::span<const std::byte> blob, size_t rail_count) {
  if (blob.size() < 2) {
    return malformed("too short");
  }
  TcpEndpoint endpoint;
  endpoint.port = static_cast<uint16_t>(std::to_integer<unsigned>(blob[0]) |
                                        std::to_integer<unsigned>(blob[1]) << 8);
  blob = blob.subspan(2);
  while (!blob.empty()) {
    const auto length = std::to_integer<size_t>(blob[0]);
    if (length > kLongestAddress || length + 1 > blob.size()) {
      return malformed("an address that is longer than the rest");
    }
    std::string address;
    for (const std::byte byte : blob.subspan(1, length)) {
      address.push_back(static_cast<char>(byte));
    }
    endpoint.rail_addresses.push_back(std::move(address));
    blob = blob.subspan(1 + length);
    if (endpoint.rail_addresses.size() > rail_count) {
      break;
    }
  }
  if (endpoint.rail_addresses.size() != rail_count) {
    return malformed("has " + std::to_string(endpoint.rail_addresses.size()) + " rails where " +
                     std::to_string(rail_count) + " were agreed on");
  }
  return endpoint;
}

}  // namespace ho
