// Over which rails a link's messages go: which path a link that has lost its connections tries
// next, and, while messages flow, when another choice would be better. Pure: no socket and no
// clock.
//
// A link that has lost its own rail goes on over one other, the first that answers. Then it moves
// to all other equal rails that do, so each has an equal part of its load, and back to its own rail
// once that answers. A link whose rail is slow keeps it, for the part of its messages that the rail
// can carry, and moves the rest to the others: by its past where it is kept busy (rail_rate.hpp),
// else by a comparison with one of them (rail_suspicion.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/paths.hpp"
#include "transport/tcp/rail_rate.hpp"
#include "transport/tcp/rail_suspicion.hpp"

namespace ho::tcp {

class PathChoice {
 public:
  struct Options {
    Path home;           // the link's own rail at both ends
    bool opens = false;  // this end opens the link
    uint32_t connections_per_link = 1;
    int64_t look_ns = 250'000'000;            // about so long between two looks, if not in doubt
    std::function<std::vector<Path>()> all;   // in the order of trying
    std::function<bool(const Path&)> usable;  // as far as this host's kernel knows
  };
  explicit PathChoice(Options options) : options_(std::move(options)) {}

  // connections_per_link over these paths, and at least one over each.
  [[nodiscard]] std::vector<Share> over(const std::vector<Path>& paths) const;

  // Messages flow over these; own: this end has dialled them.
  void on_flows(std::vector<Share> shares, bool own, int64_t now_ns);
  // These are lost, beginning with a connection over `failed`.
  void on_lost(std::vector<Share> shares, const Path& failed, int64_t now_ns);

  // While lost: the path to try; nothing: each has been tried in this round.
  [[nodiscard]] std::optional<Path> next() const;
  void begin_round() { suspects_.clear(); }
  void on_not_reached(const std::vector<Path>& paths);

  // While messages flow, a few times a second. What the own rail does, where it carries messages,
  // and other ones beside it:
  [[nodiscard]] bool watches_home() const { return !shares_.empty() && !away(); }
  void look(const RailLooks& looks);
  // The next look should come sooner.
  [[nodiscard]] bool in_doubt(int64_t now_ns) const;
  // What to move to now.
  struct Better {
    std::vector<Share> shares;
    std::string reason;  // "": what was left is back, or there is more than one
    bool news = true;    // for who reads the log; not: rails are compared, or are equal
  };
  [[nodiscard]] std::optional<Better> better(int64_t now_ns);
  // That could not be had: these paths are to blame (none: the peer was busy, whatever the path).
  void on_not_had(const std::vector<Share>& tried, const std::vector<Path>& blamed, int64_t now_ns);

 private:
  // Weights for a slow own rail.
  struct Shared {
    double at_rate = 0;   // for which they were made
    double had_rate = 0;  // what would be well
    // The own rail has more messages than this rate allows: that is tried.
    std::optional<double> tried_from{};
    size_t back_after_samples = RailRate::kSamples;
  };
  [[nodiscard]] bool only_home() const;
  [[nodiscard]] bool away() const;
  [[nodiscard]] bool compares() const;
  [[nodiscard]] bool shares() const { return !only_home() && !away() && !compares(); }
  [[nodiscard]] bool suspect(const Path& path) const;
  void leave_home(int64_t now_ns);
  // The other equal rails that may carry messages.
  [[nodiscard]] std::vector<Path> others() const;
  [[nodiscard]] std::optional<Better> better_while_away(int64_t now_ns);
  [[nodiscard]] std::optional<Better> better_at_home(int64_t now_ns);
  [[nodiscard]] std::optional<Better> better_than_shared(int64_t now_ns);
  [[nodiscard]] std::optional<Better> compare();
  [[nodiscard]] std::optional<Better> after_comparison(int64_t now_ns);
  [[nodiscard]] bool carries_too_little() const;
  [[nodiscard]] std::optional<Better> more(bool well, int64_t now_ns);
  [[nodiscard]] std::optional<Better> after_trial(int64_t now_ns);
  void end_trial();
  [[nodiscard]] Shared for_first_time(double rate, double had, int64_t now_ns) const;
  [[nodiscard]] std::optional<Better> share(Shared as);

  const Options options_;
  std::vector<Share> shares_;  // in use, or lost; none: there have been none
  bool own_ = false;
  std::vector<Path> suspects_;  // lost, or not reached, lately
  int64_t flows_since_ns_ = 0;
  int64_t home_since_ns_ = 0;  // whatever else carries messages besides
  int64_t away_since_ns_ = 0;  // 0: it is not
  int64_t probe_at_ns_ = 0;
  int64_t probe_pause_ns_ = 0;  // 0: the own rail has never been lost
  int64_t widen_at_ns_ = 0;     // what could not be had is not tried before
  RailRate rate_;
  int64_t rate_looked_ns_ = 0;
  RailSuspicion suspicion_;
  size_t comparisons_ = 0;
  bool decided_ = false;       // what this comparison says
  bool for_baseline_ = false;  // that is why another rail is compared
  bool suspected_ = false;     // that is why the own rail's messages are shared
  bool shares_anew_ = false;   // as before, once the own rail has all of them
  Shared shared_{};            // in use, or last
  Shared proposed_{};          // last; of all that this end shares
  int64_t back_since_ns_ = 0;
};

}  // namespace ho::tcp
