// The header of every message between two ranks.
#include <algorithm>

#include "fuzz.hpp"
#include "transport/frame.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < ho::kFrameBytes) {
    return 0;
  }
  const auto bytes = fuzz::bytes(data, size).first<ho::kFrameBytes>();
  const auto frame = ho::decode(bytes);
  if (frame.ok()) {
    fuzz::require(frame->payload_bytes <= ho::kMaxPayloadBytes);
    fuzz::require(*ho::decode(ho::encode(*frame)) == *frame);
    fuzz::require(ho::check_expected(*frame, *frame).ok());
    (void)ho::check_expected(ho::Frame{}, *frame);
  }
  return 0;
}
