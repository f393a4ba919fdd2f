// Four decisions, one after the other:
// 1. Groups: equal host identities, or the group file.
// 2. A NIC for each rank, host by host: evenly first, then near, then on a subnet that the other
//    groups have too, then fast, then by local rank (nic_assignment.hpp).
// 3. The order of the ranks in their group. Rail r of every group should reach rail r of the
//    others, so the smallest group sets a subnet per rail and the others order their ranks after
//    it; and the first rails should use different NICs, because fewer rails than ranks use those.
// 4. How many rails there are (rail_choice.hpp).
// 5. One address per rail, of one family and subnet in all groups where there is one.
#include "topo/assign.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "topo/address.hpp"
#include "topo/assign_warnings.hpp"
#include "topo/lost_nics.hpp"
#include "topo/nic_assignment.hpp"
#include "topo/nic_kind.hpp"
#include "topo/rail_choice.hpp"

namespace ho {
namespace {

constexpr size_t kMaxRanks = 65536;
constexpr int64_t kMaxSpeeds = 64;

struct Nic {
  std::string name;
  uint64_t speed_mbit = 0;
  std::vector<InterfaceAddress> addresses;
};

using Subnets = std::set<std::string>;

struct Host {
  std::string name;
  std::vector<Nic> nics;  // of all its ranks, in natural order
  // By global rank: the NICs it offers (index into nics) and how far they are.
  std::map<size_t, std::map<size_t, Distance>> offers;
};

struct NicChoice {
  size_t host = 0;
  size_t nic = 0;
  bool has_nic = false;
  uint32_t sharers = 1;
};

bool same_nic(const Nic& nic, const RankNic& info) {
  return nic.name == info.name && nic.addresses.size() == info.addresses.size() &&
         std::equal(nic.addresses.begin(),
                    nic.addresses.end(),
                    info.addresses.begin(),
                    [](const InterfaceAddress& a, const std::string& b) {
                      return b.starts_with(a.host) &&
                             (b.size() == a.host.size() || b[a.host.size()] == '/');
                    });
}

bool only_loopback(const RankNic& info) {
  return std::ranges::all_of(info.addresses, [](const std::string& text) {
    const auto address = parse_interface_address(text);
    return address && address->loopback;
  });
}

bool on_any(const Nic& nic, const Subnets& subnets) {
  // An address without a known subnet (/32, routed) does not exclude it.
  return subnets.empty() || std::ranges::any_of(nic.addresses, [&](const InterfaceAddress& a) {
           return a.subnet.empty() || subnets.contains(a.subnet);
         });
}

void add_subnets(const Nic& nic, Subnets& subnets) {
  for (const InterfaceAddress& address : nic.addresses) {
    if (!address.subnet.empty()) {
      subnets.insert(address.subnet);
    }
  }
}

std::string list_of(const std::set<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : " ") + name;
  }
  return list;
}

class Assigner {
 public:
  Assigner(std::span<const RankInfo> infos,
           const std::optional<GroupFile>& group_file,
           uint32_t wanted_rails)
      : infos_(infos), group_file_(group_file), wanted_rails_(wanted_rails) {}

  Result<Assignment> run() {
    if (infos_.empty() || infos_.size() > kMaxRanks) {
      return invalid("a world of " + std::to_string(infos_.size()) + " ranks");
    }
    collect_hosts();
    HORING_ASSIGN(const GroupMap by_label, label_groups());
    HORING_TRY(check_usable(by_label));
    for (uint32_t g = 0; g < by_label.group_count(); ++g) {
      members_.push_back(by_label.members(GroupIndex(g)));
    }
    rail_count_ = by_label.rail_count();
    choices_.resize(infos_.size());
    assign_nics();
    order_all();
    rail_count_ = choose_rail_count(nics_by_group(), wanted_rails_);
    HORING_ASSIGN(GroupMap map, GroupMap::from_members(members_));
    return finish(map.with_rails(static_cast<uint32_t>(rail_count_)));
  }

