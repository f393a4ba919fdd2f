// Lines of text: what it is and its version, then
//   key SECRET, and a rendezvous file's text     rank 0 listens
//   over                                         all ranks have come
//   error CODE TEXT                              rank 0 could not go on
#include "bootstrap/rendezvous/store_value.hpp"

#include "auth/printable.hpp"
#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr std::string_view kMark = "horing store ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kKey = "key ";
constexpr std::string_view kOver = "over";
constexpr std::string_view kError = "error ";
constexpr size_t kMaxSecretTextBytes = 128;
constexpr size_t kMaxErrorTextBytes = 1000;

// Up to its newline, which is removed too; not ok where there is none.
Result<std::string_view> take_line(std::string_view& text) {
  const size_t newline = text.find('\n');
  if (newline == std::string_view::npos) {
    return Status(StatusCode::kProtocol, "is cut off");
  }
  const std::string_view line = text.substr(0, newline);
  text.remove_prefix(newline + 1);
  return line;
}

Result<StoreValue> parse_failure(std::string_view line) {
  const size_t blank = line.find(' ');
  const auto code = whole_number<uint8_t>(line.substr(0, blank));
  if (blank == std::string_view::npos || code.value_or(0) == 0 ||
      *code > static_cast<uint8_t>(StatusCode::kInternal)) {
    return Status(StatusCode::kProtocol, "has an error without a status");
  }
  return StoreValue(StoreFailure{static_cast<StatusCode>(*code),
                                 printable(line.substr(blank + 1), kMaxErrorTextBytes)});
}

Result<StoreValue> parse_offer(std::string_view secret, std::string_view rest) {
  if (secret.size() > kMaxSecretTextBytes) {
    return Status(StatusCode::kProtocol, "has a job key that is too long");
  }
  auto rank_0 = parse_rendezvous_file(rest);
  if (!rank_0.ok()) {
    return Status(StatusCode::kProtocol, "has no list of addresses: " + rank_0.status().message());
  }
  return StoreValue(StoreOffer{std::string(secret), *std::move(rank_0)});
}

struct Writer {
  std::string operator()(const StoreOffer& offer) const {
    return std::string(kKey) + offer.secret + "\n" + rendezvous_file_text(offer.rank_0);
  }
  std::string operator()(const StoreOver& /*over*/) const { return std::string(kOver) + "\n"; }
  std::string operator()(const StoreFailure& failure) const {
    return std::string(kError) + std::to_string(static_cast<int>(failure.code)) + " " +
           printable(failure.text, kMaxErrorTextBytes) + "\n";
  }
};

}  // namespace

std::string store_value_text(const StoreValue& value) {
  return std::string(kMark) + std::string(kVersion) + "\n" + std::visit(Writer{}, value);
}

Result<StoreValue> parse_store_value(std::string_view text) {
  if (text.size() > kMaxStoreValueBytes) {
    return Status(StatusCode::kProtocol, "is too long: " + std::to_string(text.size()) + " bytes");
  }
  if (!text.starts_with(kMark)) {
    return Status(StatusCode::kProtocol, "was not written by HO-Ring");
  }
  HORING_ASSIGN(const std::string_view head, take_line(text));
  const std::string_view version = head.substr(kMark.size());
  if (version != kVersion) {
    return Status(StatusCode::kProtocol,
                  "was written by another version of HO-Ring (format " + printable(version, 16) +
                      ", here " + std::string(kVersion) + ")");
  }
  HORING_ASSIGN(const std::string_view line, take_line(text));
  if (line.starts_with(kKey)) {
    return parse_offer(line.substr(kKey.size()), text);
  }
  if (line == kOver) {
    return StoreValue(StoreOver{});
  }
  if (line.starts_with(kError)) {
    return parse_failure(line.substr(kError.size()));
  }
  return Status(StatusCode::kProtocol, "has a line that makes no sense: " + printable(line, 64));
}

}  // namespace ho
