#include "transport/shm/segment_exchange.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.hpp"
#include "base/log.hpp"
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

std::string to_string(const ProcessCredentials& who) {
  return "process " + std::to_string(who.pid) + " of user " + std::to_string(who.uid);
}

// Root may do anything to a rank as it is.
bool may_be_of_job(const ProcessCredentials& who) {
  return who.uid == ::geteuid() || who.uid == 0;
}

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes{};
  HORING_TRY(fill_random(bytes));
  return "horing-" + hex_text(bytes);
}

class SegmentExchange {
 public:
  SegmentExchange(const ShmOptions& options, const SegmentGeometry& geometry, Deadline deadline)
      : options_(options), geometry_(geometry), deadline_(deadline) {
    const auto self = std::ranges::find(options.members, options.self);
    self_ = static_cast<size_t>(self - options.members.begin());
    peers_.resize(options.members.size());
    called_.resize(options.members.size());
    called_.at(self_) = true;
  }

  [[nodiscard]] Status open_listener();
  [[nodiscard]] Status exchange_infos(const GroupExchange& exchange);
  // Calls all others and answers their calls meanwhile: nobody waits for one who waits.
  [[nodiscard]] Status exchange_all(const SharedMemory& segment, const EventFd& event);
  [[nodiscard]] Status try_reading(const GroupExchange& exchange);
  [[nodiscard]] std::vector<std::unique_ptr<ShmPeer>> take_peers() { return std::move(peers_); }

 private:
  [[nodiscard]] Status check_info(size_t index, std::span<const std::byte> bytes);
  // False: its queue is full, and it is called again.
  [[nodiscard]] Result<bool> call(size_t to, std::span<const int> fds) const;
  [[nodiscard]] Status call_others(std::span<const int> fds);
  [[nodiscard]] Status call_failed(size_t to, const Status& why) const;
  [[nodiscard]] Status accept_callers();
  // Of those who have called: reads what has come, and lets go of who has said anything.
  [[nodiscard]] Status hear_callers();
  void wait_for_callers() const;
  void note_stranger(const ProcessCredentials& who);
  [[nodiscard]] Status too_late() const;
  [[nodiscard]] Status interrupted() const;
  [[nodiscard]] Status hear_why_gone() const;
  // Reads what a caller sent. Callers that are not of the job are dropped without an answer.
  [[nodiscard]] Status hear(const Fd& caller);
  [[nodiscard]] bool all_exchanged() const;
  // "rank 1, 5": those whose entry is not there yet.
  template <typename IsMissing>
  [[nodiscard]] std::string missing(const IsMissing& is_missing) const;

  const ShmOptions& options_;
  const SegmentGeometry& geometry_;
  Deadline deadline_;
  size_t self_ = 0;
  Fd listener_;
  SegmentInfo own_;
  std::unique_ptr<Secret> probe_ = std::make_unique<Secret>();
  std::vector<SegmentInfo> infos_;
  std::vector<Fd> callers_;   // connected, nothing read yet; the oldest first
  std::vector<bool> called_;  // who has this rank's descriptors
  std::vector<std::unique_ptr<ShmPeer>> peers_;
  uint64_t strangers_ = 0;  // that called and may not
  std::string stranger_;    // who the last one was
};

Status SegmentExchange::open_listener() {
  HORING_ASSIGN(const std::string name, random_name());
  // Strangers of this host can take places in the queue, which empties in each turn.
  constexpr int kMaxWaiting = 4096;
  HORING_ASSIGN(listener_, listen_abstract(name, kMaxWaiting));
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

Result<bool> SegmentExchange::call(size_t to, std::span<const int> fds) const {
  const SegmentInfo& info = infos_[to];
  auto connection = connect_abstract(info.socket_name.data(), Deadline::min());
  if (connection.status().code() == StatusCode::kTimeout) {
    return false;
  }
  HORING_TRY(connection.status());
  // The name is free for anybody once its rank has ended.
  HORING_ASSIGN(const ProcessCredentials listener, peer_credentials(*connection));
  if (!may_be_of_job(listener)) {
    return Status(StatusCode::kConnection, to_string(listener) + " listens in its place");
  }
  PendingHandshake handshake;
  handshake.from_index = static_cast<uint32_t>(self_);
  handshake.token = info.token;
  const Status sent = send_with_fds(*connection, bytes_of(handshake), fds, Deadline::min());
  // It may have made room for one that came later.
  if (sent.code() == StatusCode::kTimeout || sent.code() == StatusCode::kPeerLost) {
    return false;
  }
  HORING_TRY(sent);
  return true;
}

Status SegmentExchange::call_failed(size_t to, const Status& why) const {
  const bool nobody = why.code() == StatusCode::kConnection;
  if (nobody) {
    HORING_TRY(hear_why_gone());
  }
  return why.with_context(
      "handing shared memory to " + rank_text(options_.members[to]) +
      (nobody ? " (has it ended? Else, do both ranks share a network namespace? set HORING_HOST_ID "
                "to put them in different groups)"
              : ""));
}

// Each rank begins with the one after it.
Status SegmentExchange::call_others(std::span<const int> fds) {
  for (size_t i = 1; i < infos_.size(); ++i) {
    const size_t to = (self_ + i) % infos_.size();
    if (called_[to]) {
      continue;
    }
    const Result<bool> called = call(to, fds);
    if (!called.ok()) {
      return call_failed(to, called.status());
    }
    called_[to] = *called;
  }
  return {};
}

template <typename IsMissing>
std::string SegmentExchange::missing(const IsMissing& is_missing) const {
  std::string text;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (i != self_ && is_missing(i)) {
      text += (text.empty() ? "rank " : ", ") + std::to_string(options_.members[i].value());
    }
  }
  return text;
}

