// Distinct types for distinct index spaces: a group rank is not a global rank, and mixing them does
// not compile. Each is a plain 32-bit number underneath.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ho {

template <typename Space>
class Index {
 public:
  constexpr Index() = default;
  constexpr explicit Index(uint32_t value) : value_(value) {}
  constexpr explicit Index(size_t value) : value_(static_cast<uint32_t>(value)) {}
  constexpr explicit Index(int value) : value_(static_cast<uint32_t>(value)) {}

  [[nodiscard]] constexpr uint32_t value() const { return value_; }
  // For indexing containers.
  [[nodiscard]] constexpr size_t at() const { return value_; }
  constexpr Index& operator++() {
    ++value_;
    return *this;
  }
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm of clang-tidy 14 on every defaulted <=>
  friend constexpr auto operator<=>(Index, Index) = default;

 private:
  uint32_t value_ = 0;
};

using GlobalRank = Index<struct GlobalRankSpace>;  // 0 .. world size - 1
using GroupIndex = Index<struct GroupIndexSpace>;  // 0 .. groups - 1
using GroupRank = Index<struct GroupRankSpace>;    // 0 .. ranks of that group - 1
using RailIndex = Index<struct RailIndexSpace>;    // 0 .. rails - 1
using ChunkIndex = Index<struct ChunkIndexSpace>;  // 0 .. chunks of a plan - 1

}  // namespace ho

template <typename Space>
struct std::hash<ho::Index<Space>> {
  size_t operator()(ho::Index<Space> index) const noexcept { return index.value(); }
};
