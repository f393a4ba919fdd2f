// Layout, little-endian: magic "HOC3"; host id, host name; nics (name, speed u64, distance u8,
// addresses); dropped (name, reason); settings (name, value); local rank u32, whether it has a
// device u8, and only then the device's UUID and PCI bus id. A text is a length byte and that many
// characters, a list a count byte and its items.
#include "topo/blob.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/bytes.hpp"
#include "topo/address.hpp"

namespace ho {
namespace {

constexpr std::array kMagic{std::byte{'H'}, std::byte{'O'}, std::byte{'C'}, std::byte{'3'}};
constexpr uint32_t kNoLocalRank = UINT32_MAX;

bool all_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

class Writer : public ByteWriter {
 public:
  Writer() { append(kMagic); }

  void count(size_t value, size_t limit, const char* what) {
    if (value > limit) {
      fail(std::string(what) + ": " + std::to_string(value) + ", at most " + std::to_string(limit));
    }
    number(std::min(value, limit), 1);
  }
  void text(const std::string& value, const char* what) {
    if (value.size() > kMaxRankTextBytes || !all_printable(value)) {
      fail(std::string(what) + " is longer than " + std::to_string(kMaxRankTextBytes) +
           " characters or not printable");
      return;
    }
    ByteWriter::text(value, kMaxRankTextBytes, 1);
  }

  [[nodiscard]] Result<std::vector<std::byte>> finish() {
    HORING_TRY(fault_);
    return take();
  }

 private:
  void fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = invalid("rank info: " + what);
    }
  }

  Status fault_;
};

class Reader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  size_t count(const char* what, size_t limit) {
    const size_t value = number<uint8_t>(what);
    if (value > limit) {
      fail(std::string(what) + ": " + std::to_string(value) + ", at most " + std::to_string(limit));
      return 0;
    }
    return value;
  }
  std::string text(const char* what) {
    std::string value(as_text(blob(kMaxRankTextBytes, 1, what)));
    if (!all_printable(value)) {
      fail(std::string(what) + " is not printable text");
    }
    return value;
  }
  std::string name(const char* what) {
    std::string value = text(what);
    if (value.empty()) {
      fail(std::string(what) + " is empty");
    }
    return value;
  }
};

std::vector<std::string> read_addresses(Reader& reader, const std::string& nic) {
  std::vector<std::string> addresses(reader.count("addresses", kMaxRankAddresses));
  if (addresses.empty()) {
    reader.fail("interface " + nic + " has no address");
  }
  for (std::string& address : addresses) {
    address = reader.text("an address");
    if (!parse_interface_address(address)) {
      reader.fail("'" + address + "' is no address");
    }
  }
  return addresses;
}

RankNic read_nic(Reader& reader) {
  RankNic nic;
  nic.name = reader.name("an interface name");
  nic.speed_mbit = reader.number<uint64_t>("an interface speed");
  nic.distance = reader.number<uint8_t>("an interface distance");
  if (nic.distance > kOtherNumaNode) {
    reader.fail("distance " + std::to_string(nic.distance) + " is out of range");
  }
  nic.addresses = read_addresses(reader, nic.name);
  return nic;
}

std::vector<RankNic> read_nics(Reader& reader) {
  std::vector<RankNic> nics;
  for (size_t left = reader.count("interfaces", kMaxRankNics); left > 0; --left) {
    RankNic nic = read_nic(reader);
    const bool twice =
        std::ranges::any_of(nics, [&](const RankNic& other) { return other.name == nic.name; });
    if (twice) {
      reader.fail("interface " + nic.name + " is in it twice");
    }
    nics.push_back(std::move(nic));
  }
  return nics;
}

}  // namespace

Result<std::vector<std::byte>> encode_rank_info(const RankInfo& info) {
  Writer writer;
  writer.text(info.host_id, "the host identity");
  writer.text(info.host_name, "the host name");
  writer.count(info.nics.size(), kMaxRankNics, "interfaces");
  for (const RankNic& nic : info.nics) {
    writer.text(nic.name, "an interface name");
    writer.number(nic.speed_mbit, 8);
    writer.number(nic.distance, 1);
    writer.count(nic.addresses.size(), kMaxRankAddresses, "addresses");
    for (const std::string& address : nic.addresses) {
      writer.text(address, "an address");
    }
  }
  writer.count(info.dropped.size(), kMaxRankNics, "dropped interfaces");
  for (const DroppedNic& dropped : info.dropped) {
    writer.text(dropped.name, "an interface name");
    writer.text(dropped.reason, "a reason");
  }
  writer.count(info.settings.size(), kMaxRankSettings, "settings");
  for (const Setting& setting : info.settings) {
    writer.text(setting.name, "a setting's name");
    writer.text(setting.value, "a setting's value");
  }
  writer.number(info.local_rank.value_or(kNoLocalRank), 4);
  writer.number(info.device ? 1 : 0, 1);
  if (info.device) {
    writer.text(info.device->uuid, "the device's UUID");
    writer.text(info.device->pci, "the device's PCI bus id");
  }
  return writer.finish();
}

Result<RankInfo> parse_rank_info(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (!std::ranges::equal(reader.bytes(kMagic.size()), kMagic)) {
    reader.fail("does not begin with HOC3");
  }
  RankInfo info;
  info.host_id = reader.name("the host identity");
  info.host_name = reader.name("the host name");
  info.nics = read_nics(reader);
  info.dropped.resize(reader.count("dropped interfaces", kMaxRankNics));
  for (DroppedNic& dropped : info.dropped) {
    dropped.name = reader.name("an interface name");
    dropped.reason = reader.text("a reason");
  }
  info.settings.resize(reader.count("settings", kMaxRankSettings));
  for (Setting& setting : info.settings) {
    setting.name = reader.name("a setting's name");
    setting.value = reader.text("a setting's value");
  }
  if (const auto local_rank = reader.number<uint32_t>("a local rank"); local_rank != kNoLocalRank) {
    info.local_rank = local_rank;
  }
  const auto device = reader.number<uint8_t>("whether it has a device");
  if (device > 1) {
    reader.fail("whether it has a device: " + std::to_string(device));
  }
  if (device == 1) {
    info.device =
        RankDevice{reader.name("the device's UUID"), reader.name("the device's PCI bus id")};
  }
  reader.finish();
  if (!reader.ok()) {
    return Status(StatusCode::kProtocol,
                  "rank info of " + std::to_string(bytes.size()) + " bytes, at byte " +
                      std::to_string(reader.position()) + ": " + reader.fault() +
                      "; do all ranks run the same version of the library?");
  }
  return info;
}

}  // namespace ho
