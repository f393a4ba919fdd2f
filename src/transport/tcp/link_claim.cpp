#include "transport/tcp/link_claim.hpp"

#include "base/bytes.hpp"

namespace ho::tcp {
namespace {

constexpr uint8_t kClaimVersion = 1;

Status refuse(std::string text) {
  return {StatusCode::kMismatch, std::move(text)};
}

}  // namespace

std::array<std::byte, kClaimBytes> encode(const LinkClaim& claim) {
  std::array<std::byte, kClaimBytes> bytes{};
  store_le(bytes, 0, kClaimVersion);
  store_le(bytes, 1, claim.channel);
  store_le(bytes, 2, claim.communicator);
  store_le(bytes, 4, claim.from.value());
  store_le(bytes, 8, claim.to.value());
  store_le(bytes, 12, claim.rail.value());
  store_le(bytes, 16, claim.job_id);
  store_le(bytes, 24, claim.connection);
  store_le(bytes, 25, claim.connection_count);
  return bytes;
}

Result<LinkClaim> decode_claim(std::span<const std::byte> bytes) {
  if (bytes.size() != kClaimBytes || load_le<uint8_t>(bytes, 0) != kClaimVersion) {
    return Status(StatusCode::kProtocol, "the claim is not one of a data connection");
  }
  LinkClaim claim;
  claim.channel = load_le<uint8_t>(bytes, 1);
  claim.communicator = load_le<uint16_t>(bytes, 2);
  claim.from = GlobalRank(load_le<uint32_t>(bytes, 4));
  claim.to = GlobalRank(load_le<uint32_t>(bytes, 8));
  claim.rail = RailIndex(load_le<uint32_t>(bytes, 12));
  claim.job_id = load_le<uint64_t>(bytes, 16);
  claim.connection = load_le<uint8_t>(bytes, 24);
  claim.connection_count = load_le<uint8_t>(bytes, 25);
  return claim;
}

bool opens(GlobalRank one, GlobalRank other, uint8_t channel) {
  return channel == kHigherMessageChannel ? one > other : one < other;
}

Status check_claim(const LinkClaim& claim, const TcpOptions& options) {
  const std::string self = "rank " + std::to_string(options.self.value());
  if (claim.job_id != options.job_id) {
    return refuse(self + " belongs to another job (or to another start of this one)");
  }
  if (claim.to != options.self) {
    return refuse("this is " + self + ", and the connection is for rank " +
                  std::to_string(claim.to.value()));
  }
  if (claim.channel >= kLinkChannelCount) {
    return refuse("channel " + std::to_string(claim.channel) + " does not exist");
  }
  if (!opens(claim.from, options.self, claim.channel) || claim.from.value() >= options.world_size) {
    return refuse("rank " + std::to_string(claim.from.value()) + " does not connect to " + self +
                  " in a world of " + std::to_string(options.world_size));
  }
  if (claim.communicator != options.communicator) {
    return refuse("this port serves communicator " + std::to_string(options.communicator) +
                  ", not " + std::to_string(claim.communicator));
  }
  if (claim.rail.at() >= options.rails.size()) {
    return refuse(self + " has " + std::to_string(options.rails.size()) + " rails, so none with " +
                  "index " + std::to_string(claim.rail.value()));
  }
  if (claim.connection_count != options.connections_per_link ||
      claim.connection >= options.connections_per_link) {
    return refuse("rank " + std::to_string(claim.from.value()) + " uses " +
                  std::to_string(claim.connection_count) +
                  " connections per link (this is number " + std::to_string(claim.connection) +
                  "), " + self + " " + std::to_string(options.connections_per_link) +
                  "; set the same HORING_TCP_STREAMS on all ranks");
  }
  return {};
}

}  // namespace ho::tcp
