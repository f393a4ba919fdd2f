// Layout, little-endian: magic "HOC1"; host id, host name; nics (name, speed u64, distance u8,
// addresses); dropped (name, reason); settings (name, value). A text is a length byte and that many
// characters, a list a count byte and its items.
#include "topo/blob.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "topo/address.hpp"

namespace ho {
namespace {

constexpr std::array kMagic{std::byte{'H'}, std::byte{'O'}, std::byte{'C'}, std::byte{'1'}};

class Writer {
 public:
  Writer() : bytes_(kMagic.begin(), kMagic.end()) {}

  void u8(size_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void u64(uint64_t value) {
    for (uint32_t shift = 0; shift < 64; shift += 8) {
      u8((value >> shift) & 0xffU);
    }
  }
  void count(size_t value, size_t limit, const char* what) {
    if (value > limit) {
      fail(std::string(what) + ": " + std::to_string(value) + ", at most " + std::to_string(limit));
    }
    u8(std::min(value, limit));
  }
  void text(const std::string& value, const char* what) {
    const bool printable =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (value.size() > kMaxCardTextBytes || !printable) {
      fail(std::string(what) + " is longer than " + std::to_string(kMaxCardTextBytes) +
           " characters or not printable");
      return;
    }
    u8(value.size());
    for (const char c : value) {
      bytes_.push_back(static_cast<std::byte>(c));
    }
  }

  [[nodiscard]] Result<std::vector<std::byte>> take() {
    if (!fault_.ok()) {
      return fault_;
    }
    return std::move(bytes_);
  }

 private:
  void fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = Status(StatusCode::kInvalidArgument, "rank card: " + what);
    }
  }

  std::vector<std::byte> bytes_;
  Status fault_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] Status error(const std::string& what) const {
    return {StatusCode::kProtocol,
            "rank card of " + std::to_string(bytes_.size()) + " bytes, at byte " +
                std::to_string(at_) + ": " + what +
                "; do all ranks run the same version of the library?"};
  }
  [[nodiscard]] size_t left() const { return bytes_.size() - at_; }

