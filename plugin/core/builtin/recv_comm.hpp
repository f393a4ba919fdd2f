// The receiving end of a comm: announces buffers and lets what arrives be written into them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/builtin/comm.hpp"

namespace ho::plugin {

class RecvComm final : public Comm {
 public:
  struct Buffer {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    int32_t tag = 0;
  };

  explicit RecvComm(ConnectionSet connections);

  // Whether they can be the buffers of one irecv: 1 to kMaxReceives, none of them null.
  [[nodiscard]] static bool can_be_one(std::span<const Buffer> buffers);
  [[nodiscard]] static uint64_t capacity_of(std::span<const Buffer> buffers);
  // A null request: kMaxRequests are under way.
  [[nodiscard]] Reply irecv(std::span<const Buffer> buffers, Request** request);

 private:
  struct Slot {
    Buffer buffer;
    bool started = false;
    // Bytes, once started: of no segment yet, and not here yet.
    uint64_t unclaimed = 0;
    uint64_t missing = 0;
  };
  struct RecvRequest : Request {
    uint64_t sequence = 0;
    std::array<Slot, kMaxReceives> slots;
    uint32_t slots_left = 0;
  };
  struct Input {
    NetConnection* connection = nullptr;
    RecvRequest* request = nullptr;  // null: a header is due
    NetSegment segment;
    uint64_t got = 0;
    bool early = false;  // the header that is due is of a receive that is still to come
  };

  [[nodiscard]] Status advance() override;
  [[nodiscard]] Status check(int64_t now_ns) override;
  [[nodiscard]] std::string oldest() const override;
  [[nodiscard]] size_t encode_leaving(LeavingBytes& bytes) const override;
  [[nodiscard]] bool is_leaving(std::span<const std::byte> waiting) const override;
  void announce(const RecvRequest& request);
  void write_credits();
  [[nodiscard]] Status read_input(Input& input);
  [[nodiscard]] Result<bool> find_segment(Input& input);
  // The request stays null where the segment is early, or says that the sender closes.
  [[nodiscard]] Status start_segment(Input& input);
  [[nodiscard]] bool is_early(const NetSegment& segment) const;
  void end_segment(Input& input);
  [[nodiscard]] static bool has_ended(const Input& input);
  [[nodiscard]] Status look_for_ends();

  std::array<RecvRequest, kMaxRequests> requests_;
  std::vector<Input> inputs_;
  uint64_t next_sequence_ = 1;
  // Announcements that are not written yet: of active requests only, so they fit.
  std::array<std::byte, kMaxRequests * kMaxCreditBytes> credits_;
  size_t credits_begin_ = 0;
  size_t credits_end_ = 0;
  bool arrived_ = false;  // anything, since the last check
  uint32_t quiet_checks_ = 0;
};

}  // namespace ho::plugin
