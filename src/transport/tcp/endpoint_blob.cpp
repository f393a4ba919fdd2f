#include "transport/tcp/endpoint_blob.hpp"

#include <string>

#include "base/bytes.hpp"

namespace ho {
namespace {

// Numeric IPv6 with scope, generously.
constexpr size_t kLongestAddress = 80;

Status malformed(const std::string& what) {
  return {StatusCode::kProtocol, "endpoint: " + what};
}

}  // namespace

// port (2 bytes), then per rail: length (1 byte), address
std::vector<std::byte> encode(const TcpEndpoint& endpoint) {
  ByteWriter writer;
  writer.number(endpoint.port, 2);
  for (const std::string& address : endpoint.rail_addresses) {
    writer.text(address, kLongestAddress, 1);
  }
  return writer.take();
}

Result<TcpEndpoint> parse_endpoint(std::span<const std::byte> blob,
                                   size_t least_rails,
                                   size_t most_rails) {
  ByteReader reader(blob);
  TcpEndpoint endpoint;
  endpoint.port = reader.number<uint16_t>("the port");
  while (reader.left() != 0 && endpoint.rail_addresses.size() <= most_rails) {
    endpoint.rail_addresses.emplace_back(as_text(reader.blob(kLongestAddress, 1, "an address")));
  }
  if (!reader.ok()) {
    return malformed(reader.fault());
  }
  const size_t rails = endpoint.rail_addresses.size();
  if (rails < least_rails || rails > most_rails) {
    return malformed("has " + std::to_string(rails) + " rails where " +
                     (least_rails == most_rails ? "" : std::to_string(least_rails) + " to ") +
                     std::to_string(most_rails) + " were agreed on");
  }
  return endpoint;
}

}  // namespace ho
