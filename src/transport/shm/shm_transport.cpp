// The transport proper: this rank's segment, what it holds of its peers, the links made so far, and
// the question "may I sleep?", which is answered from what the links' last calls have not seen.
#include "transport/shm/shm_transport.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "os/process_watch.hpp"
#include "transport/shm/peer_end.hpp"
#include "transport/shm/segment_exchange.hpp"
#include "transport/shm/shm_link.hpp"

namespace ho {
namespace {

// What this rank holds of the other members. They learn that it has ended.
struct Membership {
  explicit Membership(const SegmentGeometry& of, size_t rank) : geometry(of), self(rank) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() {
    for (size_t peer = 0; peer < peers.size(); ++peer) {
      if (peers[peer] != nullptr) {
        geometry.control(peers[peer]->segment.bytes(), peer, self, 0).ended.store(1, kOrdered);
      }
    }
  }
  const SegmentGeometry geometry;
  const size_t self;
  std::vector<std::unique_ptr<ShmPeer>> peers;  // by member index
};

class ShmTransportImpl : public ShmTransport {
 public:
  ShmTransportImpl(const ShmOptions& options,
                   const SegmentGeometry& geometry,
                   SharedMemory segment,
                   EventFd event)
      : options_(options),
        geometry_(geometry),
        segment_(std::make_shared<SharedMemory>(std::move(segment))),
        event_(std::move(event)),
        sleeper_(SegmentGeometry::doorbell(segment_->bytes()), event_),
        membership_(std::make_shared<Membership>(geometry, index_of(options.self))) {}

  [[nodiscard]] Status exchange_segments(const GroupExchange& exchange, Deadline deadline) {
    HORING_ASSIGN(membership_->peers,
                  introduce(options_, geometry_, *segment_, event_, exchange, deadline));
    segment_->close_fd();
    watch_peers();
    return {};
  }
  ~ShmTransportImpl() override { say_closed(); }
  ShmTransportImpl(const ShmTransportImpl&) = delete;
  ShmTransportImpl& operator=(const ShmTransportImpl&) = delete;

  [[nodiscard]] Result<Link*> link(const LinkKey& key) override;
  [[nodiscard]] std::vector<LinkKey> unrequested_links() const override;
  [[nodiscard]] Status progress() override { return {}; }
  [[nodiscard]] int wait_fd() const override { return event_.fd(); }
  [[nodiscard]] bool prepare_wait(const WaitHint& hint) override {
    return prepare(SleepMode::kEpoll, hint);
  }
  void finish_wait() override { finish(SleepMode::kEpoll); }
  [[nodiscard]] bool prepare_sleep(const WaitHint& hint) override {
    return prepare(SleepMode::kFutex, hint);
  }
  void sleep(Deadline deadline) override { sleeper_.sleep(deadline); }
  void finish_sleep() override { finish(SleepMode::kFutex); }
  void close() override { say_closed(); }
  void wake() override { Bell(SegmentGeometry::doorbell(segment_->bytes()), event_).wake(); }
  [[nodiscard]] uint64_t memory_bytes() const override;
  [[nodiscard]] std::shared_ptr<const void> membership() const override { return membership_; }
  [[nodiscard]] std::function<bool()> others_ended() const override;
  [[nodiscard]] std::string single_copy_status() const override;

 private:
  struct News {
    uint64_t messages = 0;
    bool urgent = false;  // whatever the hint counts
  };

  [[nodiscard]] bool prepare(SleepMode mode, const WaitHint& hint);
  void finish(SleepMode mode);
  void say_closed();
  void watch_peers();
  void look_at_processes();
  [[nodiscard]] News news(const WaitHint& hint) const;
  void mark_seen();
  [[nodiscard]] size_t index_of(GlobalRank rank) const;
  [[nodiscard]] std::unique_ptr<ShmLink> make_link(size_t peer, uint8_t channel);

