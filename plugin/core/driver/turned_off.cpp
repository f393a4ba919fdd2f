#include "core/driver/turned_off.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "auth/printable.hpp"
#include "base/bytes.hpp"
#include "core/driver/process_text.hpp"

namespace ho::plugin {
namespace {

// Magic 8, bytes of `who` 1, bytes of `why` 1, both texts.
constexpr uint64_t kMagic = 0x0a0d46464f524f48;  // "HOROFF\r\n"
constexpr size_t kWhoAt = 8;
constexpr size_t kWhyAt = 9;
constexpr size_t kTextAt = 10;
constexpr size_t kMaxWho = 40;
// Of a handle: the last bytes are notes of whoever connects.
constexpr size_t kHandleText = kHandleBytes - 8 - kTextAt;
constexpr size_t kClaimText = 256 - kTextAt;

// A reason begins with what matters most.
std::string cut(const std::string& text, size_t most) {
  constexpr std::string_view kCut = "...";
  return text.size() <= most ? text : text.substr(0, most - kCut.size()) + std::string(kCut);
}

std::vector<std::byte> bytes_of(const TurnedOff& off, size_t most_text) {
  const std::string who = shortened(off.who, kMaxWho);
  const std::string why = cut(off.why, most_text - who.size());
  ByteWriter writer;
  writer.number(kMagic, sizeof kMagic);
  writer.number(who.size(), 1);
  writer.number(why.size(), 1);
  writer.append(who);
  writer.append(why);
  return writer.take();
}

// Of a peer's bytes: what is not there is left out.
std::string text_at(std::span<const std::byte> bytes, size_t at, size_t count) {
  at = std::min(at, bytes.size());
  const auto part = bytes.subspan(at, std::min(count, bytes.size() - at));
  return printable(as_text(part), part.size());
}

}  // namespace

TurnedOff turned_off_here(const Status& why) {
  return {rank_on_host_text(kMaxWho), why.message()};
}

void encode(const TurnedOff& off, std::span<std::byte, kHandleBytes> handle) {
  std::ranges::fill(handle, std::byte{});
  std::ranges::copy(bytes_of(off, kHandleText), handle.begin());
}

std::vector<std::byte> claim_of(const TurnedOff& off) {
  return bytes_of(off, kClaimText);
}

Status check_not_off(std::span<const std::byte> bytes) {
  if (bytes.size() < kTextAt || load_le<uint64_t>(bytes, 0) != kMagic) {
    return {};
  }
  const auto who = std::to_integer<size_t>(bytes[kWhoAt]);
  const auto why = std::to_integer<size_t>(bytes[kWhyAt]);
  return {StatusCode::kConnection,
          "the plugin of " + text_at(bytes, kTextAt, who) + " has turned itself off: " +
              text_at(bytes, kTextAt + who, why) + "; mend that there (its log says it in full)"};
}

}  // namespace ho::plugin
