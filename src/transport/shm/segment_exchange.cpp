#include "transport/shm/segment_exchange.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/version.hpp"
#include "os/fd_passing.hpp"
#include "os/peer_memory.hpp"
#include "os/random_bytes.hpp"

namespace ho {
namespace {

constexpr uint64_t kMagic = 0x6d68732d676e6972;  // "ring-shm"
using Secret = std::array<std::byte, 16>;
// Between two checks whether another rank has failed.
constexpr std::chrono::milliseconds kSlice{100};
// From the failure of a rank until the others have the decision on it, which takes 2 s where a rank
// does not answer.
constexpr std::chrono::milliseconds kTimeToReport{3000};

// What goes through the control plane. Ranks of one host share byte order and layout.
struct SegmentInfo {
  uint64_t magic = kMagic;
  uint32_t version = kWireVersion;
  uint32_t rank = 0;
  uint64_t job_id = 0;
  uint64_t ring_bytes = 0;
  uint32_t member_count = 0;
  int32_t pid = 0;
  uint64_t probe_address = 0;
  Secret probe{};  // what lies at probe_address
  Secret token{};  // proves to this rank that a caller has read this info
  std::array<char, 48> socket_name{};
};
static_assert(std::is_trivially_copyable_v<SegmentInfo>);

// What is sent with the descriptors over the Unix socket.
struct PendingHandshake {
  uint64_t magic = kMagic;
  uint32_t from_index = 0;
  uint32_t unused = 0;
  Secret token{};  // the called rank's
};
static_assert(std::is_trivially_copyable_v<PendingHandshake>);

template <typename Plain>
std::span<const std::byte> bytes_of(const Plain& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string rank_text(GlobalRank rank) {
  return "rank " + std::to_string(rank.value());
}

bool equal(const Secret& a, const Secret& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= a.at(i) ^ b.at(i);
  }
  return difference == std::byte{0};
}

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  HORING_TRY(fill_random(bytes));
  std::string name = "horing-";
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[std::to_integer<size_t>(byte >> 4)];
    name += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return name;
}

class SegmentExchange {
 public:
  SegmentExchange(const ShmOptions& options, const SegmentGeometry& geometry, Deadline deadline)
      : options_(options), geometry_(geometry), deadline_(deadline) {
    const auto self = std::find(options.members.begin(), options.members.end(), options.self);
    self_ = static_cast<size_t>(self - options.members.begin());
    peers_.resize(options.members.size());
  }

  [[nodiscard]] Status open_listener();
  [[nodiscard]] Status exchange_infos(const GroupExchange& exchange);
  [[nodiscard]] Status call_all(const SharedMemory& segment, const EventFd& event);
  [[nodiscard]] Status answer_all();
  [[nodiscard]] Status try_reading(const GroupExchange& exchange);
  [[nodiscard]] std::vector<std::unique_ptr<ShmPeer>> take_peers() { return std::move(peers_); }

 private:
  [[nodiscard]] Status check_info(size_t index, std::span<const std::byte> bytes);
  [[nodiscard]] Status accept_callers();
  [[nodiscard]] Status hand_over(size_t to, std::span<const int> fds) const;
  [[nodiscard]] Status interrupted() const;
  [[nodiscard]] Status hear_why_gone() const;
  template <typename Call>
  [[nodiscard]] Status in_slices(const Call& call) const;
  // Reads what a caller sent. Callers that are not of the job are dropped without an answer.
  [[nodiscard]] Status hear(const Fd& caller);
  [[nodiscard]] std::string absent() const;

