// Rank cards for the assignment's tests: hosts with rails named and numbered by formula.
#pragma once

#include <string>
#include <vector>

#include "topo/rank_card.hpp"

namespace ho {

inline CardNic card_nic(const std::string& name,
                        const std::string& address,
                        Distance distance = kSameNumaNode,
                        uint64_t speed_mbit = 10000) {
  return {name, speed_mbit, distance, {address}};
}

inline RankCard card_on(uint32_t host, std::vector<CardNic> nics) {
  RankCard card;
  card.host_id = "id" + std::to_string(host);
  card.host_name = "node" + std::to_string(host);
  card.nics = std::move(nics);
  return card;
}

// rail0 .. on subnets 10.<rail + 1>.0.0/16, host number in the address.
inline RankCard railed_card(uint32_t host, uint32_t nics) {
  std::vector<CardNic> list;
  for (uint32_t n = 0; n < nics; ++n) {
    list.push_back(
        card_nic("rail" + std::to_string(n),
                 "10." + std::to_string(n + 1) + ".0." + std::to_string(host + 1) + "/16"));
  }
  return card_on(host, std::move(list));
}

}  // namespace ho
