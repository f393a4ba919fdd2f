// Rank info for the assignment's tests: hosts with rails named and numbered by formula.
#pragma once

#include <string>
#include <vector>

#include "topo/rank_info.hpp"

namespace ho {

inline RankNic info_nic(const std::string& name,
                        const std::string& address,
                        Distance distance = kSameNumaNode,
                        uint64_t speed_mbit = 10000) {
  return {name, speed_mbit, distance, {address}};
}

inline RankInfo info_on(uint32_t host, std::vector<RankNic> nics) {
  RankInfo info;
  info.host_id = "id" + std::to_string(host);
  info.host_name = "node" + std::to_string(host);
  info.nics = std::move(nics);
  return info;
}

// rail0 .. on subnets 10.<rail + 1>.0.0/16, host number in the address.
inline RankInfo railed_info(uint32_t host, uint32_t nics) {
  std::vector<RankNic> list;
  for (uint32_t n = 0; n < nics; ++n) {
    list.push_back(
        info_nic("rail" + std::to_string(n),
                 "10." + std::to_string(n + 1) + ".0." + std::to_string(host + 1) + "/16"));
  }
  return info_on(host, std::move(list));
}

}  // namespace ho
