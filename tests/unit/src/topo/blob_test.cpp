#include "topo/blob.hpp"

#include <random>

#include "catch.hpp"
#include "infos.hpp"

namespace {

ho::RankInfo full_info() {
  ho::RankInfo info = ho::railed_info(3, 4);
  info.nics[1].addresses.emplace_back("fd00::4/64");
  info.dropped = {{"eth0", "dropped: operstate down"}, {"lo", "dropped: loopback"}};
  info.settings = {{"wire version", "1"}, {"HORING_PIECE_BYTES", "131072"}, {"EMPTY", ""}};
  info.local_rank = 5;
  info.device = {"GPU-3f0a", "0000:3b:00.0"};
  return info;
}

}  // namespace

TEST_CASE("infos come back as they were") {
  for (const ho::RankInfo& info : {full_info(), ho::info_on(0, {})}) {
    const auto bytes = ho::encode_rank_info(info);
    REQUIRE(bytes.ok());
    const auto back = ho::parse_rank_info(*bytes);
    REQUIRE(back.ok());
    CHECK(*back == info);
  }
  CHECK(ho::encode_rank_info(full_info())->size() < 400);
}

TEST_CASE("an info without a device has no bytes for one") {
  ho::RankInfo info = full_info();
  const size_t with = ho::encode_rank_info(info)->size();
  const size_t texts = 1 + info.device->uuid.size() + 1 + info.device->pci.size();
  info.device.reset();
  const auto bytes = *ho::encode_rank_info(info);
  CHECK(bytes.size() == with - texts);
  CHECK(bytes.back() == std::byte{0});
}

TEST_CASE("an info that is cut off anywhere is refused") {
  const auto bytes = *ho::encode_rank_info(full_info());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = ho::parse_rank_info(std::span(bytes).first(length));
    INFO(length);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
  }
}

TEST_CASE("bytes behind an info are refused") {
  auto bytes = *ho::encode_rank_info(full_info());
  bytes.push_back(std::byte{0});
  const auto parsed = ho::parse_rank_info(bytes);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().message().find("has 1 bytes too many") != std::string::npos);
}

TEST_CASE("damaged infos are refused or mean what they say") {
  const auto original = *ho::encode_rank_info(full_info());
  std::mt19937 random(7);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xffU);
    }
    const auto parsed = ho::parse_rank_info(bytes);
    if (!parsed.ok()) {
      CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
      ++refused;
    } else {
      CHECK(*ho::encode_rank_info(*parsed) == bytes);
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("infos over a limit are not made") {
  ho::RankInfo info = full_info();
  info.host_name.assign(ho::kMaxRankTextBytes + 1, 'x');
  CHECK_FALSE(ho::encode_rank_info(info).ok());
  info = full_info();
  info.nics.resize(ho::kMaxRankNics + 1, info.nics[0]);
  CHECK_FALSE(ho::encode_rank_info(info).ok());
  info = full_info();
  info.nics[0].addresses.resize(ho::kMaxRankAddresses + 1, "10.0.0.1/8");
  CHECK_FALSE(ho::encode_rank_info(info).ok());
  info = full_info();
  info.device->uuid.assign(ho::kMaxRankTextBytes + 1, 'x');
  CHECK_FALSE(ho::encode_rank_info(info).ok());
  info = full_info();
  info.host_name = "line\nbreak";
  CHECK_FALSE(ho::encode_rank_info(info).ok());
}

TEST_CASE("infos that would confuse the assignment are refused") {
  ho::RankInfo info = full_info();
  SECTION("an interface is there twice") {
    info.nics[1].name = info.nics[0].name;
  }
  SECTION("an interface has no addresses") {
    info.nics[1].addresses.clear();
  }
  SECTION("an address is no address") {
    info.nics[1].addresses = {"node1"};
  }
  SECTION("the host has no identity") {
    info.host_id.clear();
  }
  SECTION("the device has no UUID") {
    info.device->uuid.clear();
  }
  SECTION("a distance is out of range") {
    info.nics[0].distance = 31;
  }
  const auto parsed = ho::parse_rank_info(*ho::encode_rank_info(info));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
}

TEST_CASE("whatever a host has, its info can be sent") {
  ho::Topology topology;
  topology.host_name =
      "n\xc3\xb6"
      "de\n" +
      std::string(400, 'x');
  topology.host_id = "id";
  for (int i = 0; i < 200; ++i) {
    ho::NetworkInterface nic;
    nic.name = "eth" + std::to_string(i);
    nic.operstate = "up";
    nic.addresses.assign(20, "10.0.0.1/24");
    topology.interfaces.push_back(nic);
  }
  auto info = ho::make_rank_info(topology, *ho::parse_interface_filter(""), {});
  info.settings = ho::settings_that_must_match(std::nullopt);
  const auto bytes = ho::encode_rank_info(info);
  REQUIRE(bytes.ok());
  CHECK(*ho::parse_rank_info(*bytes) == info);
  CHECK(info.nics.size() == ho::kMaxRankNics);
  CHECK(info.dropped.front().reason == "dropped: a rank offers at most 64 interfaces");
}
