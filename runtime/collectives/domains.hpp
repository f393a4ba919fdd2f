// The sets of ranks of a sharded job, each with a communicator and collectives on it: one over
// everybody in the order of the world parts, one over this rank's group, and one for every set of
// ranks that own the same elements in their groups. Each is a communicator of its own, so that what
// one does never queues behind another. On each, the step plan orders what its tracks start
// (verify_sequences()). With NCCL each track that a set is used by has a communicator, since one
// carries out what it is given in order, on whatever streams.
//
// All of them are split from one that only the runner has. A failure ends a communicator and what
// was split from it: to end this one ends the runner on all ranks, and nothing of the caller's.
#pragma once

#include <horing.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/collectives.hpp"
#include "collectives/communicator.hpp"
#include "collectives/nccl_rank.hpp"
#include "group/group_map.hpp"
#include "step/step_plan.hpp"

namespace paro {

// States in a device's memory, which NCCL moves.
struct OnDevice {
  std::shared_ptr<const ho::device::Device> device;
  const ho::nccl::Nccl* nccl = nullptr;  // outlives what is made of it
};

// A set's, by track. nullptr: this rank is alone in the set. Those of several tracks may be one.
using CollectivesByTrack = std::array<Collectives*, kTrackCount>;

// By domain and track: the plan has collectives of states there.
using UsedTracks = std::array<std::array<bool, kTrackCount>, 3>;
[[nodiscard]] UsedTracks used_tracks(const StepPlan& plan);

class Domains {
 public:
  // Collective over `comm`, which is borrowed for the time of the call; `groups` over its ranks.
  // With a device the collectives are NCCL's, for each set one communicator for each track that is
  // used there, or for all where none is, and `timeout_ms` is theirs; else libhoring's.
  [[nodiscard]] static ho::Result<Domains> make(ho_comm* comm,
                                                const ho::GroupMap& groups,
                                                const OnDevice* on_device = nullptr,
                                                const UsedTracks& used = {},
                                                uint64_t timeout_ms = 0);

  [[nodiscard]] ho::GlobalRank self() const { return self_; }
  [[nodiscard]] const ho::GroupMap& groups() const { return groups_; }
  // What moves the data of states between the ranks of a set. Here and below: nullptr for a set of
  // one rank. Never for a set that this rank is not in.
  [[nodiscard]] const CollectivesByTrack& over_world() const { return world_.by_track; }
  [[nodiscard]] const CollectivesByTrack& over_group() const { return intra_.by_track; }
  [[nodiscard]] CollectivesByTrack over_owners(const std::vector<ho::GlobalRank>& owners) const;
  // NcclRank::ended(); nullptr: what fails never lets a stream go on.
  [[nodiscard]] const uint64_t* ended() const {
    return nccl_ == nullptr ? nullptr : nccl_->ended();
  }
  // Whether the device begins collectives in the order in which they are launched, over all
  // communicators. Else one that is launched must come after the end of the one before.
  [[nodiscard]] bool begin_in_order() const { return begin_in_order_; }
  // Of collectives that name no other.
  [[nodiscard]] uint64_t timeout_ms() const { return timeout_ms_; }
  // What their ranks tell one another numbers on.
  [[nodiscard]] ho_comm* world() const { return world_.comm.get(); }
  [[nodiscard]] ho_comm* inter(const std::vector<ho::GlobalRank>& owners) const;
  // Of all ranks, by global rank: for what must not wait for a step's data.
  [[nodiscard]] ho_comm* parent() const { return world() == nullptr ? nullptr : parent_.get(); }
  // Collective: a communicator more of all ranks, numbered by global rank.
  [[nodiscard]] ho::Result<OwnedComm> another_world() const;
  // Ok, or why no collective can be begun any more. Of libhoring's the next one says so. Never
  // blocks.
  [[nodiscard]] ho::Status status() const;
  // Bytes that libhoring holds for all of them.
  [[nodiscard]] uint64_t memory_bytes() const;
  // Ends every wait of every rank in what make() and another_world() made.
  void abort(const char* reason);

 private:
  struct RankSet {
    OwnedComm comm;
    std::array<std::unique_ptr<Collectives>, kTrackCount> collectives;
    CollectivesByTrack by_track{};
  };
  Domains(ho::GlobalRank self, ho::GroupMap groups) : self_(self), groups_(std::move(groups)) {}
  // Collectives of the set that has a communicator, if any. With NCCL collective over it, and
  // `name` is that of NCCL's communicator.
  [[nodiscard]] ho::Status make_collectives(RankSet& set,
                                            Domain domain,
                                            const std::string& name) const;
  [[nodiscard]] const RankSet* set_of(const std::vector<ho::GlobalRank>& owners) const;
  [[nodiscard]] ho::Status make_inter();

  ho::GlobalRank self_;
  ho::GroupMap groups_;
  UsedTracks used_{};
  bool begin_in_order_ = true;
  uint64_t timeout_ms_ = 0;
  OwnedComm parent_;  // of all ranks, by global rank: moves nothing of a step's
  // The last ones end first, NCCL's on all ranks in one order.
  RankSet world_;
  std::shared_ptr<NcclRank> nccl_;
  RankSet intra_;
  std::map<std::vector<ho::GlobalRank>, RankSet> inter_;
};

// The nodes of a communicator's ranks as the library found them, its group ranks, and its rails.
[[nodiscard]] ho::Result<ho::GroupMap> nodes_of(const ho_comm* comm);

}  // namespace paro
