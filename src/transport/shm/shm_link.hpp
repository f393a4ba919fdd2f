// One link over shared memory: the ring in the peer's segment that this rank writes, and the ring
// in its own segment that the peer writes.
//
// Four ways for a payload, chosen by the sender:
//   inline     up to a quarter of a ring: copied in, and copied out or used in place
//   shared     device memory: only its offset in what the sender has exported goes through the ring
//   reference  from single_copy_min_bytes, where the receiver may read this process's memory: only
//              addresses go through the ring, the receiver copies once, straight to its destination
//   fragments  everything else: streamed through the ring in quarters
#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "transport/device_link.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/peer_end.hpp"
#include "transport/shm/ring.hpp"
#include "transport/transport.hpp"

namespace ho {

class ShmLink final : public Link, public OffsetMessages {
 public:
  struct Wiring {
    GlobalRank self;
    GlobalRank peer;
    uint8_t channel = 0;
    RingWriter out;
    RingReader in;
    Bell peer_bell;
    const PeerEnd* peer_end = nullptr;
    pid_t peer_pid = 0;
    bool peer_reads_me = false;  // references may be sent
    bool reads_peer = false;     // references may be followed
    uint64_t single_copy_min_bytes = 0;
  };
  explicit ShmLink(const Wiring& wiring) : wiring_(wiring) {}

  [[nodiscard]] Result<bool> try_send(const Frame& frame,
                                      std::span<const ConstBytes> payload) override;
  [[nodiscard]] uint64_t released() override;
  [[nodiscard]] Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override;
  [[nodiscard]] Result<std::optional<Frame>> try_peek(bool awaited) override;
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  void release_view() override;
  [[nodiscard]] OffsetMessages* offsets() override { return this; }
  [[nodiscard]] Result<bool> try_offer(ConstBytes offer) override;
  [[nodiscard]] Result<OfferAnswer> offer_answer() override;
  void take_offers(OfferTaker taker) override { taker_ = std::move(taker); }
  [[nodiscard]] Result<bool> try_send_offset(const Frame& frame, uint64_t offset) override;
  [[nodiscard]] Result<Message> try_recv_offset(const Frame& expected) override;
  void release_offset() override;
  [[nodiscard]] Status went_wrong() const override;
  [[nodiscard]] bool over_network() const override { return false; }
  [[nodiscard]] std::string to_string() const override;

  // News for a rank about to sleep: what its last try calls have not seen.
  [[nodiscard]] uint64_t unseen_messages() const { return wiring_.in.unseen(); }
  [[nodiscard]] bool unseen_half_full() const { return wiring_.in.unseen_half_full(); }
  [[nodiscard]] bool unseen_release() const;
  void mark_seen();

  [[nodiscard]] uint64_t staging_bytes() const { return staging_bytes_; }

 private:
  enum class View : uint8_t { kNone, kInRing, kStaged };

  [[nodiscard]] Result<bool> send_inline(const Frame& frame, std::span<const ConstBytes> payload);
  [[nodiscard]] Result<bool> send_reference(const Frame& frame,
                                            std::span<const ConstBytes> payload);
  [[nodiscard]] Result<bool> send_fragments(const Frame& frame,
                                            std::span<const ConstBytes> payload);
  // Room in the peer's ring, or nullptr. An error: the ring is full and the peer has ended.
  [[nodiscard]] Result<std::byte*> reserve(uint64_t payload_bytes, uint64_t wanted_bytes);
  void publish(RecordKind kind, const Frame& frame, uint64_t payload_bytes, bool whole);

  // The head record, or nothing. An error: there is none and the peer has ended.
  [[nodiscard]] Result<std::optional<RingReader::Record>> peek_record();
  // The same, when all offers before it were answered.
  [[nodiscard]] Result<std::optional<RingReader::Record>> next_record();
  [[nodiscard]] Status answer_offer(ConstBytes offer);
  // The same, checked against what is expected.
  [[nodiscard]] Result<std::optional<RingReader::Record>> head(const Frame& expected);
  [[nodiscard]] Result<bool> receive(const Frame& expected, std::span<const Bytes> parts);
  // One record of the expected message. True when the message is complete.
  [[nodiscard]] Result<bool> take(const RingReader::Record& record,
                                  uint64_t total,
                                  std::span<const Bytes> parts);
  [[nodiscard]] Status read_reference(const RingReader::Record& record,
                                      uint64_t total,
                                      std::span<const Bytes> parts);
  void consume(bool acknowledge);
  // Acknowledges what the reader is through with, in the order of the messages.
  void acknowledge_read();
  [[nodiscard]] Status fail(StatusCode code, const std::string& what) const;
  [[nodiscard]] Status peer_has_ended() const;
  [[nodiscard]] Bytes staging(uint64_t bytes);
  [[nodiscard]] uint64_t acked_by_peer() const;

  Wiring wiring_;

  uint64_t sent_bytes_ = 0;  // of the message that is being fragmented
  uint64_t accepted_ = 0;    // messages
  uint64_t acked_ =
      0;  // references and shared messages whose acknowledgement released() has counted
  uint64_t acked_seen_ = 0;  // the same that a rank about to sleep has seen
  uint64_t references_ = 0;  // of both kinds, sent
  bool offered_ = false;
  std::deque<uint64_t> unread_;  // numbers of these messages that are not acknowledged yet

  uint64_t received_bytes_ = 0;  // of the fragmented message that is being received
  // Of both kinds received and not acknowledged: whether this rank is through with the payload.
  std::deque<bool> through_;
  OfferTaker taker_;
  bool answered_ = false;  // the peer's offer
  View view_ = View::kNone;
  std::unique_ptr<std::byte[]> staging_;
  uint64_t staging_bytes_ = 0;
};

}  // namespace ho
