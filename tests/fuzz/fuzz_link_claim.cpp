// What the connecting rank says about a data connection.
#include "fuzz.hpp"
#include "transport/tcp/link_claim.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const auto claim = ho::tcp::decode_claim(fuzz::bytes(data, size)); claim.ok()) {
    const auto again = ho::tcp::decode_claim(ho::tcp::encode(*claim));
    fuzz::require(again.ok() && again->key_of_peer() == claim->key_of_peer());
    ho::TcpOptions options;
    options.self = ho::GlobalRank(2U);
    options.world_size = 4;
    options.rails.resize(2);
    options.failover.on = claim->fails_over;
    if (ho::tcp::check_claim(*claim, options).ok()) {
      fuzz::require(claim->fails_over || ho::tcp::opens(claim->from, options.self, claim->channel));
      fuzz::require(claim->from != options.self && claim->from.value() < 4);
      fuzz::require(claim->rail.value() < 2 && claim->to_rail.value() < 2);
      fuzz::require(claim->connection < claim->connection_count);
    }
  }
  return 0;
}
