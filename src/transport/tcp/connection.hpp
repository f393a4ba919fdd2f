// Messages over one socket. Writes a header and its payload parts with one system call, and reads
// them the same way: where a large message is expected, header and payload arrive in one readv,
// straight into the caller's memory; where small ones are, one recv fetches as many as there are
// into a buffer of 4 KiB, from which the next calls are served.
//
// While a large message is awaited the socket's low-water mark (SO_RCVLOWAT) is set to what is
// missing, at most kMaxLowWaterBytes: the process is then woken once per piece, not per packet.
// What stays below the mark because the peer sends something else than is awaited is found by
// look_below_mark().
//
// Whose messages begin otherwise (the plugin's network) reads and writes bytes: fetch(), read() and
// the second write(). Both ways are not mixed on one connection.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "connect/answers.hpp"
#include "transport/frame.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

inline constexpr size_t kSmallPayloadBytes = 2048;
inline constexpr size_t kAheadBytes = 4096;
inline constexpr size_t kMaxLowWaterBytes = 65536;
// While nobody waits for a message.
inline constexpr size_t kUnawaitedLowWaterBytes = 1 << 20;

// How the rest of a header is fetched.
enum class HeaderRead : uint8_t {
  kAlone,        // not a byte further
  kAhead,        // with whatever small messages follow
  kWithPayload,  // with its payload, into the parts
};

class Connection {
 public:
  // After the handshake. ahead_bytes: allocated now, so that no read allocates.
  explicit Connection(std::unique_ptr<Socket> socket, size_t ahead_bytes = 0);

  [[nodiscard]] Socket& socket() { return *socket_; }
  [[nodiscard]] const Socket& socket() const { return *socket_; }

  // Writes header and payload from byte `offset` of the message on, at most limit bytes. Returns
  // how many were written; 0: would block.
  [[nodiscard]] Result<size_t> write(const FrameBytes& header,
                                     std::span<const ConstBytes> parts,
                                     size_t offset,
                                     size_t limit);

  // Writes the buffers, which have `bytes` altogether. 0: would block.
  [[nodiscard]] Result<size_t> write(std::span<iovec> buffers, size_t bytes);

  // true: ahead() holds at least `bytes`, of at most kAheadBytes.
  [[nodiscard]] Result<bool> fetch(size_t bytes);
  [[nodiscard]] std::span<const std::byte> ahead() const {
    return std::span(ahead_).subspan(ahead_begin_, ahead_end_ - ahead_begin_);
  }
  void drop(size_t bytes) { ahead_begin_ += bytes; }
  // Fills `to` from its beginning; what comes behind it is read ahead. 0: nothing there now.
  [[nodiscard]] Result<size_t> read(Bytes to);

  // true: the head message's header is complete (header()). With kWithPayload, payload bytes may
  // already lie in `parts`.
  [[nodiscard]] Result<bool> read_header(HeaderRead how, std::span<const Bytes> parts);
  [[nodiscard]] const FrameBytes& header() const { return header_; }
  [[nodiscard]] bool header_complete() const { return header_bytes_ == kFrameBytes; }
  // Payload bytes of the head message read so far.
  [[nodiscard]] size_t payload_bytes() const { return payload_bytes_; }
  // true: all `total` bytes of the head message lie in `parts`.
  [[nodiscard]] Result<bool> read_payload(std::span<const Bytes> parts, size_t total);
  // The head message is dealt with.
  void next_message();
  // The head frame has no payload: what was read into `parts` behind its header belongs to what
  // follows it. Keeps it for the next reads; the head is dealt with.
  void next_message_after_bare_header(std::span<const Bytes> parts);
  // Nothing of a message has been read yet.
  [[nodiscard]] bool at_message_start() const {
    return header_bytes_ == 0 && ahead_begin_ == ahead_end_;
  }
  // The peer's end of the connection has been reached, or the connection is broken: nothing is left
  // to be read.
  [[nodiscard]] bool at_end() const;
  // Something can be read without a new edge.
  [[nodiscard]] bool may_read() const { return socket_->readable || ahead_begin_ != ahead_end_; }
  // Called when a read of the head message would block: the next edge comes when the rest of its
  // header, read as said, and of its payload can be read, or as much as the mark may ask for.
  void await_rest(HeaderRead how, size_t payload_bytes);
  // Nobody waits for the next message, so it needs no edge before begin_awaiting(). The kernel
  // acknowledges at once what lies below the mark, and else only what has been read.
  void await_nothing() { set_low_water(kUnawaitedLowWaterBytes); }
  [[nodiscard]] bool awaits_nothing() const { return low_water_bytes_ == kUnawaitedLowWaterBytes; }
  // Somebody does: before each read of its header.
  void begin_awaiting() { socket_->readable |= awaits_nothing(); }
  // Bytes that lie below the mark can be read from now on; true if there were any. Call about once
  // a second while a message is awaited.
  [[nodiscard]] bool look_below_mark();

  // Whether the kernel still gets answers from the peer's kernel: see AnswerWatch::check and
  // unanswered.
  [[nodiscard]] Status check_alive(const LookAtConnection& look);
  [[nodiscard]] Status check_alive(const LookAtConnection& look, std::chrono::milliseconds silence);
  [[nodiscard]] bool suspected() const { return answers_.suspects(); }
  [[nodiscard]] bool unanswered(const LookAtConnection& look) const;

  // Not ok: the connection has ended, or has broken; what came before can still be read.
  [[nodiscard]] Status ended() const;
  // No more output; what the peer sends from now on is thrown away. true: the peer's host has not
  // acknowledged everything yet.
  [[nodiscard]] bool finish_output();

  // Of what was written.
  [[nodiscard]] uint64_t written_bytes() const { return written_bytes_; }
  // How much of that the peer's host has acknowledged, at least.
  [[nodiscard]] uint64_t acknowledged_bytes(const CountUnacknowledged& count) const;
  // Reads all that is there, however much, and closes the socket: the reading calls go on with
  // that, and nothing comes behind it. How many whole messages of links it is, with the head.
  size_t drain();
  [[nodiscard]] bool drained() const { return !socket_->fd.valid(); }

  [[nodiscard]] uint64_t memory_bytes() const { return ahead_.capacity(); }

 private:
  // Reads into the buffers in order; 0: would block.
  [[nodiscard]] Result<size_t> read_into(std::span<iovec> buffers);
  // Reads behind what is ahead; false: would block.
  [[nodiscard]] Result<bool> fill_ahead();
  void set_low_water(size_t wanted);
  size_t take_ahead(std::byte* to, size_t limit);
  [[nodiscard]] size_t whole_messages() const;

  std::unique_ptr<Socket> socket_;
  FrameBytes header_{};
  size_t header_bytes_ = 0;
  size_t payload_bytes_ = 0;
  std::vector<std::byte> ahead_;
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  size_t low_water_bytes_ = 1;
  AnswerWatch answers_;
  bool output_ended_ = false;
  uint64_t written_bytes_ = 0;
};

}  // namespace ho::tcp
