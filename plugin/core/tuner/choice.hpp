// What the tuner decides about, and what it can decide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ho::plugin {

// NCCL calls a tuner for broadcast and reduce too; CollNet does neither, so they stay NCCL's.
enum class TunedCollective : uint8_t { kAllReduce, kAllGather, kReduceScatter };
inline constexpr size_t kTunedCollectiveCount = 3;
inline constexpr std::array kTunedCollectives{
    TunedCollective::kAllReduce, TunedCollective::kAllGather, TunedCollective::kReduceScatter};

// NCCL's algorithms; or none, what NCCL itself would take; or its own, what NCCL would take if it
// had no CollNet. The three in the middle go through CollNet on several nodes, that is through our
// rail rings.
enum class Choice : uint8_t {
  kDefault,
  kRing,
  kTree,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
  kPat,
  kOwn,
};
inline constexpr size_t kChoiceCount = 9;
inline constexpr std::array kRailChoices{
    Choice::kCollNetDirect, Choice::kCollNetChain, Choice::kNvls};
inline constexpr std::array kOwnChoices{
    Choice::kRing, Choice::kTree, Choice::kNvlsTree, Choice::kPat};
inline constexpr std::array kAlgorithmChoices{Choice::kRing,
                                              Choice::kTree,
                                              Choice::kCollNetDirect,
                                              Choice::kCollNetChain,
                                              Choice::kNvls,
                                              Choice::kNvlsTree,
                                              Choice::kPat};

// A set of choices, all but kOwn, which is none of NCCL's algorithms. A value of few bits, so that
// decisions can be tabled for each.
class Choices {
 public:
  static constexpr size_t kSetCount = size_t{1} << static_cast<size_t>(Choice::kOwn);

  constexpr Choices() = default;
  constexpr explicit Choices(uint8_t bits) : bits_(bits) {}
  [[nodiscard]] constexpr Choices with(Choice choice) const {
    return Choices(static_cast<uint8_t>(bits_ | bit(choice)));
  }
  [[nodiscard]] constexpr bool has(Choice choice) const { return (bits_ & bit(choice)) != 0; }
  [[nodiscard]] constexpr Choices in(Choices other) const {
    return Choices(static_cast<uint8_t>(bits_ & other.bits_));
  }
  [[nodiscard]] constexpr uint8_t bits() const { return bits_; }
  friend constexpr bool operator==(Choices, Choices) = default;

 private:
  static constexpr uint8_t bit(Choice choice) {
    return choice == Choice::kOwn ? uint8_t{0}
                                  : static_cast<uint8_t>(1U << static_cast<uint32_t>(choice));
  }
  uint8_t bits_ = 0;
};

// Whether any NCCL has that algorithm for that collective; always so for kDefault and kOwn.
[[nodiscard]] bool can_be(TunedCollective collective, Choice choice);

// "all_reduce", "collnet_direct": also the names in a tuning file.
[[nodiscard]] std::string_view to_string(TunedCollective collective);
[[nodiscard]] std::string_view to_string(Choice choice);
[[nodiscard]] std::optional<TunedCollective> parse_tuned_collective(std::string_view text);
[[nodiscard]] std::optional<Choice> parse_choice(std::string_view text);

}  // namespace ho::plugin
