#include "bootstrap/rendezvous/key_refusals.hpp"

#include <array>

#include "catch.hpp"

using namespace ho;

namespace {

using Kind = KeyRefusals::Kind;

wire::RankClaim caller(uint32_t rank, uint32_t pid) {
  return {.rank = rank, .world_size = 4, .pid = pid, .timeout_ms = 0, .host = "node"};
}

std::string text(uint32_t rank, uint32_t pid) {
  return "rank " + std::to_string(rank) + " of process " + std::to_string(pid);
}

Kind note(KeyRefusals& refusals, uint32_t rank, uint32_t pid) {
  return refusals.note(caller(rank, pid), text(rank, pid));
}

}  // namespace

TEST_CASE("a refused rank that tries again is one caller") {
  KeyRefusals refusals(4);
  CHECK_FALSE(refusals.was_refused(1));
  CHECK(note(refusals, 1, 7) == Kind::kNew);
  CHECK(note(refusals, 1, 7) == Kind::kAgain);
  CHECK(note(refusals, 1, 8) == Kind::kNew);
  CHECK(note(refusals, 4, 7) == Kind::kStranger);
  CHECK(refusals.was_refused(1));
  CHECK_FALSE(refusals.was_refused(4));
  const std::array<uint32_t, 2> missing{1, 2};
  CHECK(refusals.texts(missing) == std::vector{text(1, 7), text(1, 8)});
  CHECK(refusals.texts(std::span(missing).subspan(1)).empty());
}

TEST_CASE("a flood of callers is counted, not kept, and hides no other rank") {
  KeyRefusals refusals(70000);
  size_t kept = 0;
  for (uint32_t pid = 0; pid < 10000; ++pid) {
    kept += note(refusals, 3, pid) == Kind::kNew ? 1U : 0U;
  }
  CHECK(kept == KeyRefusals::kMaxCallersPerRank);
  CHECK(note(refusals, 5, 1) == Kind::kNew);
  const std::array<uint32_t, 2> missing{3, 5};
  const auto texts = refusals.texts(missing);
  REQUIRE(texts.size() == 6);
  CHECK(texts[0] == text(3, 0));
  CHECK(texts[1] == text(5, 1));
  CHECK(texts[2] == text(3, 1));
  CHECK(texts[4] == text(3, 9999));  // the rank itself may come last
  CHECK(texts[5] == "9996 more came as these ranks and were refused");

  for (uint32_t rank = 0; rank < 70000; ++rank) {
    kept += note(refusals, rank, 1) == Kind::kNew ? 1U : 0U;
  }
  CHECK(kept < KeyRefusals::kMaxRanks * KeyRefusals::kMaxCallersPerRank);
  CHECK(refusals.was_refused(69999));
  std::vector<uint32_t> all(70000);
  for (uint32_t rank = 0; rank < 70000; ++rank) {
    all[rank] = rank;
  }
  CHECK(refusals.texts(all).size() == KeyRefusals::kMaxTexts + 1);
}
