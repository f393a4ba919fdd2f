// What only device memory needs of a link, apart from Link: a link has it where for_device() or
// offsets() gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "transport/transport.hpp"

namespace ho {

// Of a link for device memory. The calls are as Link's of like names.
class DeviceLink {
 public:
  DeviceLink() = default;
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  virtual ~DeviceLink() = default;

  // The payload is device memory, in any number of parts.
  [[nodiscard]] virtual Result<bool> try_send_from_device(const Frame& frame,
                                                          std::span<const ConstBytes> payload) = 0;
  // The view may also be device memory.
  [[nodiscard]] virtual Result<ConstBytes> try_view_for_device(const Frame& expected) = 0;
};

// Of a link over shared memory: messages whose payload lies in memory that both ends know otherwise
// (exported device memory). Only where it lies there, `offset`, goes to the peer.
class OffsetMessages {
 public:
  OffsetMessages() = default;
  OffsetMessages(const OffsetMessages&) = delete;
  OffsetMessages& operator=(const OffsetMessages&) = delete;
  virtual ~OffsetMessages() = default;

  // That memory is offered to the peer before the first such message, once on each link, in words
  // that the two ends agree on. false: not on its way yet; call again.
  static constexpr size_t kMaxOfferBytes = 128;
  [[nodiscard]] virtual Result<bool> try_offer(ConstBytes offer) = 0;
  enum class OfferAnswer : uint8_t { kNone, kTaken, kRefused };
  // The peer answers when it next looks for a message here, and this rank is woken then.
  [[nodiscard]] virtual Result<OfferAnswer> offer_answer() = 0;
  // What answers the peer's offer: whether this rank takes it, or what is wrong with it. Called by
  // the calls that look for a message, until the transport ends. Without it offers are refused.
  using OfferTaker = std::function<Result<bool>(ConstBytes offer)>;
  virtual void take_offers(OfferTaker taker) = 0;

  // released() counts such a message when the peer has called release_offset() for it.
  [[nodiscard]] virtual Result<bool> try_send_offset(const Frame& frame, uint64_t offset) = 0;
  struct Message {
    bool other = false;                // the next message is none of these: try_recv() takes it
    std::optional<uint64_t> offset{};  // as the peer says, unchecked; nothing: not here yet
  };
  // Takes the next message if it is here and is such a one.
  [[nodiscard]] virtual Result<Message> try_recv_offset(const Frame& expected) = 0;
  virtual void release_offset() = 0;  // the oldest
};

}  // namespace ho
