// Messages point to point with one peer: what this rank sends it, and what comes from it.
//
// Each message has a number among those from its sender to its receiver. What travels is in the
// frame's phase:
//   eager    a message with its data. The receiver holds it when no receive is posted yet. The
//            sender may have kHeldBytes of them out, each counted with kMessageCost more; the
//            receiver gives them back (credit) as it matches them.
//   request  a message that does not fit: announced only, it waits at the sender and blocks none
//            behind it. At most kMaxRequests are out; beyond, messages queue at the sender.
//   clear    the receive for an announced message is posted.
//   data     a piece of a message that was cleared. Pieces of several messages take turns, and all
//            other frames go before them.
//   credit   eager messages of so many bytes were matched.
// A frame that does not fit this state is the peer's error, HO_PROTOCOL, and nothing of it is used.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/posted_receives.hpp"
#include "exec/run.hpp"
#include "transport/transport.hpp"

namespace ho {

class MessagePeer {
 public:
  static constexpr uint64_t kHeldBytes = uint64_t{1} << 20;
  static constexpr uint64_t kMessageCost = 64;
  static constexpr size_t kMaxRequests = 16384;
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

  enum class Kind : uint8_t { kEager = 1, kRequest, kClear, kData, kCredit };

  struct Identity {
    GlobalRank self;
    GlobalRank peer;
    uint16_t communicator = 0;
  };
  // Links for this rank's messages and for the peer's; one and the same in shared memory, none
  // where the peer is this rank.
  MessagePeer(const Identity& identity, Link* mine, Link* theirs);

  void send(Transfer& transfer);
  // Moves what can be moved. At most one message goes to a receive from any rank, so that the
  // caller can give other peers their turn. Transfers that ended are added to *ended.
  [[nodiscard]] std::optional<RunError> make_progress(PostedReceives& receives,
                                                      std::vector<Transfer*>* ended,
                                                      bool* moved);
  // Whether the last make_progress() gave a message to a receive from any rank.
  [[nodiscard]] bool served_any_source() const { return served_any_source_; }
  // Why a transfer with this peer cannot go on, where its connection is gone.
  [[nodiscard]] Status lost_for(const Transfer& transfer) const;
  // The transfer has ended otherwise.
  void forget(const Transfer& transfer);

  // Whether a message with this tag is here that no receive has taken yet.
  [[nodiscard]] bool holds(int32_t tag) const { return held_.count(tag) != 0; }
  [[nodiscard]] uint32_t sent() const { return sent_; }
  [[nodiscard]] uint32_t arrived() const { return arrived_; }
  [[nodiscard]] bool over_network() const;
  // All that may be sent over the network now was accepted, and some of it is not released.
  [[nodiscard]] bool awaits_release() const;
  // Bytes of messages that no receive has taken yet.
  [[nodiscard]] uint64_t memory_bytes() const { return held_bytes_; }

 private:
  static constexpr int kFramesPerPass = 8;

  // A message that came before its receive.
  struct Arrival {
    uint32_t number = 0;
    DType dtype = DType::kUint8;
    uint64_t count = 0;
    std::vector<std::byte> held;   // eager: the data
    Transfer* sender = nullptr;    // this rank's own send, whose data did not fit
    Transfer* receiver = nullptr;  // found while the data was still coming
    bool eager = false;
    bool complete = false;
  };
  struct Outgoing {
    Frame frame;
    ConstBytes payload;
    Transfer* transfer = nullptr;
    bool last = false;  // with it the transfer has been sent
  };
  struct Incoming {
    Frame frame;
    Bytes to;
    std::shared_ptr<Arrival> arrival;
    Transfer* receiver = nullptr;
  };
  struct LinkState {
    Link* link = nullptr;
    bool carries_mine = false;
    std::deque<Frame> control;
    std::optional<Outgoing> outgoing;
    std::optional<Incoming> incoming;
    uint64_t accepted = 0;
    std::deque<std::pair<uint64_t, Transfer*>> unreleased;
    Status send_error;
    Status recv_error;
  };
  struct Pass {
    PostedReceives* receives;
    std::vector<Transfer*>* ended;
    bool* moved;
  };

  [[nodiscard]] LinkState& mine() { return links_.front(); }
  [[nodiscard]] LinkState& theirs() { return links_.back(); }
  [[nodiscard]] Status send_to_self(const Pass& pass);
  [[nodiscard]] Status match_held(const Pass& pass);
  [[nodiscard]] Status match_first(const Pass& pass,
                                   std::deque<std::shared_ptr<Arrival>>& queue,
                                   int32_t tag);
  [[nodiscard]] Transfer* take_receive(const Pass& pass, int32_t tag);
  [[nodiscard]] Status bind(const Pass& pass, Arrival& arrival, Transfer& receive);
  void deliver(const Pass& pass, Arrival& arrival);
  [[nodiscard]] Status check_same(const Transfer& receive, DType dtype, uint64_t count) const;

  [[nodiscard]] Status receive_from(const Pass& pass, LinkState& state);
  // false: the frame stays for a later pass.
  [[nodiscard]] Result<bool> begin(const Pass& pass, LinkState& state, const Frame& frame);
  [[nodiscard]] Result<bool> begin_message(const Pass& pass, LinkState& state, const Frame& frame);
  [[nodiscard]] Status check_message(const Frame& frame) const;
  [[nodiscard]] Result<bool> begin_data(LinkState& state, const Frame& frame);
  [[nodiscard]] Status complete(const Pass& pass, LinkState& state);
  void complete_message(const Pass& pass, Incoming& incoming);
  [[nodiscard]] Status on_clear(const Pass& pass, const Frame& frame);
  [[nodiscard]] Status on_credit(const Frame& frame);

  [[nodiscard]] Status send_on(const Pass& pass, LinkState& state);
  [[nodiscard]] bool choose(LinkState& state);
  [[nodiscard]] bool choose_message(LinkState& state);
  [[nodiscard]] bool choose_data(LinkState& state);
  void collect_released(const Pass& pass, LinkState& state);

  [[nodiscard]] Frame frame_of(Kind kind, uint32_t number) const;
  void clear(const Pass& pass, uint32_t number, Transfer& receive);
  void give_back(uint64_t bytes);
  static void end(const Pass& pass, Transfer& transfer);
  [[nodiscard]] Status violation(const std::string& what) const;
  static Status note(Status& error, const Status& status);

  const Identity identity_;
  std::vector<LinkState> links_;
  bool served_any_source_ = false;

  uint32_t sent_ = 0;
  uint64_t credit_ = kHeldBytes;
  size_t requests_out_ = 0;
  std::deque<Transfer*> fresh_;              // not begun
  std::map<uint32_t, Transfer*> uncleared_;  // by number
  std::deque<Transfer*> cleared_;            // have data to send

  uint32_t arrived_ = 0;
  uint64_t held_cost_ = 0;  // eager messages that have not been given back
  uint64_t owed_ = 0;       // of these, matched
  size_t requests_in_ = 0;
  uint64_t held_bytes_ = 0;
  std::map<int32_t, std::deque<std::shared_ptr<Arrival>>> held_;  // by tag
  std::map<uint32_t, Transfer*> receiving_;                       // by number, cleared
  uint64_t seen_posts_ = 0;
  bool match_again_ = false;
};

}  // namespace ho
