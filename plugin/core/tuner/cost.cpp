#include "core/tuner/cost.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/tuner/chunk.hpp"
#include "cost/collective.hpp"

namespace ho::plugin {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNsPerSecond = 1e9;
constexpr double kKernelStartNs = 7'000;
constexpr double kDirectStartNs = 31'000;
constexpr double kChainStartNs = 30'000;
constexpr double kNvlsStartNs = 18'000;
constexpr double kLoneRankStartNs = 14'000;
constexpr double kMinAllReduceBytes = 32.0 * 1024;  // of a head

// Bytes/s of Mbit/s.
double rate_of_mbps(double mbps) {
  return mbps * 1e6 / 8;
}

// The communicator as two levels: ranks of the fullest node, and nodes.
cost::Cluster cluster_of(const CommonInputs& inputs, double nics, double mbps) {
  cost::Level node;
  node.name = "node";
  node.size = inputs.most_local_ranks;
  node.rate = inputs.intra_mbps == 0 ? kNever : rate_of_mbps(inputs.intra_mbps);
  node.latency_s = inputs.intra_hop_ns / kNsPerSecond;
  cost::Level network;
  network.name = "network";
  network.size = inputs.node_count;
  network.nics = nics;
  network.rate = rate_of_mbps(mbps);
  network.latency_s = inputs.hop_ns / kNsPerSecond;
  return {node, network};
}

Collective collective_of(TunedCollective collective) {
  switch (collective) {
    case TunedCollective::kAllGather:
      return Collective::kAllGather;
    case TunedCollective::kReduceScatter:
      return Collective::kReduceScatter;
    case TunedCollective::kAllReduce:
      break;
  }
  return Collective::kAllReduce;
}

// The letters of the header's essay.
class Model {
 public:
  Model(const CommonInputs& inputs, const Question& question)
      : inputs_(inputs),
        question_(question),
        reduces_all_(question.collective == TunedCollective::kAllReduce),
        n_(inputs.node_count),
        p_(inputs.rank_count),
        m_(inputs.most_local_ranks),
        h_(inputs.head_count),
        b_(static_cast<double>(question.bytes)),
        // NCCL's channels spread over all NICs, which may be more than ranks: as one.
        own_(cluster_of(inputs, 1, double{1} * inputs.nic_count * inputs.nic_mbps)),
        rails_(cluster_of(inputs, inputs.nic_count, inputs.rail_mbps)),
        all_(cost::all_ranks(own_)) {}

  [[nodiscard]] double ring() const {
    cost::Work work = cost::work_of(own_, all_, call(cost::Algorithm::kMultiRing));
    // A circle through nodes that are not as full as the fullest has fewer links.
    const double links = (reduces_all_ ? 2 : 1) * (p_ - 1);
    work.levels[0].steps = links - work.levels[1].steps;
    work.levels[0].bytes = m_ > 1 ? links / p_ * b_ : 0;
    work.levels[1].bytes = links / p_ * b_;
    return own_ns(work);
  }

  [[nodiscard]] double tree() const { return own_ns(tree_work()); }

  [[nodiscard]] double nvls_tree() const {
    cost::Work work = tree_work();
    work.levels[0] = inside(2, nvls_bytes());
    return own_ns(work);
  }

  [[nodiscard]] double pat() const {
    if (reduces_all_ || !inputs_.one_rank_per_node()) {
      return kNever;
    }
    cost::Work work;
    work.levels[1].steps = std::bit_width(inputs_.node_count - 1);  // ceil(log2 N)
    work.levels[1].bytes = (n_ - 1) / n_ * b_;
    return own_ns(work);
  }

  [[nodiscard]] double direct() const {
    if (!has_rails() || inputs_.most_local_ranks > kMaxDirectRanks) {
      return kNever;
    }
    const double bytes = reduces_all_ ? (h_ - 1 + m_ - 1) / h_ * b_ : (m_ - 1) / m_ * b_;
    return start(kDirectStartNs) + rails_ns(Choice::kCollNetDirect, inside(2, bytes));
  }

  [[nodiscard]] double chain() const {
    if (!reduces_all_ || !has_rails() || inputs_.most_local_ranks > kMaxDirectRanks) {
      return kNever;
    }
    return start(kChainStartNs) + rails_ns(Choice::kCollNetChain, tree_work().levels[0]);
  }

  [[nodiscard]] double nvls() const {
    if (!has_rails()) {
      return kNever;
    }
    return start(kNvlsStartNs) + rails_ns(Choice::kNvls, inside(2, nvls_bytes()));
  }

  [[nodiscard]] double margin() const {
    return reduces_all_ || whole_window() ? kMargin : kWindowMargin;
  }

 private:
  [[nodiscard]] bool has_rails() const {
    return inputs_.head_count > 0 && (reduces_all_ || inputs_.every_rank_is_head());
  }
  [[nodiscard]] double start(double several_ranks_ns) const {
    return inputs_.one_rank_per_node() ? kLoneRankStartNs : several_ranks_ns;
  }
  [[nodiscard]] cost::Call call(cost::Algorithm algorithm) const {
    return {collective_of(question_.collective), algorithm, b_};
  }
  // Its level 0 is the chain's too.
  [[nodiscard]] cost::Work tree_work() const {
    return cost::work_of(own_, all_, call(cost::Algorithm::kTree));
  }
  [[nodiscard]] cost::LevelWork inside(double steps, double bytes) const {
    cost::LevelWork level;
    level.steps = m_ > 1 ? steps : 0;
    level.bytes = m_ > 1 ? bytes : 0;
    return level;
  }
  [[nodiscard]] double nvls_bytes() const { return reduces_all_ ? b_ + b_ / h_ : b_; }

