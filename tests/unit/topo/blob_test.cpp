#include "topo/blob.hpp"

#include <random>

#include "cards.hpp"
#include "catch.hpp"

namespace {

ho::RankCard full_card() {
  ho::RankCard card = ho::railed_card(3, 4);
  card.nics[1].addresses.emplace_back("fd00::4/64");
  card.dropped = {{"eth0", "dropped: operstate down"}, {"lo", "dropped: loopback"}};
  card.settings = {{"wire version", "1"}, {"HORING_PIECE_BYTES", "131072"}, {"EMPTY", ""}};
  return card;
}

}  // namespace

TEST_CASE("cards come back as they were") {
  for (const ho::RankCard& card : {full_card(), ho::card_on(0, {})}) {
    const auto bytes = ho::encode_rank_card(card);
    REQUIRE(bytes.ok());
    const auto back = ho::parse_rank_card(*bytes);
    REQUIRE(back.ok());
    CHECK(*back == card);
  }
  CHECK(ho::encode_rank_card(full_card())->size() < 400);
}

TEST_CASE("a card that is cut off anywhere is refused") {
  const auto bytes = *ho::encode_rank_card(full_card());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = ho::parse_rank_card(std::span(bytes).first(length));
    INFO(length);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
  }
}

TEST_CASE("bytes behind a card are refused") {
  auto bytes = *ho::encode_rank_card(full_card());
  bytes.push_back(std::byte{0});
  const auto parsed = ho::parse_rank_card(bytes);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().message().find("has 1 bytes too many") != std::string::npos);
}

TEST_CASE("damaged cards are refused or mean what they say") {
  const auto original = *ho::encode_rank_card(full_card());
  std::mt19937 random(7);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xffU);
    }
    const auto parsed = ho::parse_rank_card(bytes);
    if (!parsed.ok()) {
      CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
      ++refused;
    } else {
      CHECK(*ho::encode_rank_card(*parsed) == bytes);
    }
  }
  CHECK(refused > 10000);
}

TEST_CASE("cards over a limit are not made") {
  ho::RankCard card = full_card();
  card.host_name.assign(ho::kMaxCardTextBytes + 1, 'x');
  CHECK_FALSE(ho::encode_rank_card(card).ok());
  card = full_card();
  card.nics.resize(ho::kMaxCardNics + 1, card.nics[0]);
  CHECK_FALSE(ho::encode_rank_card(card).ok());
  card = full_card();
  card.nics[0].addresses.resize(ho::kMaxCardAddresses + 1, "10.0.0.1/8");
  CHECK_FALSE(ho::encode_rank_card(card).ok());
  card = full_card();
  card.host_name = "line\nbreak";
  CHECK_FALSE(ho::encode_rank_card(card).ok());
}

TEST_CASE("cards that would confuse the assignment are refused") {
  ho::RankCard card = full_card();
  SECTION("an interface twice") {
    card.nics[1].name = card.nics[0].name;
  }
  SECTION("an interface without addresses") {
    card.nics[1].addresses.clear();
  }
  SECTION("an address that is none") {
    card.nics[1].addresses = {"node1"};
  }
  SECTION("no host identity") {
    card.host_id.clear();
  }
  SECTION("a distance out of range") {
    card.nics[0].distance = 31;
  }
  const auto parsed = ho::parse_rank_card(*ho::encode_rank_card(card));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == ho::StatusCode::kProtocol);
}

TEST_CASE("whatever a host has, its card can be sent") {
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
  auto card = ho::make_rank_card(topology, *ho::parse_interface_filter(""), {});
  card.settings = ho::settings_that_must_agree(std::nullopt);
  const auto bytes = ho::encode_rank_card(card);
  REQUIRE(bytes.ok());
  CHECK(*ho::parse_rank_card(*bytes) == card);
  CHECK(card.nics.size() == ho::kMaxCardNics);
  CHECK(card.dropped.front().reason == "dropped: a rank offers at most 64 interfaces");
}