 private:
  void collect_hosts() {
    std::map<std::string, size_t> index;
    std::set<std::string> names;
    for (const RankInfo& info : infos_) {
      names.insert(info.host_name);
    }
    loopback_reaches_all_ = names.size() == 1;
    for (size_t rank = 0; rank < infos_.size(); ++rank) {
      const auto [entry, is_new] = index.emplace(infos_[rank].host_id, hosts_.size());
      if (is_new) {
        hosts_.push_back({infos_[rank].host_name, {}, {}});
      }
      host_of_rank_.push_back(static_cast<uint32_t>(entry->second));
    }
    for (size_t rank = 0; rank < infos_.size(); ++rank) {
      collect_offers(rank, hosts_[host_of_rank_[rank]]);
    }
  }

  void collect_offers(size_t rank, Host& host) {
    std::vector<const RankNic*> sorted;
    for (const RankNic& info : infos_[rank].nics) {
      if (loopback_reaches_all_ || !only_loopback(info)) {
        sorted.push_back(&info);
      }
    }
    std::ranges::sort(
        sorted, [](const RankNic* a, const RankNic* b) { return natural_less(a->name, b->name); });
    auto& offers = host.offers[rank];
    for (const RankNic* info : sorted) {
      size_t nic = 0;
      while (nic < host.nics.size() && !same_nic(host.nics[nic], *info)) {
        ++nic;
      }
      if (nic == host.nics.size()) {
        host.nics.push_back(make_nic(*info));
      }
      offers[nic] = info->distance;
    }
  }

  static Nic make_nic(const RankNic& info) {
    Nic nic{info.name, info.speed_mbit, {}};
    for (const std::string& text : info.addresses) {
      if (auto address = parse_interface_address(text)) {
        nic.addresses.push_back(std::move(*address));
      }
    }
    return nic;
  }

  Result<GroupMap> label_groups() const {
    std::vector<std::string> labels;
    labels.reserve(infos_.size());
    for (size_t rank = 0; rank < infos_.size(); ++rank) {
      if (group_file_) {
        HORING_ASSIGN(const uint32_t group, group_file_->group_of(infos_[rank].host_name));
        labels.push_back(std::to_string(group));
      } else {
        labels.push_back(std::to_string(host_of_rank_[rank]));
      }
    }
    return GroupMap::from_labels(labels);
  }

  Status check_usable(const GroupMap& map) const {
    if (map.group_count() == 1) {
      return {};
    }
    for (size_t rank = 0; rank < infos_.size(); ++rank) {
      const auto& offers = hosts_[host_of_rank_[rank]].offers;
      if (offers.at(rank).empty()) {
        return no_nic(rank);
      }
    }
    return {};
  }

  Status no_nic(size_t rank) const {
    const RankInfo& info = infos_[rank];
    std::string text = "host " + info.host_name + " (rank " + std::to_string(rank) +
                       ") has no usable network interface, and other groups must be reached: ";
    std::string list;
    for (const RankNic& nic : info.nics) {
      list += (list.empty() ? "" : "; ") + nic.name +
              " dropped: loopback, which other hosts cannot reach";
    }
    for (const DroppedNic& dropped : info.dropped) {
      list += (list.empty() ? "" : "; ") + dropped.name + " " + dropped.reason;
    }
    return invalid(text + (list.empty() ? "it shows none at all" : list) +
                   ". Bring one up, give it an address, or change HORING_SOCKET_IFNAME; `horing "
                   "topo` shows what the library sees");
  }