  Status magic() {
    if (left() < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), bytes_.begin())) {
      return error("does not begin with HOC1");
    }
    at_ += kMagic.size();
    return {};
  }
  Status u8(const char* what, uint8_t& value) {
    if (left() < 1) {
      return error(std::string("ends before ") + what);
    }
    value = std::to_integer<uint8_t>(bytes_[at_++]);
    return {};
  }
  Status u64(const char* what, uint64_t& value) {
    if (left() < sizeof(value)) {
      return error(std::string("ends before ") + what);
    }
    value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 8) {
      value |= std::to_integer<uint64_t>(bytes_[at_++]) << shift;
    }
    return {};
  }
  Status count(const char* what, size_t limit, uint8_t& value) {
    HORING_TRY(u8(what, value));
    if (value > limit) {
      return error(std::string(what) + ": " + std::to_string(value) + ", at most " +
                   std::to_string(limit));
    }
    return {};
  }
  Status text(const char* what, std::string& value) {
    uint8_t length = 0;
    HORING_TRY(u8(what, length));
    if (left() < length) {
      return error(std::string("ends inside ") + what);
    }
    value.clear();
    for (const std::byte b : bytes_.subspan(at_, length)) {
      const auto c = std::to_integer<char>(b);
      if (c < ' ' || c > '~') {
        return error(std::string(what) + " is not printable text");
      }
      value += c;
    }
    at_ += length;
    return {};
  }
  Status name(const char* what, std::string& value) {
    HORING_TRY(text(what, value));
    return value.empty() ? error(std::string(what) + " is empty") : Status();
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

Status read_addresses(Reader& reader, CardNic& nic) {
  uint8_t count = 0;
  HORING_TRY(reader.count("addresses", kMaxCardAddresses, count));
  if (count == 0) {
    return reader.error("interface " + nic.name + " has no address");
  }
  for (uint8_t i = 0; i < count; ++i) {
    std::string address;
    HORING_TRY(reader.text("an address", address));
    if (!parse_interface_address(address)) {
      return reader.error("'" + address + "' is no address");
    }
    nic.addresses.push_back(std::move(address));
  }
  return {};
}

Status read_nic(Reader& reader, CardNic& nic) {
  HORING_TRY(reader.name("an interface name", nic.name));
  HORING_TRY(reader.u64("an interface speed", nic.speed_mbit));
  HORING_TRY(reader.u8("an interface distance", nic.distance));
  if (nic.distance > kOtherNumaNode) {
    return reader.error("distance " + std::to_string(nic.distance) + " is out of range");
  }
  return read_addresses(reader, nic);
}

Status read_nics(Reader& reader, std::vector<CardNic>& nics) {
  uint8_t count = 0;
  HORING_TRY(reader.count("interfaces", kMaxCardNics, count));
  for (uint8_t i = 0; i < count; ++i) {
    CardNic nic;
    HORING_TRY(read_nic(reader, nic));
    const bool twice = std::any_of(
        nics.begin(), nics.end(), [&](const CardNic& other) { return other.name == nic.name; });
    if (twice) {
      return reader.error("interface " + nic.name + " is in it twice");
    }
    nics.push_back(std::move(nic));
  }
  return {};
}

Status read_host(Reader& reader, RankCard& card) {
  HORING_TRY(reader.magic());
  HORING_TRY(reader.name("the host identity", card.host_id));
  return reader.name("the host name", card.host_name);
}

Status read_dropped(Reader& reader, std::vector<DroppedNic>& list) {
  uint8_t count = 0;
  HORING_TRY(reader.count("dropped interfaces", kMaxCardNics, count));
  for (uint8_t i = 0; i < count; ++i) {
    DroppedNic& dropped = list.emplace_back();
    HORING_TRY(reader.name("an interface name", dropped.name));
    HORING_TRY(reader.text("a reason", dropped.reason));
  }
  return {};
}

Status read_settings(Reader& reader, std::vector<Setting>& list) {
  uint8_t count = 0;
  HORING_TRY(reader.count("settings", kMaxCardSettings, count));
  for (uint8_t i = 0; i < count; ++i) {
    Setting& setting = list.emplace_back();
    HORING_TRY(reader.name("a setting's name", setting.name));
    HORING_TRY(reader.text("a setting's value", setting.value));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> encode_rank_card(const RankCard& card) {
  Writer writer;
  writer.text(card.host_id, "the host identity");
  writer.text(card.host_name, "the host name");
  writer.count(card.nics.size(), kMaxCardNics, "interfaces");
  for (const CardNic& nic : card.nics) {
    writer.text(nic.name, "an interface name");
    writer.u64(nic.speed_mbit);
    writer.u8(nic.distance);
    writer.count(nic.addresses.size(), kMaxCardAddresses, "addresses");
    for (const std::string& address : nic.addresses) {
      writer.text(address, "an address");
    }
  }
  writer.count(card.dropped.size(), kMaxCardNics, "dropped interfaces");
  for (const DroppedNic& dropped : card.dropped) {
    writer.text(dropped.name, "an interface name");
    writer.text(dropped.reason, "a reason");
  }
  writer.count(card.settings.size(), kMaxCardSettings, "settings");
  for (const Setting& setting : card.settings) {
    writer.text(setting.name, "a setting's name");
    writer.text(setting.value, "a setting's value");
  }
  return writer.take();
}

Result<RankCard> parse_rank_card(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RankCard card;
  HORING_TRY(read_host(reader, card));
  HORING_TRY(read_nics(reader, card.nics));
  HORING_TRY(read_dropped(reader, card.dropped));
  HORING_TRY(read_settings(reader, card.settings));
  if (reader.left() != 0) {
    return reader.error(std::to_string(reader.left()) + " bytes follow its end");
  }
  return card;
}

}  // namespace ho