  const ShmOptions& options_;
  const SegmentGeometry& geometry_;
  Deadline deadline_;
  size_t self_ = 0;
  Fd listener_;
  SegmentInfo own_;
  std::unique_ptr<Secret> probe_ = std::make_unique<Secret>();
  std::vector<SegmentInfo> infos_;
  std::vector<Fd> callers_;  // connected, nothing read yet
  std::vector<std::unique_ptr<ShmPeer>> peers_;
};

Status SegmentExchange::open_listener() {
  HORING_ASSIGN(const std::string name, random_name());
  const int backlog = static_cast<int>(std::min<size_t>(options_.members.size() + 16, 4096));
  HORING_ASSIGN(listener_, listen_abstract(name, backlog));
  HORING_TRY(fill_random(own_.token));
  HORING_TRY(fill_random(*probe_));
  own_.rank = options_.self.value();
  own_.job_id = options_.job_id;
  own_.ring_bytes = geometry_.ring_bytes();
  own_.member_count = static_cast<uint32_t>(options_.members.size());
  own_.pid = ::getpid();
  own_.probe_address = reinterpret_cast<uintptr_t>(probe_->data());
  own_.probe = *probe_;
  static_assert(sizeof(own_.socket_name) >= 7 + 32 + 1);
  std::memcpy(own_.socket_name.data(), name.data(), name.size());
  return {};
}

Status SegmentExchange::check_info(size_t index, std::span<const std::byte> bytes) {
  const GlobalRank rank = options_.members[index];
  SegmentInfo& info = infos_[index];
  if (bytes.size() != sizeof(SegmentInfo)) {
    return {StatusCode::kProtocol,
            rank_text(rank) + " introduced itself with " + std::to_string(bytes.size()) +
                " bytes, expected " + std::to_string(sizeof(SegmentInfo)) +
                "; run the same build of the library on all ranks"};
  }
  std::memcpy(&info, bytes.data(), sizeof(SegmentInfo));
  if (info.magic != kMagic || info.version != kWireVersion || info.rank != rank.value()) {
    return {StatusCode::kProtocol,
            "the segment info of " + rank_text(rank) + " is damaged or of another version (" +
                std::to_string(info.version) + ", this rank has " + std::to_string(kWireVersion) +
                ")"};
  }
  if (info.job_id != options_.job_id) {
    return {StatusCode::kMismatch, rank_text(rank) + " belongs to another job"};
  }
  if (info.ring_bytes != own_.ring_bytes || info.member_count != own_.member_count) {
    return {StatusCode::kMismatch,
            rank_text(rank) + " has rings of " + std::to_string(info.ring_bytes) + " bytes and " +
                std::to_string(info.member_count) + " ranks on this host, this rank " +
                std::to_string(own_.ring_bytes) + " bytes and " +
                std::to_string(own_.member_count) +
                " ranks; set HORING_SHM_RING_BYTES to the same value on all ranks"};
  }
  info.socket_name.back() = '\0';
  if (info.pid <= 0 || info.socket_name.front() == '\0') {
    return {StatusCode::kProtocol, "the segment info of " + rank_text(rank) + " is damaged"};
  }
  return {};
}

Status SegmentExchange::exchange_infos(const GroupExchange& exchange) {
  HORING_ASSIGN(const auto blobs, exchange(bytes_of(own_)));
  if (blobs.size() != options_.members.size()) {
    return {StatusCode::kInternal,
            "the exchange among the ranks of this host gave " + std::to_string(blobs.size()) +
                " segment infos for " + std::to_string(options_.members.size()) + " ranks"};
  }
  infos_.resize(blobs.size());
  for (size_t i = 0; i < blobs.size(); ++i) {
    HORING_TRY(check_info(i, blobs[i]));
  }
  return {};
}

Status SegmentExchange::interrupted() const {
  return options_.interrupted ? options_.interrupted() : Status();
}

// Calls that may wait, with short deadlines one after the other: between them it checks whether
// another rank has failed.
template <typename Call>
Status SegmentExchange::in_slices(const Call& call) const {
  while (true) {
    Status status = call(std::min(deadline_, deadline_after(kSlice)));
    if (status.code() != StatusCode::kTimeout || passed(deadline_)) {
      return status;
    }
    HORING_TRY(interrupted());
  }
}

// A rank that could not go on closes its socket a moment before its report arrives, which has the
// cause.
Status SegmentExchange::hear_why_gone() const {
  const Deadline end = std::min(deadline_, deadline_after(kTimeToReport));
  Status why = interrupted();
  while (why.ok() && !passed(end)) {
    ::poll(nullptr, 0, 10);
    why = interrupted();
  }
  return why;
}

Status SegmentExchange::hand_over(size_t to, std::span<const int> fds) const {
  const SegmentInfo& info = infos_[to];
  PendingHandshake handshake;
  handshake.from_index = static_cast<uint32_t>(self_);
  handshake.token = info.token;
  Fd connection;
  HORING_TRY(in_slices([&](Deadline slice) -> Status {
    HORING_ASSIGN(connection, connect_abstract(info.socket_name.data(), slice));
    return {};
  }));
  return in_slices(
      [&](Deadline slice) { return send_with_fds(connection, bytes_of(handshake), fds, slice); });
}

Status SegmentExchange::call_all(const SharedMemory& segment, const EventFd& event) {
  const std::array<int, 2> fds{segment.fd(), event.fd()};
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (i == self_) {
      continue;
    }
    const Status sent = hand_over(i, fds);
    if (sent.ok()) {
      continue;
    }
    const bool nobody = sent.code() == StatusCode::kConnection;
    if (nobody || sent.code() == StatusCode::kPeerLost) {
      HORING_TRY(hear_why_gone());
    }
    return sent.with_context(
        "handing shared memory to " + rank_text(options_.members[i]) +
        (nobody ? " (do both ranks share a network namespace? set HORING_HOST_ID to put them in "
                  "different groups)"
                : ""));
  }
  return {};
}

std::string SegmentExchange::absent() const {
  std::string text;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (i != self_ && peers_[i] == nullptr) {
      text += (text.empty() ? "rank " : ", ") + std::to_string(options_.members[i].value());
    }
  }
  return text;
}

