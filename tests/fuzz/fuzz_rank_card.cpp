// Rank cards come from peers: any bytes give a card or an error. A card that parses must encode to
// the same bytes again, and must not trip the assignment.
#include <cstdlib>
#include <span>
#include <vector>

#include "topo/agreement.hpp"
#include "topo/assign.hpp"
#include "topo/blob.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto card = ho::parse_rank_card(bytes);
  if (!card.ok()) {
    return 0;
  }
  const auto again = ho::encode_rank_card(*card);
  if (!again.ok() || !std::equal(again->begin(), again->end(), bytes.begin(), bytes.end())) {
    std::abort();
  }
  std::vector<ho::RankCard> cards(3, *card);
  cards[2].host_id += "'";
  (void)ho::agree(cards);
  (void)ho::assign_rails(cards, std::nullopt, 0);
  return 0;
}