  ShmOptions options_;
  SegmentGeometry geometry_;
  // Outlives the transport where others_ended() is still to be asked.
  std::shared_ptr<SharedMemory> segment_;
  EventFd event_;
  Sleeper sleeper_;
  std::shared_ptr<Membership> membership_;
  std::shared_ptr<const std::vector<ProcessWatch>> processes_;  // by member index, as peer_ends_
  std::vector<std::unique_ptr<PeerEnd>> peer_ends_;             // none of this rank itself
  Deadline next_look_;
  bool closed_ = false;
  std::map<std::pair<size_t, uint8_t>, std::unique_ptr<ShmLink>> links_;
};

size_t ShmTransportImpl::index_of(GlobalRank rank) const {
  const auto& members = options_.members;
  return static_cast<size_t>(std::ranges::find(members, rank) - members.begin());
}

std::unique_ptr<ShmLink> ShmTransportImpl::make_link(size_t peer, uint8_t channel) {
  const size_t self = index_of(options_.self);
  const ShmPeer& other = *membership_->peers[peer];
  const auto there = other.segment.bytes();
  const auto here = segment_->bytes();
  return std::make_unique<ShmLink>(
      ShmLink::Wiring{options_.self,
                      options_.members[peer],
                      channel,
                      RingWriter(geometry_.control(there, peer, self, channel),
                                 geometry_.ring(there, peer, self, channel)),
                      RingReader(geometry_.control(here, self, peer, channel),
                                 geometry_.ring(here, self, peer, channel)),
                      Bell(SegmentGeometry::doorbell(there), other.event),
                      peer_ends_[peer].get(),
                      other.pid,
                      other.reads_me,
                      other.reads_peer,
                      options_.single_copy_min_bytes});
}

Result<Link*> ShmTransportImpl::link(const LinkKey& key) {
  const size_t peer = index_of(key.peer);
  if (peer == options_.members.size() || key.peer == options_.self ||
      key.channel >= kChannelCount) {
    return invalid("no shared memory link from rank " + std::to_string(options_.self.value()) +
                   " to rank " + std::to_string(key.peer.value()) + " on channel " +
                   std::to_string(key.channel) +
                   ": links lead to other ranks of this host, on channels below " +
                   std::to_string(kChannelCount));
  }
  auto& link = links_[{peer, key.channel}];
  if (link == nullptr) {
    link = make_link(peer, key.channel);
  }
  return static_cast<Link*>(link.get());
}

std::vector<LinkKey> ShmTransportImpl::unrequested_links() const {
  std::vector<LinkKey> found;
  const size_t self = index_of(options_.self);
  for (size_t peer = 0; peer < membership_->peers.size(); ++peer) {
    if (peer == self || links_.count({peer, kMessageChannel}) != 0) {
      continue;
    }
    const RingControl& control = geometry_.control(segment_->bytes(), self, peer, kMessageChannel);
    if (control.written.load(kOrdered) != 0) {
      found.push_back({options_.members[peer], RailIndex(0), 0, kMessageChannel});
    }
  }
  return found;
}

ShmTransportImpl::News ShmTransportImpl::news(const WaitHint& hint) const {
  News found;
  for (const auto& [key, link] : links_) {
    found.messages += link->unseen_messages();
    found.urgent =
        found.urgent || link->unseen_half_full() || (hint.intra_releases && link->unseen_release());
  }
  found.urgent = found.urgent || sleeper_.wake_requested();
  return found;
}

// News that has been announced once does not keep a rank awake that is not interested in it.
void ShmTransportImpl::mark_seen() {
  sleeper_.serve_wake_request();
  for (auto& [key, link] : links_) {
    link->mark_seen();
  }
}

bool ShmTransportImpl::prepare(SleepMode mode, const WaitHint& hint) {
  // Arrivals first: a message that is counted there has been published, so it is in the news too;
  // one that slips in between counts twice, which wakes early, never late.
  const uint32_t arrivals = sleeper_.arrivals();
  const News before = news(hint);
  const bool counts = hint.intra_arrivals != 0;
  if (before.urgent || (counts && before.messages >= hint.intra_arrivals)) {
    mark_seen();
    return false;
  }
  const uint32_t wants = (counts ? kWantsCount : 0U) | (hint.intra_releases ? kWantsReleases : 0U);
  const uint32_t missing =
      hint.intra_arrivals - static_cast<uint32_t>(counts ? before.messages : 0);
  const uint32_t wake_at = arrivals + missing;
  sleeper_.announce(mode, wants, wake_at);
  if (sleeper_.count_reached(wants, wake_at) || news(hint).urgent) {
    finish(mode);
    return false;
  }
  return true;
}

void ShmTransportImpl::finish(SleepMode mode) {
  sleeper_.finish(mode);
  mark_seen();
  look_at_processes();
}

// The peers read it where a ring stays empty or full.
void ShmTransportImpl::say_closed() {
  if (closed_) {
    return;
  }
  closed_ = true;
  for (size_t peer = 0; peer < membership_->peers.size(); ++peer) {
    if (membership_->peers[peer] != nullptr) {
      const auto there = membership_->peers[peer]->segment.bytes();
      geometry_.control(there, peer, index_of(options_.self), 0).closed.store(1, kOrdered);
      Bell(SegmentGeometry::doorbell(there), membership_->peers[peer]->event).wake();
    }
  }
}

void ShmTransportImpl::watch_peers() {
  const size_t self = index_of(options_.self);
  auto processes = std::make_shared<std::vector<ProcessWatch>>();
  for (const auto& peer : membership_->peers) {
    const pid_t pid = peer == nullptr || peer->pid == ::getpid() ? 0 : peer->pid;
    processes->emplace_back(pid);
  }
  processes_ = std::move(processes);
  peer_ends_.resize(processes_->size());
  for (size_t peer = 0; peer < processes_->size(); ++peer) {
    if (peer != self) {
      peer_ends_[peer] = std::make_unique<PeerEnd>(
          geometry_.control(segment_->bytes(), self, peer, 0), (*processes_)[peer]);
    }
  }
}

// After a sleep, for nobody rings for a peer that was killed; now and then, for it costs a system
// call for each.
void ShmTransportImpl::look_at_processes() {
  constexpr std::chrono::milliseconds kPause{250};
  const Deadline now = Clock::now();
  if (now < next_look_) {
    return;
  }
  next_look_ = now + kPause;
  for (const auto& end : peer_ends_) {
    if (end != nullptr) {
      end->look_at_process();
    }
  }
}

uint64_t ShmTransportImpl::memory_bytes() const {
  uint64_t bytes = segment_->bytes().size();
  for (const auto& [key, link] : links_) {
    bytes += link->staging_bytes();
  }
  return bytes;
}

std::function<bool()> ShmTransportImpl::others_ended() const {
  return
      [processes = processes_, segment = segment_, geometry = geometry_, self = membership_->self] {
        for (size_t peer = 0; peer < processes->size(); ++peer) {
          if (peer == self || (*processes)[peer].ended()) {
            continue;
          }
          if (geometry.control(segment->bytes(), self, peer, 0).ended.load(kOrdered) == 0) {
            return false;
          }
        }
        return true;
      };
}

std::string ShmTransportImpl::single_copy_status() const {
  std::string failed;
  const auto& peers = membership_->peers;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] == nullptr || (peers[i]->reads_peer && peers[i]->reads_me)) {
      continue;
    }
    const std::string why =
        peers[i]->reads_peer ? "it cannot read this rank's memory" : peers[i]->why_not;
    failed += (failed.empty() ? "rank " : "; rank ") + std::to_string(options_.members[i].value()) +
              ": " + why;
  }
  return failed.empty() ? "process_vm_readv to all ranks of this host" : failed;
}

