#include "transport/tcp/link_claim.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "transport/tcp/striping.hpp"

namespace ho::tcp {
namespace {

constexpr uint8_t kClaimVersion = 1;
constexpr uint8_t kFailoverVersion = 3;

Status refuse(std::string text) {
  return {StatusCode::kMismatch, std::move(text)};
}

// Each end says how many connections it opens. One with weight 0 only stays open, and the first
// one, over which the ends agree, is none of those.
Status check_share(const LinkClaim& claim) {
  if (claim.connection >= claim.connection_count || claim.connection_count > kMaxLinkConnections ||
      claim.weight < (claim.connection == 0 ? 1 : 0) || claim.weight > kMaxWeight) {
    return refuse("rank " + std::to_string(claim.from.value()) + " opens connection " +
                  std::to_string(claim.connection) + " of " +
                  std::to_string(claim.connection_count) + " with weight " +
                  std::to_string(claim.weight) + "; at most " +
                  std::to_string(kMaxLinkConnections) + " with weights of 0 to " +
                  std::to_string(kMaxWeight) + ", the first from 1, are possible");
  }
  return {};
}

Status check_connection_count(const LinkClaim& claim, const TcpOptions& options) {
  if (claim.connection_count != options.connections_per_link ||
      claim.connection >= options.connections_per_link) {
    return refuse("rank " + std::to_string(claim.from.value()) + " uses " +
                  std::to_string(claim.connection_count) +
                  " connections per link (this is number " + std::to_string(claim.connection) +
                  "), " + "rank " + std::to_string(options.self.value()) + " " +
                  std::to_string(options.connections_per_link) +
                  "; set the same HORING_TCP_STREAMS on all ranks");
  }
  return {};
}

}  // namespace

std::array<std::byte, kClaimBytes> encode(const LinkClaim& claim) {
  std::array<std::byte, kClaimBytes> bytes{};
  store_le(bytes, 0, claim.fails_over ? kFailoverVersion : kClaimVersion);
  store_le(bytes, 1, claim.channel);
  store_le(bytes, 2, claim.communicator);
  store_le(bytes, 4, claim.from.value());
  store_le(bytes, 8, claim.to.value());
  store_le(bytes, 12, claim.rail.value());  // with failover its lower half
  store_le(bytes, 16, claim.job_id);
  store_le(bytes, 24, claim.connection);
  store_le(bytes, 25, claim.connection_count);
  if (claim.fails_over) {
    store_le(bytes, 14, uint16_t{claim.weight});
    store_le(bytes, 26, claim.epoch);
    store_le(bytes, 30, static_cast<uint8_t>(claim.from_rail.value()));
    store_le(bytes, 31, static_cast<uint8_t>(claim.to_rail.value()));
  }
  return bytes;
}

Result<LinkClaim> decode_claim(std::span<const std::byte> bytes) {
  const uint8_t version = bytes.size() == kClaimBytes ? load_le<uint8_t>(bytes, 0) : uint8_t{0};
  if (version != kClaimVersion && version != kFailoverVersion) {
    return Status(StatusCode::kProtocol, "the claim is not one of a data connection");
  }
  LinkClaim claim;
  claim.channel = load_le<uint8_t>(bytes, 1);
  claim.communicator = load_le<uint16_t>(bytes, 2);
  claim.from = GlobalRank(load_le<uint32_t>(bytes, 4));
  claim.to = GlobalRank(load_le<uint32_t>(bytes, 8));
  claim.job_id = load_le<uint64_t>(bytes, 16);
  claim.connection = load_le<uint8_t>(bytes, 24);
  claim.connection_count = load_le<uint8_t>(bytes, 25);
  claim.fails_over = version == kFailoverVersion;
  claim.rail =
      RailIndex(claim.fails_over ? load_le<uint16_t>(bytes, 12) : load_le<uint32_t>(bytes, 12));
  claim.weight = claim.fails_over ? load_le<uint8_t>(bytes, 14) : uint8_t{1};
  claim.from_rail = claim.fails_over ? RailIndex(load_le<uint8_t>(bytes, 30)) : claim.rail;
  claim.to_rail = claim.fails_over ? RailIndex(load_le<uint8_t>(bytes, 31)) : claim.rail;
  claim.epoch = claim.fails_over ? load_le<uint32_t>(bytes, 26) : 0;
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
  if (claim.fails_over != options.failover.on) {
    return refuse("rank " + std::to_string(claim.from.value()) + " runs " +
                  (claim.fails_over ? "without" : "with") + " HORING_FAILOVER=0, " + self +
                  (claim.fails_over ? " with" : " without") + "; set it on all ranks or on none");
  }
  // Either end may open connections anew.
  const bool opener = claim.fails_over || opens(claim.from, options.self, claim.channel);
  if (!opener || claim.from.value() >= options.world_size || claim.from == options.self) {
    return refuse("rank " + std::to_string(claim.from.value()) + " does not connect to " + self +
                  " in a world of " + std::to_string(options.world_size));
  }
  if (claim.communicator != options.communicator) {
    return refuse("this port serves communicator " + std::to_string(options.communicator) +
                  ", not " + std::to_string(claim.communicator));
  }
  const RailIndex highest = std::max(claim.rail, claim.to_rail);
  if (highest.at() >= options.rails.size()) {
    return refuse(self + " has " + std::to_string(options.rails.size()) + " rails, so none with " +
                  "index " + std::to_string(highest.value()));
  }
  return claim.fails_over ? check_share(claim) : check_connection_count(claim, options);
}

}  // namespace ho::tcp
