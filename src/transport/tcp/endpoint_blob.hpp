// A TCP endpoint as bytes, for the exchange between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho {

[[nodiscard]] std::vector<std::byte> encode(const TcpEndpoint& endpoint);
// Refuses fewer or more rails than that, over-long addresses and trailing bytes.
[[nodiscard]] Result<TcpEndpoint> parse_endpoint(std::span<const std::byte> blob,
                                                 size_t least_rails,
                                                 size_t most_rails);

}  // namespace ho
