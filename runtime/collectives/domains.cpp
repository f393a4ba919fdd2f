#include "collectives/domains.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "collectives/horing_collectives.hpp"
#include "collectives/nccl_collectives.hpp"
#include "layout/partition.hpp"
#include "step/participants.hpp"

namespace paro {
namespace {

using ho::GlobalRank;

ho::Result<OwnedComm> split(ho_comm* comm, int32_t color, int32_t key) {
  ho_comm* part = nullptr;
  HORING_TRY(checked(ho_comm_split(comm, color, key, &part)));
  return OwnedComm(part);
}

int32_t place_in(const std::vector<GlobalRank>& ranks, GlobalRank rank) {
  return static_cast<int32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// Every release that is taken can. What it is told to do is read by NCCL itself, once.
bool begins_in_order() {
  const char* const order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return order != nullptr && std::string_view(order) == "1";
}

}  // namespace

ho::Result<ho::GroupMap> nodes_of(const ho_comm* comm) {
  std::vector<std::vector<GlobalRank>> members(static_cast<size_t>(ho_comm_group_count(comm)));
  for (int32_t node = 0; node < ho_comm_group_count(comm); ++node) {
    members[static_cast<size_t>(node)].resize(static_cast<size_t>(ho_comm_group_size(comm, node)));
  }
  for (int32_t rank = 0; rank < ho_comm_world_size(comm); ++rank) {
    const auto node = static_cast<size_t>(ho_comm_group_of(comm, rank));
    members[node][static_cast<size_t>(ho_comm_group_rank_of(comm, rank))] = GlobalRank(rank);
  }
  HORING_ASSIGN(const ho::GroupMap nodes, ho::GroupMap::from_members(std::move(members)));
  return nodes.with_rails(static_cast<uint32_t>(ho_comm_rail_count(comm)));
}

UsedTracks used_tracks(const StepPlan& plan) {
  UsedTracks used{};
  for (const Action& action : plan.actions) {
    if (is_collective(action.act) && action.act != Act::kAgree) {
      used[static_cast<size_t>(action.domain)][static_cast<size_t>(action.track)] = true;
    }
  }
  return used;
}

ho::Result<Domains> Domains::make(ho_comm* comm,
                                  const ho::GroupMap& groups,
                                  const OnDevice* on_device,
                                  const UsedTracks& used,
                                  uint64_t timeout_ms) {
  if (comm == nullptr || static_cast<int64_t>(groups.world_size()) != ho_comm_world_size(comm)) {
    return ho::Status(ho::StatusCode::kInvalidArgument,
                      "groups of " + std::to_string(groups.world_size()) +
                          " ranks for a communicator of " +
                          std::to_string(comm == nullptr ? 0 : ho_comm_world_size(comm)));
  }
  Domains domains(GlobalRank(ho_comm_rank(comm)), groups);
  domains.used_ = used;
  domains.timeout_ms_ = timeout_ms;
  const GlobalRank self = domains.self_;
  HORING_ASSIGN(domains.parent_, split(comm, 0, static_cast<int32_t>(self.value())));
  ho_comm* const parent = domains.parent_.get();
  if (groups.world_size() > 1) {
    HORING_ASSIGN(domains.world_.comm, split(parent, 0, place_in(world_order(groups), self)));
    if (on_device != nullptr) {
      domains.begin_in_order_ = begins_in_order();
      ho_comm* const world = domains.world();
      HORING_ASSIGN(domains.nccl_,
                    NcclRank::make(*on_device->nccl, on_device->device, parent, world, timeout_ms));
    }
    HORING_TRY(domains.make_collectives(domains.world_, Domain::kWorld, "the world"));
  }
  const ho::GroupIndex group = groups.group_of(self);
  const bool alone = groups.group_size(group) == 1;
  const auto position = static_cast<int32_t>(groups.group_rank_of(self).value());
  HORING_ASSIGN(domains.intra_.comm,
                split(parent, alone ? -1 : static_cast<int32_t>(group.value()), position));
  HORING_TRY(domains.make_collectives(domains.intra_, Domain::kIntra, "the group"));
  HORING_TRY(domains.make_inter());
  return domains;
}

ho::Status Domains::make_collectives(RankSet& set, Domain domain, const std::string& name) const {
  if (set.comm == nullptr) {
    return {};
  }
  const auto& used = used_[static_cast<size_t>(domain)];
  if (nccl_ == nullptr) {
    set.collectives.front() = std::make_unique<HoringCollectives>(set.comm.get());
  } else if (std::find(used.begin(), used.end(), true) == used.end()) {
    HORING_ASSIGN(set.collectives.front(), nccl_->over(set.comm.get(), name));
  }
  for (size_t track = 0; nccl_ != nullptr && track < used.size(); ++track) {
    if (used[track]) {
      std::string its_name(to_string(static_cast<Track>(track)));
      its_name.append(" of ").append(name);
      HORING_ASSIGN(set.collectives[track], nccl_->over(set.comm.get(), its_name));
    }
  }
  const auto any = std::find_if(set.collectives.begin(),
                                set.collectives.end(),
                                [](const auto& one) { return one != nullptr; });
  std::transform(
      set.collectives.begin(), set.collectives.end(), set.by_track.begin(), [&](const auto& one) {
        return one != nullptr ? one.get() : any->get();
      });
  return {};
}

ho::Status Domains::make_inter() {
  if (groups_.group_count() == 1) {
    return {};
  }
  HORING_ASSIGN(auto sets, owner_sets(groups_));
  const auto group = static_cast<int32_t>(groups_.group_of(self_).value());
  // Sets that share no rank come from one split: with equal groups all of them do.
  while (!sets.empty()) {
    std::set<GlobalRank> taken;
    std::vector<std::vector<GlobalRank>> later;
    std::vector<GlobalRank> mine;
    int32_t color = -1;
    int32_t next_color = 0;
    for (auto& owners : sets) {
      if (std::any_of(
              owners.begin(), owners.end(), [&](GlobalRank r) { return taken.contains(r); })) {
        later.push_back(std::move(owners));
        continue;
      }
      taken.insert(owners.begin(), owners.end());
      if (std::find(owners.begin(), owners.end(), self_) != owners.end()) {
        color = next_color;
        mine = owners;
      }
      ++next_color;
    }
    RankSet set;
    HORING_ASSIGN(set.comm, split(parent_.get(), color, group));
    if (set.comm != nullptr) {
      HORING_TRY(make_collectives(set, Domain::kInter, "the owners of the same elements"));
      inter_.emplace(std::move(mine), std::move(set));
    }
    sets = std::move(later);
  }
  return {};
}

const Domains::RankSet* Domains::set_of(const std::vector<GlobalRank>& owners) const {
  const auto found = inter_.find(owners);
  return found == inter_.end() ? nullptr : &found->second;
}

ho_comm* Domains::inter(const std::vector<GlobalRank>& owners) const {
  const RankSet* const set = set_of(owners);
  return set == nullptr ? nullptr : set->comm.get();
}

CollectivesByTrack Domains::over_owners(const std::vector<GlobalRank>& owners) const {
  const RankSet* const set = set_of(owners);
  return set == nullptr ? CollectivesByTrack{} : set->by_track;
}

ho::Status Domains::status() const {
  return nccl_ == nullptr ? ho::Status() : nccl_->status();
}

ho::Result<OwnedComm> Domains::another_world() const {
  return split(parent_.get(), 0, static_cast<int32_t>(self_.value()));
}

uint64_t Domains::memory_bytes() const {
  uint64_t bytes = 0;
  const auto add = [&](const OwnedComm& comm) {
    bytes += comm == nullptr ? 0 : ho_comm_memory_bytes(comm.get());
  };
  add(parent_);
  add(world_.comm);
  add(intra_.comm);
  for (const auto& [owners, set] : inter_) {
    add(set.comm);
  }
  return bytes;
}

void Domains::abort(const char* reason) {
  static_cast<void>(ho_comm_abort(parent_.get(), reason));
}

}  // namespace paro
