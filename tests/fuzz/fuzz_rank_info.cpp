// Rank info come from peers: any bytes give an info or an error. An info that parses must encode to
// the same bytes again, and must not trip the assignment.
#include <cstdlib>
#include <span>
#include <vector>

#include "topo/assign.hpp"
#include "topo/blob.hpp"
#include "topo/consistency.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto info = ho::parse_rank_info(bytes);
  if (!info.ok()) {
    return 0;
  }
  const auto again = ho::encode_rank_info(*info);
  if (!again.ok() || !std::equal(again->begin(), again->end(), bytes.begin(), bytes.end())) {
    std::abort();
  }
  std::vector<ho::RankInfo> infos(3, *info);
  infos[2].host_id += "'";
  (void)ho::check_consistency(infos);
  (void)ho::assign_rails(infos, std::nullopt, 0);
  return 0;
}
