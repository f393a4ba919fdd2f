// The control plane's messages as bytes and back. Pure: no sockets. Every number a peer sends is
// checked here before anything is allocated or indexed with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/messages/messages.hpp"

namespace ho::wire {

using View = std::span<const std::byte>;
using Buffer = std::vector<std::byte>;

inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr size_t kMaxBlobBytes = size_t{1} << 20;
inline constexpr size_t kMaxTagBytes = 256;
inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr size_t kMaxHostBytes = 112;
inline constexpr size_t kMaxCalledBytes = 64;
inline constexpr size_t kMaxJobBytes = 96;
inline constexpr size_t kMaxStates = 2048;
inline constexpr size_t kMaxChannels = 16;
inline constexpr size_t kMaxCallBytes = 64;
inline constexpr size_t kMaxAddresses = 64;
inline constexpr size_t kMaxStatusBytes = size_t{64} << 10U;
// A blob with its tag and the largest list of members.
inline constexpr size_t kMaxBodyBytes = kMaxBlobBytes + size_t{4} * kMaxWorldSize + 4096;

enum class Type : uint8_t {
  kWelcome = 1,        // coordinator: all ranks have found each other
  kRefusal = 2,        // coordinator: they have not, and why
  kContribution = 3,   // rank: its part of an all-gather; the id is the rank's own
  kGathered = 4,       // coordinator: some of the parts, for that id
  kGatherFailed = 5,   // coordinator: an Outcome for that id
  kReport = 6,         // rank: a FailureReport
  kStateQuery = 7,     // coordinator: where are you? The id comes back with the answer
  kStates = 8,         // rank: a list of RankState
  kDecision = 9,       // coordinator: an Outcome; the id is the communicator's that it ends
  kGoodbye = 10,       // rank: leaves as planned, or has heard the shutdown: its last message
  kShutdown = 11,      // coordinator: leaves as planned
  kLeaving = 12,       // rank: a LeaveNotice, its own from one communicator
  kLeaveNotice = 13,   // coordinator: a LeaveNotice of another rank
  kJoined = 14,        // rank: a Membership; what ends the communicator is told to this rank too
  kReleased = 15,      // rank: is in no more communicator of that id
  kCallQuestion = 16,  // rank, and coordinator to the other members: a CallQuestion
  // With failover:
  kAddresses = 17,  // coordinator, then rank: where its process listens
  kReceived = 18,   // either: the id is how many messages have come from the other one, this type
                    // not counted
  // For `horing status`:
  kStatusQuestion = 19,  // rank: what do all others do? The id is its own. Coordinator: and you?
  kStatusReport = 20,    // rank: a StatusReport; coordinator: another rank's, with the asker's id
};
inline constexpr uint8_t kLastType = 20;

inline constexpr size_t kHeaderBytes = 16;
using HeaderBytes = std::array<std::byte, kHeaderBytes>;
struct Header {
  Type type = Type::kGoodbye;
  uint32_t body_bytes = 0;
  uint64_t id = 0;
};
[[nodiscard]] HeaderBytes encode(const Header& header);
[[nodiscard]] Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

// Cuts a stream into messages. Memory grows with the bytes that came, not with what they promise.
struct Message {
  Header header;
  Buffer body;
};
class Splitter {
 public:
  void feed(View bytes);
  // The next whole message, nothing yet, or an error after which the stream is worthless.
  [[nodiscard]] Result<std::optional<Message>> next();

 private:
  Buffer buffer_;
  size_t start_ = 0;
};

// What a rank says about itself in the handshake's claim.
struct RankClaim {
  uint32_t rank = 0;
  uint32_t world_size = 0;
  uint32_t pid = 0;
  uint32_t timeout_ms = 0;  // how long it is willing to wait for the others
  std::string host;
  std::string called = {};  // Rendezvous::called
  std::string job = {};     // Rendezvous::job
};
struct Welcome {
  uint64_t job_id = 0;
  std::string coordinator;          // "rank 0 (node1, pid 12)"
  std::string coordinator_address;  // numeric, where ranks reach rank 0; may be empty
};
struct Contribution {
  std::string tag;
  uint32_t timeout_ms = 0;
  std::vector<uint32_t> members;  // empty: all
  Buffer blob;
};
struct GatheredPart {
  uint32_t first = 0;  // index of blobs[0] among the members
  std::vector<Buffer> blobs;
};
// Where a process listens for as long as its job lives: one port of all these addresses.
struct Addresses {
  uint16_t port = 0;
  std::vector<std::string> hosts;  // numeric
};
// In the handshake of a control connection that takes the place of one that was lost.
struct ResumeClaim {
  uint64_t job_id = 0;
  uint64_t received = 0;  // messages of the coordinator's
  uint32_t rank = 0;
  uint32_t attempt = 0;  // of this rank's, from 1
};
struct Outcome {
  StatusCode code = StatusCode::kInternal;
  std::string text;
};

// Of RankClaim, Welcome, Addresses, ResumeClaim, Contribution, GatheredPart, Outcome,
// FailureReport, Membership, LeaveNotice, CallQuestion, StatusReport and std::vector<RankState>.
// Texts and lists are cut to their limits.
template <typename Message>
[[nodiscard]] Buffer encode(const Message& message);
template <typename Message>
[[nodiscard]] Result<Message> decode(View body);

}  // namespace ho::wire
