// The ways of one link that goes on when its connections are lost: which it has had, has and tries.
// TcpLink numbers the messages and asks here over which connection each goes; this opens
// connections over another path when those that there are fail, agrees with the peer on where to go
// on (resume.hpp), and sends again what has not arrived (replay.hpp).
//
// Connections that were replaced stay until all that came over them has been received: they are
// sources, oldest first, of which the last one is in use.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/connection.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/failover_log.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/link_connections.hpp"
#include "transport/tcp/link_paths.hpp"
#include "transport/tcp/own_rail.hpp"
#include "transport/tcp/path_choice.hpp"
#include "transport/tcp/paths.hpp"
#include "transport/tcp/replay.hpp"
#include "transport/tcp/resume.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

class Failover {
 public:
  // event: as LinkConnections has it.
  Failover(Context& context, const LinkKey& key, bool& event);
  ~Failover() = default;
  Failover(const Failover&) = delete;
  Failover& operator=(const Failover&) = delete;

  // Those in use, or the first ones, which are not open yet.
  [[nodiscard]] LinkConnections& connections();
  [[nodiscard]] const LinkConnections& connections() const;
  // Of those in use; 0: there have been none.
  [[nodiscard]] uint32_t epoch() const { return epochs_.current(); }
  // Messages may leave over connections().
  [[nodiscard]] bool flows() const;
  // Link's.
  [[nodiscard]] size_t rails() const { return compared_ || over_.empty() ? 1 : over_.size(); }

  // Of the link, as it stands now.
  struct Link {
    bool wanted = false;  // a call waits for it
    uint64_t received = 0;
    bool closing = false;  // the peer may close it: this end has asked for that
  };
  // Once per turn. Not ok: the link cannot go on; what is here can be received.
  [[nodiscard]] Status advance(const Link& link);
  // A few times a second: whether the peer's host answers.
  void tick(bool awaited);
  // As often: whether messages had better go over other rails. They may do so at once.
  void look_at_rails();
  // The same sooner, where that has left a doubt.
  void look_in_doubt() {
    if (doubts_at_ns_ == 0) {
      return;
    }
    if (now_ns() >= doubts_at_ns_) {
      look_at_rails();
    } else {
      wake_at(doubts_at_ns_);  // there is one timer for all, and an earlier time may have used it
    }
  }
  // What has come over all ways is all there is; nothing is tried any more.
  void end(uint64_t received);

  // A connection that the peer opened.
  [[nodiscard]] bool can_arrive(const LinkClaim& claim) const;
  void arrive(const LinkClaim& claim, std::unique_ptr<Socket> socket);

  // Sending. Message `number` was written to connections().
  void sent(const FrameBytes& header, std::span<const ConstBytes> payload);
  [[nodiscard]] uint64_t released();
  // The caller waits for that alone: gives back what has arrived, and the rest for copies. true:
  // released() has grown.
  bool release_lent();
  void on_write_failed(const Status& cause) { lose(cause); }

  // Receiving: the connection that message `number` comes over, and the epoch of that; null: none
  // that can be read now.
  struct From {
    Connection* connection = nullptr;
    uint32_t epoch = 0;
  };
  [[nodiscard]] From from(uint64_t number);
  // A read of message `number` failed.
  void on_read_failed(uint64_t number, const Status& cause);
  void on_received(uint64_t received) {
    while (sources_.size() > 1 && sources_.front().drained && sources_.front().until <= received) {
      sources_.pop_front();
    }
  }

  // An idle link is closed, and opened anew when it is used. Whether nothing of this end is in its
  // way; whether nothing at all is, where nobody has asked yet.
  [[nodiscard]] bool can_rest() const;
  [[nodiscard]] bool may_rest() const { return can_rest() && connections().at_message_start(); }
  // Both ends have received all that was sent.
  void rest(uint64_t received);
  // The first use since.
  void use();
  // This end has asked for it, waits in vain for the answer, and has a message to send.
  void on_unanswered() { lose({StatusCode::kTimeout, "no answer to a request to close"}, true); }

  // Being replaced, with something to be sent or awaited.
  [[nodiscard]] bool mending() const {
    return attempt_ != nullptr || (resume_ && !flows() && !lost_);
  }
  // Nothing that was sent is on its way any more.
  [[nodiscard]] bool all_arrived() {
    collect_acknowledged();
    return replay_.empty() || ended_;
  }
  [[nodiscard]] bool lends() const { return replay_.released() < replay_.next(); }
  [[nodiscard]] uint64_t memory_bytes() const {
    uint64_t total = sizeof(Failover) + replay_.memory_bytes();
    for (const Source& source : sources_) {
      total += source.connections->memory_bytes();
    }
    return total;
  }
  // "", or what is being done: "lost, tries ...".
  [[nodiscard]] std::string state() const;

