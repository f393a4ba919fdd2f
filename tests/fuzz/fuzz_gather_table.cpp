// Ranks that prove the key but send any contributions: every call of a world of four is one
// message, its first byte the rank, the next a clock step.
#include "bootstrap/control/gather_table.hpp"
#include "fuzz.hpp"

namespace {

constexpr uint32_t kWorldSize = 4;

void check(const ho::GatherTable::Outcome& outcome) {
  fuzz::require(!outcome.waiters.empty());
  fuzz::require(outcome.error.ok() != outcome.parts.empty());
  for (const auto& waiter : outcome.waiters) {
    fuzz::require(waiter.rank < kWorldSize);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ho::GatherTable table(kWorldSize);
  ho::Deadline now{};
  auto rest = fuzz::bytes(data, size);
  uint64_t id = 0;
  while (rest.size() > 3) {
    const uint32_t rank = std::to_integer<uint32_t>(rest[0]) % kWorldSize;
    now += std::chrono::milliseconds(std::to_integer<int>(rest[1]));
    const size_t length = std::min<size_t>(std::to_integer<size_t>(rest[2]), rest.size() - 3);
    auto contribution = ho::wire::decode<ho::wire::Contribution>(rest.subspan(3, length));
    rest = rest.subspan(3 + length);
    if (contribution.ok()) {
      if (const auto outcome = table.add({rank, id++}, std::move(*contribution), now)) {
        check(*outcome);
      }
    } else if (length == 0) {
      for (const auto& outcome : table.rank_ended(rank, {ho::StatusCode::kPeerLost, "gone"})) {
        check(outcome);
      }
    }
    for (const auto& outcome : table.expire(now)) {
      check(outcome);
    }
  }
  for (uint32_t rank = 0; rank < kWorldSize; ++rank) {
    for (const auto& outcome : table.rank_ended(rank, {ho::StatusCode::kAborted, "end"})) {
      check(outcome);
    }
  }
  fuzz::require(table.next_deadline() == ho::Deadline::max());
  return 0;
}