bool SegmentExchange::all_exchanged() const {
  return missing([this](size_t i) { return !called_[i] || peers_[i] == nullptr; }).empty();
}

Status SegmentExchange::too_late() const {
  const std::string full = missing([this](size_t i) { return !called_[i]; });
  const std::string absent = missing([this](size_t i) { return peers_[i] == nullptr; });
  std::string text;
  if (!absent.empty()) {
    text = "no shared memory from " + absent + " within the deadline";
  }
  if (!full.empty()) {
    text += (text.empty() ? "" : "; ") + full +
            " did not take this rank's within the deadline: too many connections wait there";
  }
  if (strangers_ > 0) {
    text += "; " + std::to_string(strangers_) + " connections to this rank's socket were of " +
            "processes that are not of this job, at last of " + stranger_ +
            ": end whatever opens them";
  }
  return {StatusCode::kTimeout, text + "; see the output of these ranks"};
}

void SegmentExchange::note_stranger(const ProcessCredentials& who) {
  stranger_ = to_string(who);
  if (strangers_++ == 0) {
    log_warn(
        "shared memory: {} has connected to the socket at which rank {} awaits the ranks of its "
        "host, and is not of this job; it is sent away, and the ranks go on",
        stranger_,
        options_.self.value());
  }
}

// Where more callers are silent than can be ranks, the oldest makes room. What it has sent until
// then is heard, and what it sends later is an error there.
Status SegmentExchange::accept_callers() {
  const size_t most = 2 * options_.members.size() + 16;
  // Strangers may come faster than they are sent away: there is more to do than that.
  constexpr int kMaxInTurn = 4096;
  for (int i = 0; i < kMaxInTurn; ++i) {
    HORING_ASSIGN(Fd caller, accept_waiting(listener_));
    if (!caller.valid()) {
      break;
    }
    HORING_ASSIGN(const ProcessCredentials who, peer_credentials(caller));
    if (!may_be_of_job(who)) {
      note_stranger(who);
      continue;
    }
    callers_.push_back(std::move(caller));
    if (callers_.size() > most) {
      ::shutdown(callers_.front().get(), SHUT_RD);
      HORING_TRY(hear(callers_.front()));
      callers_.erase(callers_.begin());
    }
  }
  return {};
}

Status SegmentExchange::hear_callers() {
  std::vector<pollfd> waits;
  waits.reserve(callers_.size());
  for (const Fd& caller : callers_) {
    waits.push_back({caller.get(), POLLIN, 0});
  }
  if (waits.empty() || ::poll(waits.data(), waits.size(), 0) <= 0) {
    return {};
  }
  std::vector<Fd> silent;
  for (size_t i = 0; i < callers_.size(); ++i) {
    if (waits[i].revents == 0) {
      silent.push_back(std::move(callers_[i]));
      continue;
    }
    HORING_TRY(hear(callers_[i]));
  }
  callers_ = std::move(silent);
  return {};
}

// Unix sockets do not announce room in a listener's queue: who is to be called again is called
// soon.
void SegmentExchange::wait_for_callers() const {
  const bool calls = !missing([this](size_t i) { return !called_[i]; }).empty();
  std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
  for (const Fd& caller : callers_) {
    waits.push_back({caller.get(), POLLIN, 0});
  }
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline_));
  const int64_t most = calls ? 1 : kSlice.count();
  (void)::poll(
      waits.data(), waits.size(), static_cast<int>(std::clamp<int64_t>(left_ms.count(), 1, most)));
}

Status SegmentExchange::hear(const Fd& caller) {
  PendingHandshake handshake;
  auto received = receive_with_fds(caller, std::as_writable_bytes(std::span(&handshake, 1)));
  const bool ours = received.ok() && received->message_bytes == sizeof(handshake) &&
                    handshake.magic == kMagic && equal_secrets(handshake.token, own_.token);
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

Status SegmentExchange::exchange_all(const SharedMemory& segment, const EventFd& event) {
  const std::array<int, 2> fds{segment.fd(), event.fd()};
  Deadline next_look = Clock::now();
  while (true) {
    HORING_TRY(accept_callers());
    HORING_TRY(hear_callers());
    HORING_TRY(call_others(fds));
    if (all_exchanged()) {
      return {};
    }
    // Whether another rank has failed.
    if (passed(next_look)) {
      HORING_TRY(interrupted());
      next_look = deadline_after(kSlice);
    }
    if (passed(deadline_)) {
      return too_late();
    }
    wait_for_callers();
  }
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
    peer.reads_peer = read.ok() && equal_secrets(seen, infos_[i].probe);
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
  HORING_TRY(segments.exchange_all(segment, event));
  HORING_TRY(segments.try_reading(exchange));
  return segments.take_peers();
}

}  // namespace ho
