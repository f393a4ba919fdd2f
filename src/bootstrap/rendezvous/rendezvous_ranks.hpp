// Which ranks have come to the rendezvous, who may enter, and what is said of those who may not and
// of those who are missing. No connections: it is told who comes and goes, and what time it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/key_refusals.hpp"
#include "os/clock.hpp"

namespace ho {

class RendezvousRanks {
 public:
  struct Setup {
    uint32_t world_size = 1;
    wire::RankClaim own;  // of rank 0
    std::string address;  // where the others reach it, for messages
    Deadline deadline;    // for all ranks to find each other
  };

  explicit RendezvousRanks(Setup setup);

  // "rank 5 (node1, pid 123)".
  [[nodiscard]] static std::string to_string(const wire::RankClaim& who);
  [[nodiscard]] std::string to_string(uint32_t rank) const { return to_string(ranks_[rank].who); }
  [[nodiscard]] std::vector<std::string> names() const;

  // Whether it may enter. Who is of this job and may not is not expected again.
  [[nodiscard]] Status judge(const wire::RankClaim& who);
  void enter(const wire::RankClaim& who, Deadline now);
  void leave(uint32_t rank);
  // It had come, and its connection has closed without a goodbye. It may come again.
  void note_lost(uint32_t rank);
  // It has come and cannot take part.
  void note_gave_up(uint32_t rank, const wire::Message& report);
  [[nodiscard]] bool gave_up(uint32_t rank) const { return !ranks_[rank].gave_up.ok(); }
  // Anybody can claim to be a rank: who cannot prove the key is refused, and changes nothing for
  // those who can. Rank 0 says so at once, and again where ranks are missing at the deadline.
  // False: it was refused for something else, or does not say who it is.
  [[nodiscard]] bool note_key_refused(wire::View claim, const std::string& host, const Status& why);

  // All have come or have given up. The value: not ok where one has given up.
  [[nodiscard]] std::optional<Status> complete() const;
  // When to ask again whether they will not be.
  [[nodiscard]] Deadline next_deadline() const;
  // Not ok: a deadline has passed. `troubles`: what else is known, each "" or a text.
  [[nodiscard]] Status late(Deadline now, const std::vector<std::string>& troubles) const;
  // Not ok: every rank that is missing was refused, and none has come for a while.
  [[nodiscard]] Status all_refused(Deadline now);
  // What all are told where no more can be let in, for this reason.
  [[nodiscard]] Status stuck(const Status& why) const;

 private:
  struct Rank {
    bool here = false;
    bool lost = false;
    wire::RankClaim who;
    Deadline deadline = Deadline::max();
    Status refused;  // why a rank of this job's key may not enter
    Status gave_up;  // why it cannot take part, though it had come
  };

  [[nodiscard]] Status judge_rank(const wire::RankClaim& who) const;
  [[nodiscard]] bool may_be_of_another_job(const wire::RankClaim& who) const;
  void note_unsuited(const wire::RankClaim& who, const Status& why);
  [[nodiscard]] std::vector<uint32_t> missing_ranks() const;
  [[nodiscard]] bool missing_for_keys() const;
  [[nodiscard]] bool nobody_left_to_come() const;
  [[nodiscard]] Status all_refused_error() const;
  // "3 of 4 ranks arrived at tcp://...".
  [[nodiscard]] std::string arrived_text() const;
  [[nodiscard]] std::string missing_text(std::optional<uint32_t> impatient,
                                         const std::vector<std::string>& troubles) const;

  Setup setup_;
  std::vector<Rank> ranks_;
  uint32_t here_count_ = 0;
  // Processes that came as a rank that was here already, by name, and what they were told.
  std::map<std::string, Status> doubles_;
  KeyRefusals key_refusals_;
  LogQuota key_refusals_logged_;
  LogQuota strangers_logged_;
  // When to give up because every rank that is missing was refused.
  Deadline all_refused_due_ = Deadline::max();
};

}  // namespace ho
