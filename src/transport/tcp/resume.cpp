#include "transport/tcp/resume.hpp"

#include <string>
#include <utility>

namespace ho::tcp {
namespace {

Status against_rules(std::string text) {
  return {StatusCode::kProtocol, "resume frame from the peer: " + std::move(text)};
}

}  // namespace

Resume::Resume(uint32_t epoch, uint16_t communicator) : epoch_(epoch), communicator_(communicator) {
  queue(Frame::Type::kSwitch, 0);
}

void Resume::queue(Frame::Type type, uint64_t count) {
  Frame frame;
  frame.type = type;
  frame.communicator = communicator_;
  frame.sequence = epoch_;
  frame.count = count;
  const FrameBytes bytes = encode(frame);
  unwritten_.insert(unwritten_.end(), bytes.begin(), bytes.end());
}

void Resume::state_count(uint64_t received) {
  stated_ = true;
  queue(Frame::Type::kCount, received);
}

void Resume::wrote(size_t bytes) {
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<ptrdiff_t>(bytes));
}

Result<Resume::Then> Resume::on_frame(const Frame& frame) {
  if (frame.sequence != epoch_) {
    return against_rules("of epoch " + std::to_string(frame.sequence) +
                         " on connections of epoch " + std::to_string(epoch_));
  }
  if (frame.payload_bytes != 0) {
    return against_rules("it has a payload");
  }
  const bool switches = frame.type == Frame::Type::kSwitch;
  if (!switches && frame.type != Frame::Type::kCount) {
    return against_rules("a message or a close frame before the peer has counted");
  }
  if (switches == peer_switched_ || peer_counted_) {
    return against_rules(switches ? "it comes over twice" : "a count where none is due");
  }
  if (switches) {
    peer_switched_ = true;
    return Then::kState;
  }
  peer_counted_ = true;
  peer_count_ = frame.count;
  return Then::kGoOn;
}

}  // namespace ho::tcp
