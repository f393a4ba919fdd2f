// The sets of ranks of a sharded job, each with a communicator and collectives on it: one over
// everybody in the order of the world parts, one over this rank's group, and one for every set of
// ranks that own the same elements in their groups. Each is a communicator of its own, so that what
// one does never queues behind another. On each, the step plan orders what its tracks start
// (verify_sequences()).
//
// All of them are split from one that only the runner has. A failure ends a communicator and what
// was split from it: to end this one ends the runner on all ranks, and nothing of the caller's.
#pragma once

#include <horing.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/collectives.hpp"
#include "collectives/communicator.hpp"
#include "collectives/nccl_rank.hpp"
#include "group/group_map.hpp"

namespace paro {

// States in a device's memory, which NCCL moves.
struct OnDevice {
  std::shared_ptr<const ho::device::Device> device;
  const ho::nccl::Nccl* nccl = nullptr;  // outlives what is made of it
  void* stream = nullptr;  // cudaStream_t, on which all is done in order; nullptr: the default one
};

class Domains {
 public:
  // Collective over `comm`, which is borrowed for the time of the call; `groups` over its ranks.
  // With a device the collectives are NCCL's, one communicator for each set, and `timeout_ms` is
  // theirs; else libhoring's.
  [[nodiscard]] static ho::Result<Domains> make(ho_comm* comm,
                                                const ho::GroupMap& groups,
                                                const OnDevice* on_device = nullptr,
                                                uint64_t timeout_ms = 0);

  [[nodiscard]] ho::GlobalRank self() const { return self_; }
  [[nodiscard]] const ho::GroupMap& groups() const { return groups_; }
  // What moves the data of states between the ranks of a set. Here and below: nullptr for a set of
  // one rank. Never for a set that this rank is not in.
  [[nodiscard]] Collectives* over_world() const { return world_.collectives.get(); }
  [[nodiscard]] Collectives* over_group() const { return intra_.collectives.get(); }
  [[nodiscard]] Collectives* over_owners(const std::vector<ho::GlobalRank>& owners) const;
  // Of all ranks too, for numbers in the host's memory.
  [[nodiscard]] Collectives* over_hosts() const {
    return hosts_ == nullptr ? over_world() : hosts_.get();
  }
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
    std::unique_ptr<Collectives> collectives;
  };
  Domains(ho::GlobalRank self, ho::GroupMap groups) : self_(self), groups_(std::move(groups)) {}
  // Collectives of the set that has a communicator, if any. With NCCL collective over it, and
  // `name` is that of NCCL's communicator.
  [[nodiscard]] ho::Status make_collectives(RankSet& set, const std::string& name) const;
  [[nodiscard]] const RankSet* set_of(const std::vector<ho::GlobalRank>& owners) const;
  [[nodiscard]] ho::Status make_inter();

  ho::GlobalRank self_;
  ho::GroupMap groups_;
  OwnedComm parent_;  // of all ranks, by global rank: moves nothing of a step's
  // The last ones end first, NCCL's on all ranks in one order.
  RankSet world_;
  std::unique_ptr<Collectives> hosts_;  // where those of the world are NCCL's
  std::shared_ptr<NcclRank> nccl_;
  RankSet intra_;
  std::map<std::vector<ho::GlobalRank>, RankSet> inter_;
};

// The nodes of a communicator's ranks as the library found them, its group ranks, and its rails.
[[nodiscard]] ho::Result<ho::GroupMap> nodes_of(const ho_comm* comm);

}  // namespace paro
