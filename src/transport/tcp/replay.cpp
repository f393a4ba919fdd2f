#include "transport/tcp/replay.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace ho::tcp {
namespace {

// Smaller ones are quick to allocate.
constexpr size_t kMinSpareBytes = 1024;

}  // namespace

std::vector<std::byte> CopyMemory::take(size_t bytes) {
  const auto found = std::find_if(spare_.rbegin(), spare_.rend(), [bytes](const auto& buffer) {
    return buffer.capacity() >= bytes;
  });
  std::vector<std::byte> buffer;
  if (found != spare_.rend()) {
    buffer = std::move(*found);
    spare_.erase(std::next(found).base());
    spare_bytes_ -= buffer.capacity();
  }
  buffer.clear();
  buffer.reserve(bytes);
  return buffer;
}

void CopyMemory::give_back(std::vector<std::byte>&& buffer) {
  if (buffer.capacity() >= kMinSpareBytes && spare_bytes_ + buffer.capacity() <= kMaxSpareBytes) {
    spare_bytes_ += buffer.capacity();
    spare_.push_back(std::move(buffer));
  }
}

std::atomic<uint64_t>& ReplayBudget::used_by_process() {
  static std::atomic<uint64_t> used{0};
  return used;
}

Replay::~Replay() {
  budget_.used_bytes -= copied_bytes_;
}

void Replay::keep(const FrameBytes& header,
                  std::span<const ConstBytes> payload,
                  const Written& where) {
  Message message;
  message.header = header;
  message.connection = where.connection;
  message.end = where.end;
  for (const ConstBytes& part : payload) {
    message.payload_bytes += part.size();
  }
  message.payload.assign(payload.begin(), payload.end());
  message.lent = message.payload_bytes > kCopiedBytes;
  if (!message.lent) {
    copy(message);
  }
  lent_ += message.lent ? 1 : 0;
  messages_.push_back(std::move(message));
}

void Replay::copy(Message& message) {
  message.copy = budget_.memory.take(message.payload_bytes);
  for (const ConstBytes& part : message.payload) {
    message.copy.insert(message.copy.end(), part.begin(), part.end());
  }
  message.payload.assign(1, ConstBytes(message.copy));
  copied_bytes_ += message.payload_bytes;
  budget_.used_bytes += message.payload_bytes;
}

void Replay::copy_lent(uint64_t before) {
  for (uint64_t number = first_; number < before; ++number) {
    if (Message& message = messages_.at(static_cast<size_t>(number - first_)); message.lent) {
      if (!fits(message)) {
        return;
      }
      copy(message);
      message.lent = false;
      --lent_;
    }
  }
}

uint64_t Replay::released() const {
  if (lent_ == 0) {
    return next();
  }
  const auto lent = std::ranges::find_if(messages_, &Message::lent);
  return first_ + static_cast<uint64_t>(lent - messages_.begin());
}

void Replay::drop_first() {
  Message& oldest = messages_.front();
  if (oldest.lent) {
    --lent_;
  } else {
    copied_bytes_ -= oldest.payload_bytes;
    budget_.used_bytes -= oldest.payload_bytes;
    budget_.memory.give_back(std::move(oldest.copy));
  }
  messages_.pop_front();
  ++first_;
}

void Replay::on_acknowledged(std::span<const uint64_t> bytes) {
  while (!messages_.empty() && messages_.front().end != kNowhere &&
         messages_.front().end <= bytes[messages_.front().connection]) {
    drop_first();
  }
}

void Replay::on_sent_again(uint64_t number, const Written& where) {
  Message& message = messages_.at(static_cast<size_t>(number - first_));
  message.connection = where.connection;
  message.end = where.end;
}

Status Replay::on_counted(uint64_t count) {
  if (count < first_ || count > next()) {
    return {StatusCode::kProtocol,
            "the peer says that it has received " + std::to_string(count) + " messages, where " +
                std::to_string(first_) + " to " + std::to_string(next()) + " are possible"};
  }
  while (first_ < count) {
    drop_first();
  }
  return {};
}

void Replay::on_connections_lost() {
  for (Message& message : messages_) {
    message.end = kNowhere;
  }
}

}  // namespace ho::tcp
