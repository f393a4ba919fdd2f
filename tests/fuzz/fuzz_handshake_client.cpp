// What a client believes of a server that does not know the key: nothing. The first byte cuts the
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
  const auto client = ho::Handshake::client(key, "control", {});
  ho::Status status;
  while (!rest.empty() && client->wanted() > 0 && status.ok()) {
    const auto piece = rest.first(std::min({rest.size(), step, client->wanted()}));
    status = client->consume(piece);
    rest = rest.subspan(piece.size());
  }
  fuzz::require(!client->done());
  fuzz::require(client->output().size() < 4096);
  fuzz::require(status.message().size() < 2048);
  for (const char character : status.message()) {
    fuzz::require(character >= ' ' && character <= '~');
  }
  return 0;
}
