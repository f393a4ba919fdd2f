// Seconds of one collective, by the links it uses: levels of src/cost, of which two rates are the
// short form: inside groups, and between them. Pure.
//
// Three kinds: intra is a group's own, over its links at B' per rank; inter joins the ranks that
// own the same part in every group, m of them at once over the group's k NICs of B each; world
// joins all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cost/collective.hpp"
#include "cost/memory.hpp"

namespace paro {

enum class WorldAlgorithm : uint8_t { kRing, kMultiRing, kHoRing };
inline constexpr std::array kWorldAlgorithmNames{
    std::string_view("ring"), std::string_view("multi_ring"), std::string_view("ho_ring")};
[[nodiscard]] constexpr std::string_view to_string(WorldAlgorithm algorithm) {
  return kWorldAlgorithmNames.at(static_cast<size_t>(algorithm));
}
[[nodiscard]] ho::cost::Algorithm algorithm_of(WorldAlgorithm algorithm);

struct Links {
  double intra_bytes_per_s = 0;  // B', per rank
  double inter_bytes_per_s = 0;  // B, per NIC
  double nics_per_group = 1;     // k
  WorldAlgorithm world = WorldAlgorithm::kHoRing;
  // What a collective takes beside its bytes and steps, an all-reduce too.
  double intra_call_s = 0;
  double inter_call_s = 0;
  double world_call_s = 0;
  // Of each step.
  double intra_latency_s = 0;
  double inter_latency_s = 0;
  // Between groups, bytes for each of a call's: more than 1 where the ranks of a group have
  // different parts and send for themselves, as routed experts' sets do.
  double between_factor = 1;
  // In place of the rates, NICs, latencies and calls above. The ranks of the innermost one are what
  // HO-Ring has as a group; the planner's groups may be of any size that tiles them.
  ho::cost::Cluster levels = {};
  // The same cluster, once for each protocol that collectives have, instead of all of the
  // above: a collective takes the seconds of the fastest. Rates or levels still say which links it
  // is slow on. Groups tile every one of them.
  std::vector<ho::cost::Cluster> protocols = {};
  // The same for NCCL's trees: an all-reduce takes the fastest of these and of its rings.
  std::vector<ho::cost::Cluster> trees = {};
};

// The levels, or their short form as two of them.
[[nodiscard]] ho::cost::Cluster levels_of(const WorldShape& world, const Links& links);

// The outermost one that joins several units.
[[nodiscard]] size_t outermost_level(const ho::cost::Cluster& cluster);

// The same where what joins nodes is half as good: half the rate, twice the latency and what a call
// takes. On one node it is what joins its ranks.
[[nodiscard]] Links half_as_good(const WorldShape& world, const Links& links);

// Of one among some ranks of nodes, whose levels and links these are: `members` of levels_of().
[[nodiscard]] double seconds_among(const ho::cost::Members& members,
                                   const WorldShape& nodes,
                                   const Links& links,
                                   const ho::cost::Call& call);

class CollectiveSeconds {
 public:
  // Where there are levels, they hold the world's ranks and its groups tile them.
  CollectiveSeconds(const WorldShape& world, const Links& links);

  // `bytes` in all, of all ranks that take part.
  [[nodiscard]] double intra(ho::Collective collective, double bytes) const;
  // `bytes`: of one rank's part, in all groups the same part.
  [[nodiscard]] double inter(ho::Collective collective, double bytes) const;
  [[nodiscard]] double world(ho::Collective collective, double bytes) const;
  // Of such a collective: whether it is slower on levels inside groups than on the others, and of
  // its time there the share that the others take of theirs.
  struct WorldLinks {
    bool waits_inside = false;
    double beside = 0;
  };
  [[nodiscard]] WorldLinks world_links(ho::Collective collective, double bytes) const;

 private:
  // A cluster, and who takes part.
  struct Protocol {
    ho::cost::Cluster cluster;
    ho::cost::Members group;  // ranks of one
    ho::cost::Members rail;   // one of each group
    ho::cost::Members all;
  };
  static Protocol protocol_of(ho::cost::Cluster cluster, const WorldShape& world);
  [[nodiscard]] double fastest(ho::cost::Members Protocol::*who,
                               ho::Collective collective,
                               double bytes) const;

  Links links_;
  std::vector<Protocol> protocols_;
  std::vector<Protocol> trees_;
};

// Bytes that a collective sends over some of the levels.
class LevelBytes {
 public:
  enum class Over : uint8_t {
    kInnermost,  // by a rank, on average
    kOthers,     // the same
    kOutermost,  // that leave each unit which the outermost level joins, of all at once of a kind
  };
  LevelBytes(const WorldShape& world, const Links& links, Over over);

  // As CollectiveSeconds has them.
  [[nodiscard]] double intra(ho::Collective collective, double bytes) const;
  [[nodiscard]] double inter(ho::Collective collective, double bytes) const;
  [[nodiscard]] double world(ho::Collective collective, double bytes) const;

 private:
  [[nodiscard]] double sent(const ho::cost::Members& members,
                            ho::Collective collective,
                            double bytes) const;

  WorldAlgorithm algorithm_;
  double between_factor_;
  ho::cost::Cluster cluster_;
  Over over_;
  ho::cost::Members group_;
  ho::cost::Members rail_;
};

}  // namespace paro
