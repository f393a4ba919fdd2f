#include "transport/ucx/envelope.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace ho::ucx {
namespace {

constexpr size_t kTokenOffset = kFrameBytes;
constexpr size_t kNumbersOffset = kTokenOffset + kTokenBytes;

}  // namespace

EnvelopeBytes encode(const Envelope& envelope) {
  EnvelopeBytes bytes{};
  std::ranges::copy(envelope.frame, bytes.begin());
  std::ranges::copy(envelope.token, bytes.begin() + kTokenOffset);
  const std::span<std::byte> numbers = std::span(bytes).subspan(kNumbersOffset);
  store_le(numbers, 0, envelope.index);
  store_le(numbers, 4, envelope.consumed);
  store_le(numbers, 8, envelope.from.value());
  store_le(numbers, 12, envelope.rail.value());
  store_le(numbers, 16, envelope.communicator);
  store_le(numbers, 18, envelope.channel);
  store_le(numbers, 19, static_cast<uint8_t>(envelope.kind));
  return bytes;
}

Result<Envelope> decode_envelope(std::span<const std::byte> bytes) {
  if (bytes.size() != kEnvelopeBytes) {
    return Status(StatusCode::kProtocol,
                  "ucx message header of " + std::to_string(bytes.size()) + " bytes, not " +
                      std::to_string(kEnvelopeBytes));
  }
  Envelope envelope;
  std::copy_n(bytes.begin(), kFrameBytes, envelope.frame.begin());
  std::copy_n(bytes.begin() + kTokenOffset, kTokenBytes, envelope.token.begin());
  const std::span<const std::byte> numbers = bytes.subspan(kNumbersOffset);
  envelope.index = load_le<uint32_t>(numbers, 0);
  envelope.consumed = load_le<uint32_t>(numbers, 4);
  envelope.from = GlobalRank(load_le<uint32_t>(numbers, 8));
  envelope.rail = RailIndex(load_le<uint32_t>(numbers, 12));
  envelope.communicator = load_le<uint16_t>(numbers, 16);
  envelope.channel = load_le<uint8_t>(numbers, 18);
  const auto kind = load_le<uint8_t>(numbers, 19);
  if (kind > static_cast<uint8_t>(Envelope::Kind::kCredit)) {
    return Status(StatusCode::kProtocol, "ucx message of unknown kind " + std::to_string(kind));
  }
  envelope.kind = static_cast<Envelope::Kind>(kind);
  return envelope;
}

Token token_for(const JobKey& job_key, const LinkKey& key, const TokenScope& scope) {
  std::array<std::byte, 24> link{};
  store_le(std::span(link), 0, scope.job_id);
  store_le(std::span(link), 8, key.peer.value());
  store_le(std::span(link), 12, scope.to.value());
  store_le(std::span(link), 16, key.rail.value());
  store_le(std::span(link), 20, key.communicator);
  store_le(std::span(link), 22, key.channel);
  const std::array<std::span<const std::byte>, 3> parts{
      link, scope.sender_nonce, scope.receiver_nonce};
  const auto hash = job_key.authenticate("ucx link", parts);
  Token token{};
  std::copy_n(hash.begin(), kTokenBytes, token.begin());
  return token;
}

}  // namespace ho::ucx