  // One of NCCL's own.
  [[nodiscard]] double own_ns(const cost::Work& work) const {
    return kKernelStartNs + kNsPerSecond * cost::seconds_of(own_, all_, work);
  }

  // The busiest link of one head's ring.
  [[nodiscard]] double rail_bytes(Choice choice) const {
    if (reduces_all_) {
      return 2 * (n_ - 1) / n_ * std::max(b_ / h_, kMinAllReduceBytes);
    }
    const uint64_t block = block_bytes(inputs_, question_.bytes);
    const uint64_t saved =
        whole_window() ? block : saved_bytes(inputs_.node_count, block, in_flight(choice));
    return n_ * b_ / p_ - static_cast<double>(saved);
  }
  [[nodiscard]] bool whole_window() const {
    return question_.registered && inputs_.whole_windows == 1 && inputs_.one_rank_per_node();
  }
  [[nodiscard]] uint64_t in_flight(Choice choice) const {
    return in_flight_bytes(inputs_, question_.collective, choice, question_.bytes);
  }

  // The rail rings beside what a node does inside.
  [[nodiscard]] double rails_ns(Choice choice, const cost::LevelWork& inside_node) const {
    cost::Work work;
    work.levels[0] = inside_node;
    cost::LevelWork& rails = work.levels[1];
    rails.steps = (reduces_all_ ? 2 : 1) * (n_ - 1);
    rails.flows = h_;
    rails.bytes = h_ * rail_bytes(choice);
    const double head_bytes = reduces_all_ ? b_ / h_ : n_ * b_ / p_;
    const double flights = whole_window() ? 1 : head_bytes / static_cast<double>(in_flight(choice));
    const double waits_s = std::max(0.0, flights - 1) * rails.steps * rails_[1].latency_s;
    rails.bytes = std::max(rails.bytes, waits_s * cost::rate_of(rails_, all_, 1, rails));
    return kNsPerSecond * cost::seconds_of(rails_, all_, work);
  }

  const CommonInputs& inputs_;
  Question question_;
  bool reduces_all_;
  double n_;
  double p_;
  double m_;
  double h_;
  double b_;
  cost::Cluster own_;
  cost::Cluster rails_;
  cost::Members all_;
};

Choice best(const Costs& costs, Choices among) {
  Choice found = Choice::kDefault;
  for (const Choice choice : kAlgorithmChoices) {
    if (among.has(choice) && costs.of(choice) < costs.of(found)) {
      found = choice;
    }
  }
  return found;
}

constexpr Choices kRails =
    Choices().with(Choice::kCollNetDirect).with(Choice::kCollNetChain).with(Choice::kNvls);
constexpr Choices kPossiblyOwn = Choices().with(Choice::kNvlsTree).with(Choice::kPat);

}  // namespace

Costs modelled_costs(const CommonInputs& inputs, const Question& question) noexcept {
  Costs costs;
  costs.ns.fill(kNever);
  if (inputs.node_count < 2 || question.bytes == 0 || inputs.nic_count == 0 ||
      inputs.nic_mbps == 0 || inputs.rail_mbps == 0) {
    return costs;
  }
  const Model model(inputs, question);
  costs.margin = model.margin();
  const auto set = [&costs](Choice choice, double ns) {
    costs.ns[static_cast<size_t>(choice)] = ns;
  };
  set(Choice::kRing, model.ring());
  set(Choice::kTree, model.tree());
  set(Choice::kCollNetDirect, model.direct());
  set(Choice::kCollNetChain, model.chain());
  set(Choice::kNvls, model.nvls());
  set(Choice::kNvlsTree, model.nvls_tree());
  set(Choice::kPat, model.pat());
  return costs;
}

bool low_latency_is_faster(const CommonInputs& inputs,
                           const Question& question,
                           Choice choice) noexcept {
  if (choice != Choice::kRing && choice != Choice::kTree) {
    return false;
  }
  Question one_byte = question;
  one_byte.bytes = 1;
  const double least_ns = modelled_costs(inputs, one_byte).of(choice);
  const double bytes_ns = modelled_costs(inputs, question).of(choice) - least_ns;
  return bytes_ns < (least_ns - kKernelStartNs) / 2;
}

Decision decide(const Costs& costs, Choices possible) noexcept {
  Decision decision;
  decision.rival = best(costs, possible.in(kPossiblyOwn).with(Choice::kRing).with(Choice::kTree));
  decision.candidate = best(costs, possible.in(kRails));
  if (decision.candidate != Choice::kDefault &&
      costs.of(decision.candidate) * costs.margin <= costs.of(decision.rival)) {
    decision.choice = decision.candidate;
  } else if (decision.rival != Choice::kDefault) {
    decision.choice = Choice::kOwn;
  }
  return decision;
}

}  // namespace ho::plugin
