// Over which rails the connections of a link may go, and which attempt to connect counts. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"

namespace ho::tcp {

// From one of this host's rails to one of the peer's.
struct Path {
  RailIndex own;
  RailIndex peer;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend auto operator<=>(const Path&, const Path&) = default;
};

// Of one connection: over which rails it goes, and how many of the link's messages it takes.
struct Share {
  Path path{};
  uint8_t weight = 1;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend auto operator<=>(const Share&, const Share&) = default;
};

// Each path once, in the order of the connections.
[[nodiscard]] std::vector<Path> paths_of(std::span<const Share> shares);
// Which part of the messages goes over that path, of those that all have.
[[nodiscard]] double part_over(const Path& path, std::span<const Share> shares);

// Another path carries all that this one could, while a connection over it stays open.
[[nodiscard]] bool only_open(const Path& path, std::span<const Share> shares);

// All there are, in the order in which they are tried: the link's own rail, then equal rails from
// the next one on, then all others.
[[nodiscard]] std::vector<Path> paths_from(RailIndex rail, size_t own_rails, size_t peer_rails);
// The same of rails with these addresses, of which some may share a NIC: each pair of addresses
// once.
[[nodiscard]] std::vector<Path> distinct_paths(RailIndex rail,
                                               const std::vector<std::string>& own,
                                               const std::vector<std::string>& peer);

// Numbers each attempt of one link to get connections. Both ends may try at once: the end that
// opens the link takes even numbers, the other one odd ones, so no two attempts are equal, and the
// higher one counts where both succeed.
class Epochs {
 public:
  explicit Epochs(bool opens) : last_(opens ? 0 : 1) {}

  // Of an attempt of this end's.
  [[nodiscard]] uint32_t begin();
  // Whether connections of that epoch may replace those that there are.
  [[nodiscard]] bool newer(uint32_t epoch) const { return epoch > current_; }
  // The peer tries with that one.
  void saw(uint32_t epoch);
  // Its connections stand and are used.
  void adopt(uint32_t epoch);
  // 0: none yet.
  [[nodiscard]] uint32_t current() const { return current_; }

 private:
  uint32_t last_;  // this end's, of its parity
  uint32_t current_ = 0;
};

}  // namespace ho::tcp
