// What a server believes of a client that does not know the key: nothing. The first byte cuts the
// rest into pieces.
#include <algorithm>

#include "auth/job_key.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto key = ho::JobKey::from_text("a secret the fuzzer lacks").value();
  if (size == 0) {
    return 0;
  }
  const size_t step = 1 + data[0];
  auto rest = fuzz::bytes(data, size).subspan(1);
  const auto server = ho::Handshake::server(key, "control");
  while (!rest.empty() && server->wanted() > 0) {
    const auto piece = rest.first(std::min({rest.size(), step, server->wanted()}));
    if (!server->consume(piece).ok()) {
      break;
    }
    rest = rest.subspan(piece.size());
  }
  fuzz::require(!server->needs_decision() && !server->done() && server->claim().empty());
  fuzz::require(server->unproven_claim().size() <= ho::kMaxClaimBytes);
  fuzz::require(server->output().size() < 4096);
  return 0;
}
