// The last operations of an engine: what was called, how far it came and when, and for whom it
// waits. Always on. It tells the ranks whether their calls are the same, fills the file that a
// failure leaves, and answers `horing status`.
//
// One thread at a time writes, the one with the engine's lock. Any thread may read at any time,
// also while that lock is held for ever: nothing is locked, and what is written meanwhile is read
// again (a sequence lock for each record).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/index.hpp"
#include "base/names.hpp"
#include "base/status.hpp"
#include "exec/call.hpp"
#include "os/private_memory.hpp"
#include "transport/transport.hpp"

namespace ho {

// For what an operation waits.
struct OperationWait {
  enum class Kind : uint8_t {
    kNothing,  // it has just moved
    kReceive,  // a message of the peer
    kSend,     // that the peer, or the way to it, takes a message
    kRead,     // that the peer has read what was sent
    kEntry,    // that the stream of the call gets to it
    kDevice,   // copies and sums of a device
  };
  Kind kind = Kind::kNothing;
  bool on_rail = false;  // between groups
  bool any_peer = false;
  GlobalRank peer{};  // of the communicator
  RailIndex rail{};
  uint32_t step = 0;  // of `steps` on its lane
  uint32_t steps = 0;
  int64_t since_ns = 0;
};
inline constexpr Names<6> kWaitNames{"nothing", "recv", "send", "read", "stream", "device"};

// What changes while an operation goes on.
struct OperationProgress {
  enum class State : uint8_t { kQueued, kRunning, kCompleted, kFailed };
  State state = State::kQueued;
  int64_t first_piece_ns = 0;  // each 0: not yet
  int64_t last_piece_ns = 0;
  int64_t ended_ns = 0;
  uint64_t done_pieces = 0;
  uint64_t pieces = 0;
  OperationWait wait;
};
inline constexpr Names<4> kOperationStateNames{"queued", "running", "completed", "failed"};

struct OperationRecord {
  MadeCall made;
  uint64_t number = 0;  // in its channel, from 1
  uint64_t bytes = 0;   // of the call, as `count` says
  int64_t entered_ns = 0;
  OperationProgress progress;
};

class Recorder {
 public:
  static constexpr size_t kKept = 1024;  // of a channel
  static constexpr size_t kRails = 64;   // whose use is told; no more are known of

  // Takes memory as records are used.
  [[nodiscard]] static Result<std::shared_ptr<Recorder>> create();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() = default;

  // By who has the engine's lock. begin() numbers the record.
  void begin(OperationRecord& record);
  // What record.progress is now.
  void update(const OperationRecord& record);
  void end(OperationRecord& record, OperationProgress::State state, int64_t now);
  void set_rail_use(std::span<const RailUse> rails);

  // By any thread. The last of a channel, oldest first; and the first that has not ended, where it
  // is older.
  [[nodiscard]] std::vector<OperationRecord> last(uint8_t channel, size_t most = kKept) const;
  [[nodiscard]] uint64_t begun(uint8_t channel) const {
    return channel < kChannelCount ? channels_.at(channel).begun.load() : 0;
  }
  [[nodiscard]] uint64_t completed() const { return completed_.load(); }
  [[nodiscard]] uint64_t completed_bytes() const { return completed_bytes_.load(); }
  // As far as it was told; empty: links do not fail over.
  [[nodiscard]] std::vector<RailUse> rail_use() const;

  // Not ok: this rank has made another call in the place of the peer's, in its channel or among
  // those with a label.
  [[nodiscard]] Status compare(const MadeCall& peer) const;
  // This one and those before it, the last `most` of them.
  [[nodiscard]] std::vector<MadeCall> until(uint8_t channel, uint32_t number, size_t most) const;

 private:
  static_assert(std::is_trivially_copyable_v<OperationRecord>);
  static constexpr size_t kWordBytes = sizeof(uint64_t);
  static_assert(sizeof(OperationRecord) % kWordBytes == 0);
  static constexpr size_t kWords = sizeof(OperationRecord) / kWordBytes;
  static constexpr size_t kProgressWord = offsetof(OperationRecord, progress) / kWordBytes;
  static_assert(offsetof(OperationRecord, progress) % kWordBytes == 0);

  struct Slot {
    std::atomic<uint64_t> version;  // odd: it is being written
    std::array<std::atomic<uint64_t>, kWords> words;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  struct Channel {
    std::atomic<uint64_t> begun = 0;
    // Of the first that has not ended, where so many came behind it that its place is taken.
    Slot overtaken{};
  };

  explicit Recorder(PrivateMemory memory) : memory_(std::move(memory)) {}
  [[nodiscard]] Slot& slot(uint8_t channel, uint64_t number) const;
  static void write(Slot& slot, const OperationRecord& record, size_t first_word);
  [[nodiscard]] static std::optional<OperationRecord> read(const Slot& slot);

  const PrivateMemory memory_;  // zeros are slots that hold nothing
  std::array<Channel, kChannelCount> channels_;
  std::atomic<uint64_t> completed_ = 0;
  std::atomic<uint64_t> completed_bytes_ = 0;
  std::array<SeenRailUse, kRails> rails_;
  std::atomic<size_t> rail_count_ = 0;
};

}  // namespace ho