Status check_options(const ShmOptions& options) {
  auto sorted = options.members;
  std::ranges::sort(sorted);
  const bool duplicate = std::ranges::adjacent_find(sorted) != sorted.end();
  if (duplicate || !std::ranges::binary_search(sorted, options.self)) {
    return invalid("shared memory of rank " + std::to_string(options.self.value()) +
                   ": the ranks of this host must be distinct and contain the rank itself");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(const ShmOptions& options,
                                                           const GroupExchange& exchange,
                                                           Deadline deadline) {
  HORING_TRY(check_options(options));
  const SegmentGeometry geometry(options.members.size(), options.ring_bytes);
  HORING_ASSIGN(SharedMemory segment,
                SharedMemory::create("horing-rank-" + std::to_string(options.self.value()),
                                     geometry.segment_bytes()));
  HORING_ASSIGN(EventFd event, EventFd::create());
  auto transport =
      std::make_unique<ShmTransportImpl>(options, geometry, std::move(segment), std::move(event));
  if (const Status exchanged = transport->exchange_segments(exchange, deadline); !exchanged.ok()) {
    // What befell another rank, or that this one waited in vain, names others, and them first.
    const bool of_others =
        exchanged.code() == StatusCode::kPeerLost || exchanged.code() == StatusCode::kTimeout;
    return of_others ? exchanged
                     : exchanged.with_context("shared memory of rank " +
                                              std::to_string(options.self.value()));
  }
  return std::unique_ptr<ShmTransport>(std::move(transport));
}

}  // namespace ho
