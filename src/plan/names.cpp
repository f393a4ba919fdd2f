// The words of a plan, as used on command lines and in messages.
#include "base/names.hpp"

#include "plan/plan.hpp"

namespace ho {
namespace {

constexpr Names<kCollectiveCount> kCollectives = {"all_gather",
                                                  "reduce_scatter",
                                                  "all_reduce",
                                                  "broadcast",
                                                  "all_to_all",
                                                  "gather",
                                                  "scatter",
                                                  "reduce"};
constexpr Names<kAlgorithmCount> kAlgorithms = {
    "ring", "multi_ring", "hierarchical", "ho_ring", "direct"};
constexpr Names<2> kLanes = {"intra", "inter"};
constexpr Names<4> kOpKinds = {"send", "recv", "recv_reduce", "copy"};
constexpr Names<3> kSpaces = {"input", "output", "scratch"};

template <typename Enum, size_t N>
Result<Enum> parse_name(const Names<N>& names, std::string_view what, std::string_view text) {
  std::string allowed;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == text) {
      return static_cast<Enum>(i);
    }
    allowed += (i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(names[i]);
  }
  return invalid(std::string(what) + " '" + std::string(text) + "' is not known: use " + allowed);
}

}  // namespace

std::string_view to_string(Collective collective) {
  return name_in(kCollectives, collective);
}
std::string_view to_string(Algorithm algorithm) {
  return name_in(kAlgorithms, algorithm);
}
std::string_view to_string(Lane lane) {
  return name_in(kLanes, lane);
}
std::string_view to_string(OpKind kind) {
  return name_in(kOpKinds, kind);
}
std::string_view to_string(Space space) {
  return name_in(kSpaces, space);
}

Result<Collective> parse_collective(std::string_view name) {
  return parse_name<Collective>(kCollectives, "collective", name);
}
Result<Algorithm> parse_algorithm(std::string_view name) {
  return parse_name<Algorithm>(kAlgorithms, "algorithm", name);
}

}  // namespace ho
