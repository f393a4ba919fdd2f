// The header of every active message of the UCX transport.
#include "base/bytes.hpp"
#include "fuzz.hpp"
#include "transport/ucx/envelope.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const auto envelope = ho::ucx::decode_envelope(fuzz::bytes(data, size)); envelope.ok()) {
    const auto again = ho::ucx::decode_envelope(ho::ucx::encode(*envelope));
    fuzz::require(again.ok() && again->key_of_peer() == envelope->key_of_peer());
    fuzz::require(ho::equal_secrets(again->token, envelope->token));
  }
  return 0;
}
