// The sending end of a comm: takes the buffers that the receiver announces, and writes messages
// into them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/builtin/comm.hpp"
#include "core/builtin/posted_receives.hpp"

namespace ho::plugin {

class SendComm final : public Comm {
 public:
  // A message is cut over the connections into pieces of at least that many bytes.
  static constexpr uint64_t kMinPieceBytes = 65536;

  explicit SendComm(ConnectionSet connections);

  // A null request: no buffer with that tag yet, or kMaxRequests are under way.
  [[nodiscard]] Reply isend(std::span<const std::byte> data, int32_t tag, Request** request);

 private:
  struct SendRequest : Request {
    std::span<const std::byte> data;
    int32_t tag = 0;
    PostedReceives::Slot posted;
    uint32_t pieces_left = 0;
  };
  struct Piece {
    SendRequest* request = nullptr;
    NetSegment::Kind kind = NetSegment::Kind::kPiece;
    SegmentBytes header{};
    std::span<const std::byte> data;
  };
  // A connection with the pieces that wait for it. A request has at most one piece per connection.
  struct Output {
    NetConnection* connection = nullptr;
    std::array<Piece, kMaxRequests> pieces;
    size_t first = 0;
    size_t count = 0;
    size_t written = 0;      // of the first piece and its header
    size_t paced_bytes = 0;  // that may leave from then on
    int64_t paced_from_ns = 0;

    [[nodiscard]] Piece& at(size_t index) { return pieces.at((first + index) % kMaxRequests); }
  };

  [[nodiscard]] Status advance() override;
  [[nodiscard]] std::string oldest() const override;
  [[nodiscard]] size_t encode_leaving(LeavingBytes& bytes) const override;
  [[nodiscard]] bool is_leaving(std::span<const std::byte> waiting) const override;
  [[nodiscard]] std::optional<PostedReceives::Slot> take_slot(int32_t tag);
  void post(SendRequest& request);
  void post_piece(SendRequest& request, NetSegment segment);
  [[nodiscard]] Status write_output(Output& output);
  // How much of `most` may leave now; 0: a sleeper is woken when something may.
  [[nodiscard]] size_t pace(Output& output, size_t most);
  [[nodiscard]] Status note_written(Output& output, size_t bytes);
  [[nodiscard]] Status read_credits();

  std::array<SendRequest, kMaxRequests> requests_;
  std::vector<Output> outputs_;
  PostedReceives book_;         // of what is not ordered()
  uint64_t next_sequence_ = 1;  // of what is
  size_t next_output_ = 0;
};

}  // namespace ho::plugin
