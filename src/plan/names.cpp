// The words of a plan, as used on command lines and in messages.
#include <array>

#include "plan/plan.hpp"

namespace ho {
namespace {

constexpr std::array<std::string_view, kCollectiveCount> kCollectives = {"all_gather",
                                                                         "reduce_scatter",
                                                                         "all_reduce",
                                                                         "broadcast",
                                                                         "all_to_all",
                                                                         "gather",
                                                                         "scatter",
                                                                         "reduce"};
constexpr std::array<std::string_view, kAlgorithmCount> kAlgorithms = {
    "ring", "multi_ring", "hierarchical", "ho_ring", "direct"};
constexpr std::array<std::string_view, 2> kLanes = {"intra", "inter"};
constexpr std::array<std::string_view, 4> kOpKinds = {"send", "recv", "recv_reduce", "copy"};
constexpr std::array<std::string_view, 3> kSpaces = {"input", "output", "scratch"};

template <typename Enum, size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < N ? names[index] : std::string_view("unknown");
}

template <typename Enum, size_t N>
Result<Enum> parse_name(const std::array<std::string_view, N>& names,
                        std::string_view what,
                        std::string_view text) {
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
  return name_of(kCollectives, collective);
}
std::string_view to_string(Algorithm algorithm) {
  return name_of(kAlgorithms, algorithm);
}
std::string_view to_string(Lane lane) {
  return name_of(kLanes, lane);
}
std::string_view to_string(OpKind kind) {
  return name_of(kOpKinds, kind);
}
std::string_view to_string(Space space) {
  return name_of(kSpaces, space);
}

Result<Collective> parse_collective(std::string_view name) {
  return parse_name<Collective>(kCollectives, "collective", name);
}
Result<Algorithm> parse_algorithm(std::string_view name) {
  return parse_name<Algorithm>(kAlgorithms, "algorithm", name);
}

}  // namespace ho
