#include "planner/parallelism.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/quantity.hpp"
#include "cost/links.hpp"

namespace paro {
namespace {

bool divides(double part, double whole) {
  return std::fmod(whole, part) == 0;
}

// Those next to a size that does not divide: "3 or 6".
std::string near_divisors(uint64_t size, double whole) {
  uint64_t below = std::min(size, static_cast<uint64_t>(whole));
  while (!divides(static_cast<double>(below), whole)) {
    --below;
  }
  // The next one above is what a divisor up to the root leaves, or such a divisor itself.
  auto above = static_cast<uint64_t>(whole);
  for (uint64_t small = 1; static_cast<double>(small) * static_cast<double>(small) <= whole;
       ++small) {
    if (!divides(static_cast<double>(small), whole)) {
      continue;
    }
    for (const uint64_t divisor : {small, static_cast<uint64_t>(whole) / small}) {
      above = divisor > size ? std::min(above, divisor) : above;
    }
  }
  return static_cast<double>(size) > whole ? fmt::to_string(below)
                                           : fmt::format("{} or {}", below, above);
}

ho::Status must_divide(std::string_view option,
                       uint64_t size,
                       double whole,
                       std::string_view what) {
  if (divides(static_cast<double>(size), whole)) {
    return {};
  }
  return ho::invalid(fmt::format("{} {}: does not divide the {} {}, as {} would",
                                 option,
                                 size,
                                 whole,
                                 what,
                                 near_divisors(size, whole)));
}

double most_experts(const Transformer& model) {
  double most = 0;
  for (const Layer& layer : model.layers) {
    most = std::max(most, layer.experts.count);
  }
  return most;
}

// "3 nodes of 8", "levels of 8 x 3 x 4"
std::string shape_text(const ho::cost::Cluster& levels) {
  if (levels.size() == 2) {
    return fmt::format("{} of {}", ho::counted(levels[1].size, "node"), levels[0].size);
  }
  std::vector<uint32_t> sizes;
  for (const ho::cost::Level& level : levels) {
    sizes.push_back(level.size);
  }
  return fmt::format("levels of {}", fmt::join(sizes, " x "));
}

// The next fewer and the next more stages that tile, each of whole sets of ranks side by side: "4
// or 12".
std::string near_stages(const ho::cost::Cluster& levels, uint64_t beside, uint64_t stage) {
  const uint64_t ranks = rank_count(levels);
  std::vector<uint64_t> sizes = group_sizes(levels);
  sizes.push_back(ranks);
  uint64_t fewer = 0;
  uint64_t more = 0;
  for (const uint64_t size : sizes) {
    if (size % beside != 0) {
      continue;
    }
    if (size < stage) {
      more = ranks / size;
    } else if (fewer == 0) {
      fewer = ranks / size;
    }
  }
  return more > 0 ? fmt::format("{} or {}", fewer, more) : fmt::to_string(fewer);
}

ho::Status check_ranks(const Parallelism& sizes,
                       const ho::cost::Cluster& levels,
                       const ho::OptionNames& named) {
  const uint32_t node = levels.front().size;
  if (sizes.tensor > node) {
    return ho::invalid(fmt::format(
        "{} {}: is more than the {} ranks of a node, and every layer would wait for the network "
        "between nodes; takes at most {}, and {} or {} for more",
        named("tp"),
        sizes.tensor,
        node,
        node,
        named("pp"),
        named("cp")));
  }
  const uint64_t beside = uint64_t{1} * sizes.tensor * sizes.context;
  if (!inside_groups(levels, beside).ok()) {
    return ho::invalid(fmt::format("{} {} {} {}: {} ranks side by side do not tile {}, as {} would",
                                   named("tp"),
                                   sizes.tensor,
                                   named("cp"),
                                   sizes.context,
                                   beside,
                                   shape_text(levels),
                                   fmt::join(group_sizes_near(levels, beside), " or ")));
  }
  HORING_TRY(must_divide(fmt::format("{} x {} x {} of", named("tp"), named("pp"), named("cp")),
                         sizes.ranks_of_replica(),
                         static_cast<double>(rank_count(levels)),
                         "ranks"));
  HORING_TRY(must_divide(named("tp"), sizes.tensor, node, "ranks of a node"));
  const uint64_t stage = rank_count(levels) / sizes.pipeline;
  if (!inside_groups(levels, stage).ok()) {
    return ho::invalid(fmt::format("{} {}: stages of {} ranks do not tile {}; takes {} stages",
                                   named("pp"),
                                   sizes.pipeline,
                                   stage,
                                   shape_text(levels),
                                   near_stages(levels, beside, stage)));
  }
  return must_divide(named("ep"),
                     sizes.expert,
                     static_cast<double>(rank_count(levels) / sizes.ranks_of_replica()),
                     "ranks of data parallelism");
}

}  // namespace

ho::Status check(const Parallelism& sizes,
                 const Transformer& model,
                 const ho::cost::Cluster& levels,
                 double sequence,
                 const ho::OptionNames& named) {
  HORING_TRY(check_ranks(sizes, levels, named));
  const Attention& attention = model.layers.front().attention;
  HORING_TRY(must_divide(named("tp"), sizes.tensor, attention.heads, "heads"));
  if (sizes.tensor < attention.kv_heads) {  // else keys and values are held more than once
    HORING_TRY(must_divide(named("tp"), sizes.tensor, attention.kv_heads, "heads of keys"));
  }
  const uint64_t parts = uint64_t{1} * sizes.pipeline * sizes.parts;
  if (parts > model.layers.size()) {
    return ho::invalid(fmt::format(
        "{} x its interleaved parts of {}: are more than the {} layers; takes at most {}",
        named("pp"),
        parts,
        model.layers.size(),
        model.layers.size()));
  }
  HORING_TRY(must_divide(named("cp"), sizes.context, sequence, "tokens of a sequence"));
  if (sizes.parts > 1 && sizes.pipeline == 1) {
    return ho::invalid(named("interleave") + " takes " + named("pp") + " beside it");
  }
  if (sizes.expert > 1 && most_experts(model) == 0) {
    return ho::invalid(fmt::format(
        "{} {}: the model has no routed experts; leave it out", named("ep"), sizes.expert));
  }
  return sizes.expert > 1
             ? must_divide(named("ep"), sizes.expert, most_experts(model), "routed experts")
             : ho::Status();
}

DataParallel data_parallel(const Parallelism& sizes,
                           const WorldShape& world,
                           double nics_per_node) {
  const uint64_t replicas =
      uint64_t{1} * world.group_count * world.group_size / sizes.ranks_of_replica();
  const uint64_t ranks = replicas * sizes.context;
  const uint64_t fits = std::max<uint64_t>(1, world.group_size / sizes.tensor);
  // Of a small job they may all be in a node.
  const uint64_t of_node = std::max<uint64_t>(1, std::min(fits, ranks));
  DataParallel data;
  data.world = {static_cast<uint32_t>(std::max<uint64_t>(1, ranks / of_node)),
                static_cast<uint32_t>(of_node)};
  data.nics_per_group = nics_per_node * static_cast<double>(fits) / world.group_size;
  data.replicas = static_cast<uint32_t>(replicas);
  return data;
}

ho::cost::Cluster data_parallel_levels(const Parallelism& sizes, const ho::cost::Cluster& levels) {
  ho::cost::Members stage = inside_groups(levels, rank_count(levels) / sizes.pipeline).value();
  stage.front() /= sizes.tensor;
  ho::cost::Cluster data = levels;
  for (size_t at = 0; at < data.size(); ++at) {
    data[at].size = stage.at(at);
    data[at].nics /= at > 0 ? sizes.tensor : 1;
  }
  return data;
}

PipelineShape shape_of(const Parallelism& sizes, uint32_t micro_batches) {
  return {double{1} * sizes.pipeline, double{1} * sizes.parts, double{1} * micro_batches};
}

RankModel model_of_rank(const Transformer& model, const Parallelism& sizes) {
  const auto units = units_of(model);
  RankModel most;
  size_t layers = 0;
  for (uint32_t stage = 0; stage < sizes.pipeline; ++stage) {
    RankModel rank;
    const size_t begin = stage * model.layers.size() / sizes.pipeline;
    const size_t end = (stage + size_t{1}) * model.layers.size() / sizes.pipeline;
    layers = std::max(layers, end - begin);
    for (size_t at = begin; at < end; ++at) {
      const ModelUnit& unit = units[1 + at];
      rank.dense += (unit.parameters - unit.routed) / sizes.tensor;
      rank.routed += unit.routed / sizes.tensor / sizes.expert;
    }
    rank.dense += stage == 0 ? units.front().parameters / sizes.tensor : 0;
    if (stage + 1 == sizes.pipeline) {
      // A tied head on another stage has the embedding's matrix once more.
      const ModelUnit& head = units.back();
      rank.dense += (head.parameters + (stage > 0 ? head.shared : 0)) / sizes.tensor;
    }
    if (rank.parameters() > most.parameters()) {
      most = rank;
    }
  }
  most.layers = static_cast<uint32_t>(layers);
  return most;
}

namespace {

// Of a node, which has at least one replica's part.
uint32_t sets_of_experts(const WorldShape& data, uint32_t expert, uint32_t context) {
  return std::min(expert, std::max(1U, data.group_size / context));
}

}  // namespace

WorldShape expert_world(const WorldShape& data, uint32_t expert, uint32_t context) {
  const uint32_t of_node = data.group_size / std::max(1U, data.group_size / context);
  const uint32_t sets = sets_of_experts(data, expert, context);
  const uint32_t together =
      expert == sets ? data.group_size / sets : of_node;  // else other nodes have the rest
  return {data.ranks() / expert / together, together};
}

double between_factor(const RankModel& model,
                      const WorldShape& data,
                      uint32_t expert,
                      uint32_t context) {
  const auto sent = [](double groups) { return (groups - 1) / groups; };
  if (data.group_count == 1 || model.parameters() == 0) {
    return 1;
  }
  const double sets = sets_of_experts(data, expert, context);
  const double nodes = expert_world(data, expert, context).group_count;
  const double routed = model.routed / model.parameters();
  return 1 - routed + routed * sets * sent(nodes) / sent(data.group_count);
}

double between_factor(const RankModel& model,
                      const ho::cost::Cluster& data,
                      const Parallelism& sizes) {
  const auto ranks = static_cast<uint32_t>(rank_count(data));  // check() has a limit
  uint32_t unit = 1;
  std::optional<double> most;
  for (size_t at = 1; at < data.size(); ++at) {
    unit *= data[at - 1].size;
    if (data[at].size > 1) {
      most = std::max(most.value_or(0),
                      between_factor(model, {ranks / unit, unit}, sizes.expert, sizes.context));
    }
  }
  return most.value_or(1);
}

double bubble_share(const Parallelism& sizes, uint32_t micro_batches) {
  return (double{1} * sizes.pipeline - 1) / (double{1} * sizes.parts * micro_batches);
}

ho::cost::Members members_of(const DimensionTraffic& traffic, const ho::cost::Cluster& cluster) {
  ho::cost::Members members;
  members.fill(1);
  uint32_t left = traffic.ranks;
  uint64_t stride = traffic.stride;
  for (size_t at = 0; at < cluster.size(); ++at) {
    const bool outermost = at + 1 == cluster.size();
    const uint64_t fit = outermost ? left : cluster[at].size / stride;
    auto of_unit = static_cast<uint32_t>(std::clamp<uint64_t>(fit, 1, left));
    while (left % of_unit != 0) {
      --of_unit;
    }
    members.at(at) = of_unit;
    left /= of_unit;
    stride = std::max<uint64_t>(1, stride / cluster[at].size);
  }
  return members;
}

std::vector<DimensionTraffic> traffic_of(const Parallelism& sizes,
                                         const Transformer& model,
                                         const ho::cost::Cluster& cluster,
                                         const ActivationShape& shape) {
  const double value = shape.value_bytes;
  const double t = sizes.tensor;
  const double c = sizes.context;
  const double e = sizes.expert;
  const double tokens = shape.micro_batch * shape.sequence / c;
  const double stages =
      sizes.pipeline / longest_stage(static_cast<double>(model.layers.size()), shape_of(sizes));
  const double layers = static_cast<double>(model.layers.size()) / stages;
  double keys = 0;    // of all layers, elements of a token
  double routed = 0;  // experts of a token in all layers
  double routed_layers = 0;
  for (const Layer& layer : model.layers) {
    const Attention& attention = layer.attention;
    keys += attention.kv_heads * (attention.head_dim + attention.value_dim);
    routed += layer.experts.active;
    routed_layers += layer.experts.active > 0 ? 1 : 0;
  }
  keys /= stages;
  routed /= stages;
  routed_layers /= stages;
  const double forward = shape.recompute == Recompute::kFull ? 2 : 1;  // times
  const uint64_t next_stage = rank_count(cluster) / sizes.pipeline;
  uint64_t outer_unit = 1;  // ranks of each that the outermost level joins
  for (size_t at = 0; at < outermost_level(cluster); ++at) {
    outer_unit *= cluster[at].size;
  }
  const double boundaries = sizes.pipeline > 1 ? 2.0 * sizes.parts : 0;
  const std::array dimensions{
      DimensionTraffic{
          .dimension = "tp",
          .bytes = value * 4 * (forward + 1) * tokens * model.hidden * (t - 1) / t * layers,
          .pattern = Pattern::kGather,
          .calls = 4 * (forward + 1) * layers,
          .ranks = sizes.tensor,
          .stride = 1},
      DimensionTraffic{.dimension = "cp",
                       .bytes = value * (forward + 2) * tokens * keys / t * (c - 1),
                       .pattern = Pattern::kCircle,
                       .calls = (forward + 2) * layers,
                       .ranks = sizes.context,
                       .stride = sizes.tensor},
      DimensionTraffic{
          .dimension = "ep",
          .bytes = value * 2 * (forward + 1) * tokens * model.hidden / t * routed * (e - 1) / e,
          .calls = 2 * (forward + 1) * routed_layers,
          .ranks = sizes.expert,
          .stride = uint64_t{1} * sizes.tensor * sizes.context},
      DimensionTraffic{
          .dimension = "pp",
          .bytes = value * tokens * model.hidden / t * boundaries,
          .calls = boundaries,
          .ranks = 2,
          .stride = std::max(next_stage, outer_unit),
          .at_once =
              std::min(1.0, static_cast<double>(next_stage) / static_cast<double>(outer_unit))}};
  std::vector<DimensionTraffic> used;
  for (DimensionTraffic each : dimensions) {
    if (each.bytes > 0) {
      const ho::cost::Members members = members_of(each, cluster);
      for (size_t at = 0; at < cluster.size(); ++at) {
        each.level = members.at(at) > 1 ? at : each.level;
      }
      used.push_back(each);
    }
  }
  return used;
}

}  // namespace paro
