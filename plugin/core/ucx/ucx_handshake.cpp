#include "core/ucx/ucx_handshake.hpp"

#include <algorithm>

#include "auth/printable.hpp"
#include "base/bytes.hpp"

namespace ho::plugin {
namespace {

// magic 8, secret 4, length of who 2, zero 2, nonce 16, who, address
constexpr uint64_t kMagic = 0x0a0d5843554e524f;  // "ORNUCX\r\n"
constexpr size_t kSecretAt = 8;
constexpr size_t kWhoBytesAt = 12;
constexpr size_t kNonceAt = 16;
constexpr size_t kWhoAt = 32;
constexpr size_t kMaxWhoBytes = 256;

}  // namespace

std::vector<std::byte> encode(const UcxHandshake& handshake) {
  const std::string who = handshake.who.substr(0, kMaxWhoBytes);
  std::vector<std::byte> bytes(kWhoAt);
  store_le(bytes, 0, kMagic);
  store_le(bytes, kSecretAt, handshake.secret);
  store_le(bytes, kWhoBytesAt, static_cast<uint16_t>(who.size()));
  std::ranges::copy(handshake.nonce, bytes.begin() + kNonceAt);
  const auto letters = std::as_bytes(std::span(who));
  bytes.insert(bytes.end(), letters.begin(), letters.end());
  bytes.insert(bytes.end(), handshake.address.begin(), handshake.address.end());
  return bytes;
}

Result<UcxHandshake> decode_handshake(std::span<const std::byte> bytes) {
  const auto bad = [](const char* what) {
    return Status(StatusCode::kProtocol,
                  std::string("the other end's handshake ") + what +
                      "; all ranks must load the same release of the plugin");
  };
  if (bytes.size() <= kWhoAt || load_le<uint64_t>(bytes, 0) != kMagic) {
    return bad("does not begin as one");
  }
  const size_t who_bytes = load_le<uint16_t>(bytes, kWhoBytesAt);
  UcxHandshake handshake;
  handshake.secret = load_le<uint32_t>(bytes, kSecretAt);
  if (who_bytes > kMaxWhoBytes || bytes.size() <= kWhoAt + who_bytes ||
      handshake.secret > kMaxSecret) {
    return bad("is cut off or damaged");
  }
  std::copy_n(bytes.begin() + kNonceAt, handshake.nonce.size(), handshake.nonce.begin());
  handshake.who =
      printable({reinterpret_cast<const char*>(bytes.data()) + kWhoAt, who_bytes}, who_bytes);
  const auto address = bytes.subspan(kWhoAt + who_bytes);
  handshake.address.assign(address.begin(), address.end());
  return handshake;
}

}  // namespace ho::plugin
