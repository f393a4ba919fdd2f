#include "core/ucx/hello.hpp"

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
constexpr size_t kMostWhoBytes = 256;

}  // namespace

std::vector<std::byte> encode(const UcxHello& hello) {
  const std::string who = hello.who.substr(0, kMostWhoBytes);
  std::vector<std::byte> bytes(kWhoAt);
  store_le(bytes, 0, kMagic);
  store_le(bytes, kSecretAt, hello.secret);
  store_le(bytes, kWhoBytesAt, static_cast<uint16_t>(who.size()));
  std::copy(hello.nonce.begin(), hello.nonce.end(), bytes.begin() + kNonceAt);
  const auto letters = std::as_bytes(std::span(who));
  bytes.insert(bytes.end(), letters.begin(), letters.end());
  bytes.insert(bytes.end(), hello.address.begin(), hello.address.end());
  return bytes;
}

Result<UcxHello> decode_hello(std::span<const std::byte> bytes) {
  const auto bad = [](const char* what) {
    return Status(StatusCode::kProtocol,
                  std::string("the other end's greeting ") + what +
                      "; all ranks must load the same release of the plugin");
  };
  if (bytes.size() <= kWhoAt || load_le<uint64_t>(bytes, 0) != kMagic) {
    return bad("does not begin as one");
  }
  const size_t who_bytes = load_le<uint16_t>(bytes, kWhoBytesAt);
  UcxHello hello;
  hello.secret = load_le<uint32_t>(bytes, kSecretAt);
  if (who_bytes > kMostWhoBytes || bytes.size() <= kWhoAt + who_bytes ||
      hello.secret > kMostSecret) {
    return bad("is cut off or damaged");
  }
  std::copy_n(bytes.begin() + kNonceAt, hello.nonce.size(), hello.nonce.begin());
  hello.who =
      printable({reinterpret_cast<const char*>(bytes.data()) + kWhoAt, who_bytes}, who_bytes);
  const auto address = bytes.subspan(kWhoAt + who_bytes);
  hello.address.assign(address.begin(), address.end());
  return hello;
}

}  // namespace ho::plugin