Status SegmentExchange::accept_callers() {
  // More callers than ranks can only be strangers; the newest of them have to wait.
  const size_t most = 2 * options_.members.size() + 16;
  while (callers_.size() < most) {
    HORING_ASSIGN(Fd caller, accept_waiting(listener_));
    if (!caller.valid()) {
      break;
    }
    HORING_ASSIGN(const uid_t uid, peer_uid(caller));
    if (uid == ::geteuid() || uid == 0) {
      callers_.push_back(std::move(caller));
    }
  }
  return {};
}

Status SegmentExchange::hear(const Fd& caller) {
  PendingHandshake handshake;
  auto received = receive_with_fds(caller, std::as_writable_bytes(std::span(&handshake, 1)));
  const bool ours = received.ok() && received->message_bytes == sizeof(handshake) &&
                    handshake.magic == kMagic && equal(handshake.token, own_.token);
  if (!ours) {
    return {};
  }
  const size_t from = handshake.from_index;
  if (received->fds_lost && from < peers_.size()) {
    return system_error("receiving shared memory from " + rank_text(options_.members[from]),
                        EMFILE);
  }
  if (from >= peers_.size() || from == self_ || peers_[from] != nullptr ||
      received->fds.size() != 2) {
    return {StatusCode::kProtocol,
            "a rank of this job handed over shared memory in a malformed way (index " +
                std::to_string(from) + ", " + std::to_string(received->fds.size()) +
                " descriptors)"};
  }
  auto segment = SharedMemory::attach(std::move(received->fds[0]), geometry_.segment_bytes());
  if (!segment.ok()) {
    return segment.status().with_context("shared memory of " + rank_text(options_.members[from]));
  }
  segment->close_fd();
  peers_[from] = std::make_unique<ShmPeer>(ShmPeer{std::move(*segment),
                                                   EventFd(std::move(received->fds[1])),
                                                   infos_[from].pid,
                                                   false,
                                                   false,
                                                   {}});
  return {};
}

Status SegmentExchange::answer_all() {
  while (!absent().empty()) {
    HORING_TRY(interrupted());
    if (passed(deadline_)) {
      return {StatusCode::kTimeout,
              "no shared memory from " + absent() +
                  " within the deadline; see the output of these ranks"};
    }
    std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
    for (const Fd& caller : callers_) {
      waits.push_back({caller.get(), POLLIN, 0});
    }
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline_));
    const auto timeout = static_cast<int>(std::clamp<int64_t>(left_ms.count(), 1, kSlice.count()));
    if (::poll(waits.data(), waits.size(), timeout) <= 0) {
      continue;
    }
    std::vector<Fd> silent;
    for (size_t i = 0; i < callers_.size(); ++i) {
      if (waits[i + 1].revents == 0) {
        silent.push_back(std::move(callers_[i]));
        continue;
      }
      HORING_TRY(hear(callers_[i]));
    }
    callers_ = std::move(silent);
    HORING_TRY(accept_callers());
  }
  return {};
}

Status SegmentExchange::try_reading(const GroupExchange& exchange) {
  const size_t count = peers_.size();
  std::vector<std::byte> readable(count, std::byte{0});
  for (size_t i = 0; i < count; ++i) {
    if (i == self_) {
      continue;
    }
    ShmPeer& peer = *peers_[i];
    if (!options_.single_copy) {
      peer.why_not = "switched off (HORING_SHM_SINGLE_COPY=0)";
      continue;
    }
    Secret seen{};
    const RemoteRange from{infos_[i].probe_address, seen.size()};
    const std::span<std::byte> into(seen);
    const Status read = read_peer_memory(peer.pid, std::span(&from, 1), std::span(&into, 1));
    peer.reads_peer = read.ok() && equal(seen, infos_[i].probe);
    if (!peer.reads_peer) {
      peer.why_not =
          read.ok() ? "its process id names another process here (pid namespaces)" : read.message();
    }
    readable[i] = peer.reads_peer ? std::byte{1} : std::byte{0};
  }
  HORING_ASSIGN(const auto answers, exchange(readable));
  for (size_t i = 0; i < count; ++i) {
    if (answers.size() != count || answers[i].size() != count) {
      return {StatusCode::kProtocol,
              "malformed answer about single copy from " + rank_text(options_.members[i])};
    }
    if (i != self_) {
      peers_[i]->reads_me = options_.single_copy && answers[i][self_] == std::byte{1};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<ShmPeer>>> introduce(const ShmOptions& options,
                                                        const SegmentGeometry& geometry,
                                                        const SharedMemory& segment,
                                                        const EventFd& event,
                                                        const GroupExchange& exchange,
                                                        Deadline deadline) {
  SegmentExchange segments(options, geometry, deadline);
  if (options.members.size() == 1) {
    return segments.take_peers();
  }
  HORING_TRY(segments.open_listener());
  HORING_TRY(segments.exchange_infos(exchange));
  HORING_TRY(segments.call_all(segment, event));
  HORING_TRY(segments.answer_all());
  HORING_TRY(segments.try_reading(exchange));
  return segments.take_peers();
}

}  // namespace ho
