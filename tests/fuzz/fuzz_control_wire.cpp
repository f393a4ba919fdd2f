// The control plane's stream and all its messages. The first byte cuts the stream into pieces; each
// whole message goes through every decoder, and so does the raw input.
#include <algorithm>

#include "bootstrap/messages/wire.hpp"
#include "fuzz.hpp"

namespace {

using ho::wire::View;

template <typename Decode>
void again(View body, Decode decode) {
  // What was read can be written and read again.
  const auto value = decode(body);
  if (value.ok()) {
    fuzz::require(decode(View(ho::wire::encode(*value))).ok());
  }
}

void decode_all(View body) {
  again(body, ho::wire::decode<ho::wire::RankClaim>);
  again(body, ho::wire::decode<ho::wire::Welcome>);
  again(body, ho::wire::decode<ho::wire::Addresses>);
  again(body, ho::wire::decode<ho::wire::ResumeClaim>);
  again(body, ho::wire::decode<ho::wire::Contribution>);
  again(body, ho::wire::decode<ho::wire::GatheredPart>);
  again(body, ho::wire::decode<ho::wire::Outcome>);
  again(body, ho::wire::decode<ho::FailureReport>);
  again(body, ho::wire::decode<ho::LeaveNotice>);
  again(body, ho::wire::decode<ho::CallQuestion>);
  again(body, ho::wire::decode<ho::Membership>);
  again(body, ho::wire::decode<ho::StatusReport>);
  if (const auto states = ho::wire::decode<std::vector<ho::RankState>>(body); states.ok()) {
    fuzz::require(ho::wire::decode<std::vector<ho::RankState>>(ho::wire::encode(*states)).ok());
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const size_t step = 1 + data[0];
  auto rest = fuzz::bytes(data, size).subspan(1);
  decode_all(rest);
  ho::wire::Splitter splitter;
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), step));
    splitter.feed(piece);
    rest = rest.subspan(piece.size());
    while (true) {
      const auto message = splitter.next();
      if (!message.ok()) {
        return 0;
      }
      if (!message->has_value()) {
        break;
      }
      fuzz::require((*message)->body.size() <= size);
      decode_all((*message)->body);
    }
  }
  return 0;
}