 private:
  static constexpr int64_t kUnwantedNs = 2'000'000'000;
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();
  struct Source {
    std::unique_ptr<LinkConnections> connections;
    uint64_t until = kNoEnd;  // messages before that number come over it
    bool agreed = false;      // its messages may be read
    bool drained = false;
  };

  [[nodiscard]] PathChoice::Options choice_options();
  [[nodiscard]] bool wanted_lately(int64_t now) const {
    return now - last_wanted_ns_ < kUnwantedNs;
  }
  // A call waits. Where none has for a while, the wait begins now.
  void note_wanted(int64_t now) {
    if (!wanted_lately(now)) {
      tried_all_ = false;
      first_try_at_ns_ = now;
      loss_.restart_wait();
      if (sources_.empty()) {
        skip_lost(now);
      }
    }
    last_wanted_ns_ = now;
    loss_.note_wanted(now);
  }
  // In the first round: paths that another link has lost.
  void skip_lost(int64_t now) {
    const std::vector<Path> lost = paths_.lost(now);
    skipped_ = !lost.empty();
    choice_.on_not_reached(lost);
  }
  void lose(const Status& cause, bool closing = false);
  void end_rest(const Status& why);
  void adopt(std::unique_ptr<LinkConnections> connections, const Status& reason);
  void begin_attempt(std::vector<Share> shares, bool news = true);
  [[nodiscard]] Status dial(bool wanted);
  [[nodiscard]] Status go_on_dialling(int64_t now, bool wanted);
  void attempt_failed(const Status& why, int64_t now);
  [[nodiscard]] Status give_up(const std::string& why);
  [[nodiscard]] Status agree(uint64_t received);
  [[nodiscard]] Result<bool> write_resume();
  [[nodiscard]] Result<bool> read_resume(uint64_t received);
  [[nodiscard]] uint64_t drain(size_t sources, uint64_t received);
  [[nodiscard]] Status send_again();
  void collect_acknowledged();
  [[nodiscard]] Replay::Written written_at(uint64_t number) {
    LinkConnections& in_use = connections();
    return {in_use.index_of_message(number), in_use.of_message(number).written_bytes()};
  }
  void note_resumed();
  void wake_at(int64_t time_ns) { context_.poller->wake_at(time_ns); }
  [[nodiscard]] bool loses(const Status& cause) const;

  Context& context_;
  const LinkKey key_;
  bool& event_;
  const bool opens_;
  const Path home_;  // the link's own rail at both ends
  const LinkPaths paths_;
  PathChoice choice_;
  LinkConnections unopened_;
  std::deque<Source> sources_;
  std::unique_ptr<LinkConnections> attempt_;   // by this end
  Status attempt_reason_;                      // ok: none that is worth a warning
  std::unique_ptr<LinkConnections> arriving_;  // by the peer
  Epochs epochs_;
  bool ended_ = false;

  std::optional<Resume> resume_;  // on the last source
  Replay replay_;
  uint64_t send_again_from_ = 0;
  uint64_t sent_again_ = 0;  // since the last switch
  OutgoingMessage again_;
  uint32_t sent_since_look_ = 0;
  uint64_t copied_since_look_ = 0;
  int64_t lent_since_ns_ = 0;  // what is lent of the messages before that one; 0: nothing is
  uint64_t lent_before_ = 0;

  OwnRail own_rail_;
  int64_t doubts_at_ns_ = 0;       // then the next look; 0: with the next tick
  double away_ = 0;                // the part that went over other rails last
  bool compared_ = false;          // it did for a comparison only
  std::vector<Path> over_;         // that messages have flowed over last
  std::vector<Path> carried_;      // ever
  bool leaves_interface_ = false;  // this host's routing leaves no other way
  bool lost_ = false;              // those in use
  bool rests_ = false;             // they were closed, both ends agreed, and nobody wants others
  bool tells_ = false;             // the peer cannot see that they are lost, so others are dialled
  bool tried_all_ = false;         // each path, since then and since somebody has waited
  bool skipped_ = false;           // not each, in this round
  bool replaces_ = false;          // others, or a first try that failed
  LossEvent loss_;
  int64_t last_wanted_ns_ = -kUnwantedNs;
  int64_t first_try_at_ns_ = 0;
  int64_t reached_at_ns_ = 0;
  int64_t dial_at_ns_ = 0;
  int64_t attempt_began_ns_ = 0;
  int64_t attempt_until_ns_ = 0;
  Status down_;  // not ok: why the attempt cannot succeed
  Status last_failure_;
};

}  // namespace ho::tcp
