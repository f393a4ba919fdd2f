#include "core/tuner/cost.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/tuner/chunk.hpp"

namespace ho::plugin {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kKernelStartNs = 7'000;
constexpr double kDirectStartNs = 31'000;
constexpr double kChainStartNs = 30'000;
constexpr double kNvlsStartNs = 18'000;
constexpr double kLoneRankStartNs = 14'000;
constexpr double kMinAllReduceBytes = 32.0 * 1024;  // of a head

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
        b_(static_cast<double>(question.bytes)) {}

  [[nodiscard]] double ring() const {
    const double links = reduces_all_ ? 2 * (p_ - 1) : p_ - 1;
    const double crossings =
        reduces_all_ ? 2 * (n_ - 1) + std::min(2.0, m_ - 1) : n_ - 1 + std::min(1.0, m_ - 1);
    const double bytes = (reduces_all_ ? 2 : 1) * (p_ - 1) / p_ * b_;
    return kKernelStartNs + hops(crossings, links - crossings) +
           std::max(node_ns(bytes), intra_ns(bytes));
  }

  [[nodiscard]] double tree() const {
    if (!reduces_all_) {
      return kNever;
    }
    return kKernelStartNs + hops(2 * depth(), 2 * (m_ - 1)) +
           std::max(node_ns(tree_bytes()), intra_ns(chain_bytes()));
  }

  [[nodiscard]] double nvls_tree() const {
    if (!reduces_all_) {
      return kNever;
    }
    return kKernelStartNs + hops(2 * depth(), 2) +
           std::max(node_ns(tree_bytes()), intra_ns(nvls_bytes()));
  }

  [[nodiscard]] double pat() const {
    if (reduces_all_ || !inputs_.one_rank_per_node()) {
      return kNever;
    }
    return kKernelStartNs + hops(depth(), 0) + node_ns((n_ - 1) / n_ * b_);
  }

  [[nodiscard]] double direct() const {
    if (!has_rails() || inputs_.most_local_ranks > kMaxDirectRanks) {
      return kNever;
    }
    const double bytes = reduces_all_ ? (h_ - 1 + m_ - 1) / h_ * b_ : (m_ - 1) / m_ * b_;
    return start(kDirectStartNs) + hops(0, 2) + rails_ns(Choice::kCollNetDirect, bytes);
  }

  [[nodiscard]] double chain() const {
    if (!reduces_all_ || !has_rails() || inputs_.most_local_ranks > kMaxDirectRanks) {
      return kNever;
    }
    return start(kChainStartNs) + hops(0, 2 * (m_ - 1)) +
           rails_ns(Choice::kCollNetChain, chain_bytes());
  }

  [[nodiscard]] double nvls() const {
    if (!has_rails()) {
      return kNever;
    }
    return start(kNvlsStartNs) + hops(0, 2) + rails_ns(Choice::kNvls, nvls_bytes());
  }

  [[nodiscard]] double margin() const {
    return reduces_all_ || whole_window() ? kMargin : kWindowMargin;
  }

 private:
  // 1 Mbit/s takes 8000 ns for a byte.
  static double wire_ns(double bytes, double mbps) { return bytes * 8000 / mbps; }

  [[nodiscard]] bool has_rails() const {
    return inputs_.head_count > 0 && (reduces_all_ || inputs_.every_rank_is_head());
  }
  [[nodiscard]] double start(double several_ranks_ns) const {
    return inputs_.one_rank_per_node() ? kLoneRankStartNs : several_ranks_ns;
  }
  [[nodiscard]] double hops(double inter, double intra) const {
    return inter * inputs_.hop_ns + (m_ > 1 ? intra * inputs_.intra_hop_ns : 0);
  }
  [[nodiscard]] double node_ns(double bytes) const {
    return wire_ns(bytes, double{1} * inputs_.nic_count * inputs_.nic_mbps);
  }
  [[nodiscard]] double intra_ns(double bytes) const {
    return m_ <= 1 || inputs_.intra_mbps == 0 ? 0 : wire_ns(bytes, inputs_.intra_mbps);
  }
  // ceil(log2 N)
  [[nodiscard]] double depth() const { return std::bit_width(inputs_.node_count - 1); }
  [[nodiscard]] double tree_bytes() const { return std::min(n_ / 2, 2.0) * b_; }
  [[nodiscard]] double chain_bytes() const { return m_ > 2 ? 2 * b_ : b_; }
  [[nodiscard]] double nvls_bytes() const { return reduces_all_ ? b_ + b_ / h_ : b_; }

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

  // The rail rings' hops and bytes, beside the bytes inside the node.
  [[nodiscard]] double rails_ns(Choice choice, double gpu_bytes) const {
    const double latency_ns = (reduces_all_ ? 2 : 1) * (n_ - 1) * inputs_.hop_ns;
    const double sharers = std::max(1.0, h_ / inputs_.nic_count);
    const double nic_ns = wire_ns(rail_bytes(choice) * sharers, inputs_.rail_mbps);
    const double head_bytes = reduces_all_ ? b_ / h_ : n_ * b_ / p_;
    const double flights = whole_window() ? 1 : head_bytes / static_cast<double>(in_flight(choice));
    const double waits_ns = std::max(0.0, flights - 1) * latency_ns;
    return latency_ns + std::max({nic_ns, waits_ns, intra_ns(gpu_bytes)});
  }

  const CommonInputs& inputs_;
  Question question_;
  bool reduces_all_;
  double n_;
  double p_;
  double m_;
  double h_;
  double b_;
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
