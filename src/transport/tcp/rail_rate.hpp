// How fast a link's own rail is, compared with its best, and which part of the link's messages it
// should then carry. Pure.
//
// Only time counts in which data waited for the rail and the peer took it: a link that waits for
// its application, or for a slow receiver, says nothing of its rail. Data waits in this host, or in
// the network, where a few messages may all find room: then round trips are long. What the rail
// carries for others counts too: a rail that is shared is not slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "os/tcp_progress.hpp"

namespace ho::tcp {

// The connections of a link over one rail.
struct RailLook {
  int64_t time_ns = 0;
  TcpProgress connection{};   // of the first; acknowledged_bytes: of all of them
  uint64_t busy_us = 0;       // TcpProgress', their mean
  uint64_t peer_full_us = 0;  // the same
  uint64_t written_bytes = 0;
  uint64_t messages = 0;  // of the link, over all rails
  // Of the link's own rail only: what the rail has sent in all (nothing: unknown).
  std::optional<uint64_t> rail_bytes{};
};
// Data may wait for the rail.
[[nodiscard]] bool may_wait(const TcpProgress& connection);
// What a peer does that takes no more for that part of the time says nothing of the rail.
inline constexpr double kPeerFullPart = 0.1;
// At one time, of the link's own rail and of each other one that carries messages of it.
struct RailLooks {
  RailLook own{};
  std::vector<RailLook> others{};
};

class RailRate {
 public:
  // A rate is known after so many samples that count, and is their median.
  static constexpr size_t kSamples = 4;
  // All of them below this part of what the rail has had: it is slow. This part: it is well again.
  static constexpr double kSlow = 0.8;
  static constexpr double kWell = 0.9;

  // A sample is the time between two looks at the same connections. shared: the link's messages go
  // over other rails too, so the connection need not be busy all the time.
  void look(const RailLook& now, bool shared);
  // Other connections, or another part of the messages: what was seen of them says nothing now. The
  // best stays.
  void restart();

  // Bytes per second, at least; nothing: too little has been seen since the last restart.
  [[nodiscard]] std::optional<double> now() const;
  // And at most: where messages are shared, all that the rail has sent may have been sent while
  // this link's were on their way, and what other links send over it makes it no slower.
  [[nodiscard]] std::optional<double> at_most() const;
  // 0: none yet.
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] bool slow(double had) const;
  // So that nothing but the rail can be the reason: each sample had a queue. Few messages may wait
  // for acknowledgements that come late, behind what the peer sends over the same rail.
  [[nodiscard]] bool slow_with_queue(double had) const;
  [[nodiscard]] bool well(double had) const { return now().value_or(0) >= kWell * had; }
  [[nodiscard]] size_t samples() const { return count_; }

 private:
  struct Sample {
    double rate = 0;
    double at_most = 0;
    bool queued = false;
  };
  [[nodiscard]] std::optional<double> median(double Sample::*value) const;

  std::optional<RailLook> last_;
  std::vector<Sample> rates_;  // of the last kSamples
  size_t count_ = 0;
  double best_ = 0;
};

// Of a link whose rail has `part` (0 to 1) of its speed, and which may use `others` rails as fast
// as that was, each with a link of its own that does the same amount of work: the weight of its own
// rail and of each other one, with which all links are done at the same time. The own rail's is 1
// at least; that of others may be 0.
struct RailWeights {
  uint8_t own = 1;
  uint8_t other = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm
  friend auto operator<=>(const RailWeights&, const RailWeights&) = default;
};
[[nodiscard]] RailWeights weights_of_slow_rail(double part, size_t others);

}  // namespace ho::tcp