  [[nodiscard]] size_t reference_group() const {
    const auto smallest = std::ranges::min_element(
        members_, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    return static_cast<size_t>(smallest - members_.begin());
  }

  [[nodiscard]] Subnets subnets_of_group(size_t group) const {
    Subnets subnets;
    for (const GlobalRank rank : members_[group]) {
      const Host& host = hosts_[host_of_rank_[rank.at()]];
      for (const auto& [nic, distance] : host.offers.at(rank.at())) {
        add_subnets(host.nics[nic], subnets);
      }
    }
    return subnets;
  }

  [[nodiscard]] Subnets common_subnets() const {
    Subnets common = subnets_of_group(0);
    for (size_t g = 1; g < members_.size() && !common.empty(); ++g) {
      const Subnets here = subnets_of_group(g);
      std::erase_if(common, [&](const std::string& subnet) { return !here.contains(subnet); });
    }
    return common;
  }

  // Of NICs whose speed nobody knows only those of one kind stay.
  void keep_one_kind() {
    std::vector<std::vector<std::string>> names;
    for (const Host& host : hosts_) {
      auto& of_host = names.emplace_back();
      for (const Nic& nic : host.nics) {
        if (nic.speed_mbit != 0) {
          return;
        }
        if (on_any(nic, common_)) {
          of_host.push_back(nic.name);
        }
      }
    }
    const std::set<std::string> kinds = kinds_for_rails(names);
    if (kinds.empty()) {
      return;
    }
    std::set<std::string> used;
    std::set<std::string> left_out;
    for (Host& host : hosts_) {
      for (auto& [rank, offers] : host.offers) {
        std::erase_if(offers, [&](const auto& offer) {
          const std::string& name = host.nics[offer.first].name;
          const bool stays = kinds.contains(kind_of(name));
          (stays ? used : left_out).insert(name);
          return !stays;
        });
      }
    }
    used_kinds_ = list_of(used);
    left_out_ = list_of(left_out);
  }

  void assign_nics() {
    const size_t reference = reference_group();
    common_ = common_subnets();
    keep_one_kind();
    common_ = common_subnets();
    assign_group_nics(reference, common_);
    Subnets used;
    for (const GlobalRank rank : members_[reference]) {
      if (const Nic* nic = nic_of(rank.at())) {
        add_subnets(*nic, used);
      }
    }
    for (size_t g = 0; g < members_.size(); ++g) {
      if (g != reference) {
        assign_group_nics(g, used);
      }
    }
  }

  void assign_group_nics(size_t group, const Subnets& wanted) {
    std::map<size_t, std::vector<size_t>> ranks_of_host;
    for (const GlobalRank rank : members_[group]) {
      ranks_of_host[host_of_rank_[rank.at()]].push_back(rank.at());
    }
    for (const auto& [host, ranks] : ranks_of_host) {
      assign_host_nics(host, ranks, wanted);
    }
  }

  void assign_host_nics(size_t host_index,
                        const std::vector<size_t>& ranks,
                        const Subnets& wanted) {
    const Host& host = hosts_[host_index];
    std::vector<std::vector<int64_t>> costs;
    std::vector<size_t> with_nics;
    for (const size_t rank : ranks) {
      choices_[rank].host = host_index;
      if (!host.offers.at(rank).empty()) {
        costs.push_back(costs_of(host, host.offers.at(rank), wanted));
        if (ranks.size() < host.nics.size()) {
          prefer_own(costs.back(), infos_[rank].local_rank);
        }
        with_nics.push_back(rank);
      }
    }
    const std::vector<size_t> nics = assign_evenly(costs);
    for (size_t i = 0; i < with_nics.size(); ++i) {
      const auto sharers = std::ranges::count(nics, nics[i]);
      choices_[with_nics[i]] = {host_index, nics[i], true, static_cast<uint32_t>(sharers)};
    }
  }

  static std::vector<int64_t> costs_of(const Host& host,
                                       const std::map<size_t, Distance>& offers,
                                       const Subnets& wanted) {
    std::set<uint64_t> speeds;
    for (const Nic& nic : host.nics) {
      speeds.insert(nic.speed_mbit);
    }
    std::vector<int64_t> costs(host.nics.size(), kForbiddenNic);
    for (const auto& [nic, distance] : offers) {
      const int64_t elsewhere = on_any(host.nics[nic], wanted) ? 0 : 1;
      const auto faster =
          std::distance(speeds.upper_bound(host.nics[nic].speed_mbit), speeds.end());
      costs[nic] = ((int64_t{distance} * 2 + elsewhere) * kMaxSpeeds +
                    std::min<int64_t>(faster, kMaxSpeeds - 1)) *
                   2;  // leaves room for prefer_own
    }
    return costs;
  }

  // Of equally good NICs a rank takes the one with its local rank's number: so communicators of one
  // rank per host, as those of a mesh's dimension, do not all take the first.
  static void prefer_own(std::vector<int64_t>& costs, std::optional<uint32_t> local_rank) {
    if (!local_rank) {
      return;
    }
    const int64_t best = *std::ranges::min_element(costs);
    auto location = *local_rank % std::ranges::count(costs, best);
    for (int64_t& cost : costs) {
      const bool own = cost == best && location-- == 0;
      cost += own || cost == kForbiddenNic ? 0 : 1;
    }
  }

  [[nodiscard]] const Nic* nic_of(size_t rank) const {
    const NicChoice& choice = choices_[rank];
    return choice.has_nic ? &hosts_[choice.host].nics[choice.nic] : nullptr;
  }

  void order_all() {
    if (members_.size() < 2) {
      return;
    }
    const size_t reference = reference_group();
    for (auto& members : members_) {
      distinct_nics_first(members);
    }
    for (size_t g = 0; g < members_.size(); ++g) {
      if (g != reference) {
        follow(members_[reference], members_[g]);
      }
    }
  }

  [[nodiscard]] std::vector<RailNic> rail_nics(const std::vector<GlobalRank>& members) const {
    std::map<std::pair<size_t, size_t>, size_t> numbers;
    std::vector<RailNic> nics;
    for (const GlobalRank rank : members) {
      const NicChoice& choice = choices_[rank.at()];
      const Nic* nic = nic_of(rank.at());
      const size_t number =
          numbers.emplace(std::pair(choice.host, choice.nic), numbers.size()).first->second;
      nics.push_back({number, nic == nullptr ? 0 : nic->speed_mbit});
    }
    return nics;
  }

  [[nodiscard]] std::vector<std::vector<RailNic>> nics_by_group() const {
    std::vector<std::vector<RailNic>> groups;
    for (const auto& members : members_) {
      groups.push_back(rail_nics(members));
    }
    return groups;
  }

  void distinct_nics_first(std::vector<GlobalRank>& members) const {
    const std::vector<GlobalRank> before = members;
    const std::vector<size_t> order = deal_nics(rail_nics(before));
    for (size_t i = 0; i < members.size(); ++i) {
      members[i] = before[order[i]];
    }
  }

  [[nodiscard]] bool reach(GlobalRank a, GlobalRank b) const {
    const Nic* left = nic_of(a.at());
    const Nic* right = nic_of(b.at());
    if (left == nullptr || right == nullptr) {
      return true;
    }
    Subnets subnets;
    for (const InterfaceAddress& address : left->addresses) {
      if (address.subnet.empty()) {
        return true;
      }
      subnets.insert(address.subnet);
    }
    return on_any(*right, subnets);
  }

  // Ranks that already match their rail stay; the others are exchanged where that makes a match.
  void follow(const std::vector<GlobalRank>& reference, std::vector<GlobalRank>& members) const {
    for (size_t rail = 0; rail < rail_count_; ++rail) {
      if (reach(reference[rail], members[rail])) {
        continue;
      }
      for (size_t other = 0; other < members.size(); ++other) {
        const bool other_is_matched =
            other < rail_count_ && reach(reference[other], members[other]);
        if (!other_is_matched && reach(reference[rail], members[other])) {
          std::swap(members[rail], members[other]);
          break;
        }
      }
    }
  }

  Assignment finish(GroupMap map) {
    Assignment result{std::move(map), 1, {}, {}, host_of_rank_, {}, {}, {}, {}};
    for (const Host& host : hosts_) {
      result.host_names.push_back(host.name);
    }
    for (size_t rank = 0; rank < infos_.size(); ++rank) {
      result.nic_of_rank.push_back(assigned(rank, nullptr));
    }
    const size_t reference = reference_group();
    for (size_t g = 0; g < members_.size(); ++g) {
      auto& rails = result.rails.emplace_back();
      for (size_t rail = 0; rail < rail_count_; ++rail) {
        const InterfaceAddress* like = best_address(members_[reference][rail].at(), nullptr);
        const size_t rank = members_[g][rail].at();
        result.nic_of_rank[rank] = assigned(rank, like);
        rails.push_back(result.nic_of_rank[rank]);
      }
    }
    for (size_t host = 0; host < hosts_.size(); ++host) {
      result.nics_of_host.push_back(nics_as_good(host, result));
    }
    result.ring_count = count_rings();
    result.warnings = assignment_warnings(result);
    if (!left_out_.empty()) {
      result.warnings.push_back("no host knows how fast its interfaces are: rails use " +
                                used_kinds_ + ", which are of one kind, and not " + left_out_ +
                                "; HORING_SOCKET_IFNAME chooses others");
    }
    result.lost_nics = lost_nics(infos_, result);
    return result;
  }

  // The address most like `like`; without it, one on a subnet that all groups have, else IPv4.
  [[nodiscard]] const InterfaceAddress* best_address(size_t rank,
                                                     const InterfaceAddress* like) const {
    const Nic* nic = nic_of(rank);
    return nic == nullptr ? nullptr : best_address(*nic, like);
  }
  [[nodiscard]] const InterfaceAddress* best_address(const Nic& nic,
                                                     const InterfaceAddress* like) const {
    if (nic.addresses.empty()) {
      return nullptr;
    }
    const auto badness = [&](const InterfaceAddress& address) {
      if (like != nullptr) {
        return (address.ipv6 != like->ipv6 ? 4 : 0) + (address.subnet != like->subnet ? 2 : 0) +
               (address.link_local != like->link_local ? 1 : 0);
      }
      return (common_.contains(address.subnet) ? 0 : 2) + (address.ipv6 ? 1 : 0) +
             (address.link_local ? 1 : 0);
    };
    return &*std::ranges::min_element(
        nic.addresses, [&](const auto& a, const auto& b) { return badness(a) < badness(b); });
  }

  // Not slower than any in use there, of the kind of rails, and on a subnet that all groups have.
  [[nodiscard]] std::vector<AssignedNic> nics_as_good(size_t host_index,
                                                      const Assignment& made) const {
    const Host& host = hosts_[host_index];
    std::set<size_t> in_use;
    std::set<size_t> offered;
    uint64_t fastest = 0;
    for (const auto& [rank, offers] : host.offers) {
      if (choices_[rank].has_nic) {
        in_use.insert(choices_[rank].nic);
        fastest = std::max(fastest, made.nic_of_rank[rank].speed_mbit);
      }
      for (const auto& [nic, distance] : offers) {
        offered.insert(nic);
      }
    }
    std::vector<AssignedNic> nics;
    for (const size_t index : offered) {
      const Nic& nic = host.nics[index];
      const InterfaceAddress* address = best_address(nic, nullptr);
      const bool good = nic.speed_mbit >= fastest && on_any(nic, common_);
      if (address != nullptr && (good || in_use.contains(index))) {
        nics.push_back({nic.name, address->host, address->subnet, nic.speed_mbit});
      }
    }
    return nics;
  }

  [[nodiscard]] AssignedNic assigned(size_t rank, const InterfaceAddress* like) const {
    AssignedNic result;
    const InterfaceAddress* address = best_address(rank, like);
    if (address == nullptr) {
      return result;
    }
    const Nic& nic = *nic_of(rank);
    const NicChoice& choice = choices_[rank];
    result.name = nic.name;
    result.address = address->host;
    result.subnet = address->subnet;
    result.speed_mbit = nic.speed_mbit;
    result.distance = hosts_[choice.host].offers.at(rank).at(choice.nic);
    result.sharers = choice.sharers;
    return result;
  }

  [[nodiscard]] uint32_t count_rings() const {
    size_t rings = rail_count_;
    for (const auto& members : members_) {
      std::set<std::pair<size_t, size_t>> seen;
      size_t distinct = 0;
      while (distinct < rings) {
        const NicChoice& choice = choices_[members[distinct].at()];
        if (!choice.has_nic || !seen.emplace(choice.host, choice.nic).second) {
          break;
        }
        ++distinct;
      }
      rings = distinct;
    }
    return static_cast<uint32_t>(std::max<size_t>(rings, 1));
  }

  std::span<const RankInfo> infos_;
  const std::optional<GroupFile>& group_file_;
  uint32_t wanted_rails_;
  bool loopback_reaches_all_ = true;
  std::vector<Host> hosts_;
  std::vector<uint32_t> host_of_rank_;
  std::vector<std::vector<GlobalRank>> members_;
  size_t rail_count_ = 0;
  Subnets common_;
  std::string used_kinds_;  // names, where others are left out
  std::string left_out_;
  std::vector<NicChoice> choices_;
};

}  // namespace

Result<Assignment> assign_rails(std::span<const RankInfo> infos,
                                const std::optional<GroupFile>& group_file,
                                uint32_t rails) {
  return Assigner(infos, group_file, rails).run();
}

}  // namespace ho
