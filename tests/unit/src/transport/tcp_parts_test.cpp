#include <sys/mman.h>

#include "catch.hpp"
#include "has.hpp"
#include "os/fd.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/own_rail.hpp"
#include "transport/tcp/pacer.hpp"

namespace ho::tcp {
namespace {

TEST_CASE("a claim survives its encoding, and nothing else is one") {
  LinkClaim claim;
  claim.from = GlobalRank(3);
  claim.to = GlobalRank(70000);
  claim.rail = RailIndex(2);
  claim.communicator = 517;
  claim.channel = 3;
  claim.connection = 1;
  claim.connection_count = 4;
  claim.job_id = 0x1122334455667788ULL;
  const auto bytes = encode(claim);
  const auto decoded = decode_claim(bytes);
  REQUIRE(decoded.ok());
  REQUIRE(encode(*decoded) == bytes);
  REQUIRE(decoded->to == claim.to);
  REQUIRE(decoded->job_id == claim.job_id);
  for (size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE_FALSE(decode_claim(std::span(bytes).first(size)).ok());
  }
  auto other = bytes;
  other[0] = std::byte{9};
  REQUIRE_FALSE(decode_claim(other).ok());
}

TEST_CASE("a claim is checked in every field") {
  TcpOptions options;
  options.self = GlobalRank(5);
  options.world_size = 8;
  options.communicator = 1;
  options.job_id = 42;
  options.rails.resize(2);
  options.connections_per_link = 2;
  const LinkClaim good{GlobalRank(3), GlobalRank(5), RailIndex(1), 1, 0, 1, 2, 42};
  REQUIRE(check_claim(good, options).ok());
  const auto refused = [&](auto change) {
    LinkClaim claim = good;
    change(claim);
    return !check_claim(claim, options).ok();
  };
  REQUIRE(refused([](LinkClaim& c) { c.from = GlobalRank(5); }));
  REQUIRE(refused([](LinkClaim& c) { c.from = GlobalRank(6); }));  // the lower rank connects
  REQUIRE(refused([](LinkClaim& c) { c.from = GlobalRank(8); }));
  REQUIRE(refused([](LinkClaim& c) { c.to = GlobalRank(4); }));
  REQUIRE(refused([](LinkClaim& c) { c.rail = RailIndex(2); }));
  REQUIRE(refused([](LinkClaim& c) { c.communicator = 0; }));
  REQUIRE(refused([](LinkClaim& c) { c.channel = kLinkChannelCount; }));
  REQUIRE(refused([](LinkClaim& c) { c.connection = 2; }));
  REQUIRE(refused([](LinkClaim& c) { c.connection_count = 1; }));
  REQUIRE(refused([](LinkClaim& c) { c.job_id = 43; }));
}

TEST_CASE(
    "a claim of a link that fails over says its attempt and rails, and comes from either end") {
  TcpOptions options;
  options.self = GlobalRank(5);
  options.world_size = 8;
  options.rails.resize(3);
  options.failover.on = true;
  LinkClaim claim{GlobalRank(6), GlobalRank(5), RailIndex(1)};
  claim.fails_over = true;
  claim.epoch = 0x01020304;
  claim.from_rail = RailIndex(2);
  claim.to_rail = RailIndex(0);
  claim.connection = 2;
  claim.connection_count = 3;
  claim.weight = 5;
  const auto bytes = encode(claim);
  const auto decoded = decode_claim(bytes);
  REQUIRE(decoded.ok());
  REQUIRE(encode(*decoded) == bytes);
  REQUIRE(decoded->epoch == claim.epoch);
  REQUIRE(decoded->from_rail == claim.from_rail);
  REQUIRE(decoded->to_rail == claim.to_rail);
  REQUIRE(decoded->weight == claim.weight);
  REQUIRE(check_claim(*decoded, options).ok());
  // The peer's own rails are compared where it is known how many it has.
  for (RailIndex LinkClaim::*const rail : {&LinkClaim::rail, &LinkClaim::to_rail}) {
    LinkClaim bad = claim;
    bad.*rail = RailIndex(3);
    REQUIRE_FALSE(check_claim(bad, options).ok());
  }
  const auto refused = [&](auto change) {
    LinkClaim bad = claim;
    change(bad);
    return has(check_claim(bad, options),
               "with weights of 0 to 16, the first from 1, are possible");
  };
  REQUIRE(refused([](LinkClaim& c) { c.connection = 3; }));
  REQUIRE(refused([](LinkClaim& c) { c.connection_count = 65; }));
  REQUIRE(refused([](LinkClaim& c) { c.connection_count = 0; }));
  REQUIRE(refused([](LinkClaim& c) { c.connection = c.weight = 0; }));
  REQUIRE(refused([](LinkClaim& c) { c.weight = 17; }));
  claim.weight = 0;  // of the third connection
  REQUIRE(check_claim(claim, options).ok());
  options.failover.on = false;
  REQUIRE(has(check_claim(claim, options),
              "rank 6 runs without HORING_FAILOVER=0, rank 5 with; set it on all ranks"));
  options.failover.on = true;
  claim.fails_over = false;
  REQUIRE(has(check_claim(claim, options), "rank 6 runs with HORING_FAILOVER=0, rank 5 without"));
}

TEST_CASE("a claim without failover has the bytes that it had before there was failover") {
  LinkClaim claim{GlobalRank(3), GlobalRank(5), RailIndex(1), 1, 2, 1, 2, 42};
  claim.epoch = 7;
  claim.from_rail = RailIndex(1);
  claim.to_rail = RailIndex(1);
  std::array<std::byte, kClaimBytes> expected{};
  expected[0] = std::byte{1};
  expected[1] = std::byte{2};
  expected[2] = std::byte{1};
  expected[4] = std::byte{3};
  expected[8] = std::byte{5};
  expected[12] = std::byte{1};
  expected[16] = std::byte{42};
  expected[24] = std::byte{1};
  expected[25] = std::byte{2};
  REQUIRE(encode(claim) == expected);
}

TEST_CASE("links that come and go leave nothing in the counts of their rail") {
  RailUse use;
  OwnRail stays(use);
  stays.on_connections(0);
  for (int i = 1; i < 1000; ++i) {
    OwnRail other(use);
    other.on_connections(1.0 / i);
    stays.on_connections(0.9 / i);
    stays.on_connections(0);
  }
  CHECK(use.links == 1);
  CHECK(*use.own_share() == 1);
}

TEST_CASE("a paced rail is booked slice after slice, rails apart") {
  const auto pacer = Pacer::create(-1);
  const RailPace zero{.mbit = 8};  // 1 byte per microsecond
  const RailPace one{.mbit = 8, .slot = 1};
  REQUIRE(pacer.ok());
  const int64_t now = 1'000'000'000;
  const int64_t credit = Pacer::kCreditNs;
  REQUIRE((*pacer)->reserve(zero, 2000, now) == now - credit);
  REQUIRE((*pacer)->reserve(zero, 500, now) == now - credit + 2'000'000);
  REQUIRE((*pacer)->reserve(zero, 1, now) == now - credit + 2'500'000);
  REQUIRE((*pacer)->reserve(one, 1, now) == now - credit);
  // Time that passed unused beyond the credit is lost, as a shaper's bucket overflows.
  const int64_t later = now + 1'000'000'000;
  REQUIRE((*pacer)->reserve(zero, 1, later) == later - credit);
}

TEST_CASE("the memory of a shared pace is checked, and shared") {
  const Fd memory(::memfd_create("pace", MFD_CLOEXEC));
  REQUIRE_FALSE(Pacer::create(memory.get()).ok());  // too small
  REQUIRE(::ftruncate(memory.get(), static_cast<off_t>(Pacer::kDomainBytes)) == 0);
  const auto first = Pacer::create(memory.get());
  const auto second = Pacer::create(memory.get());
  const RailPace last{.mbit = 8, .slot = 63};
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  const int64_t start = (*first)->reserve(last, 1000, 5'000'000'000);
  REQUIRE((*second)->reserve(last, 1000, 5'000'000'000) == start + 1'000'000);
  REQUIRE_FALSE(Pacer::create(99999).ok());
}

}  // namespace
}  // namespace ho::tcp
