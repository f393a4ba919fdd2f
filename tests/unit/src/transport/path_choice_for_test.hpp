// A link's choice of paths, with its clock and what its rails do.
#pragma once

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "transport/tcp/path_choice.hpp"

namespace ho::tcp {

inline constexpr int64_t kMsNs = 1'000'000;

inline Path equal(uint32_t rail) {
  return {RailIndex(rail), RailIndex(rail)};
}

// Of a link of rail 1, between hosts with four rails.
class Choice {
 public:
  explicit Choice(uint32_t connections = 1, bool opens = true)
      : choice_({.home = equal(1),
                 .opens = opens,
                 .connections_per_link = connections,
                 .all = [] { return paths_from(RailIndex(1), 4, 4); },
                 .usable = [this](const Path& path) { return path != down_; }}) {}

  PathChoice& operator*() { return choice_; }
  PathChoice* operator->() { return &choice_; }
  void flows_over(const std::vector<Path>& paths) {
    choice_.on_flows(choice_.over(paths), true, now_);
  }
  // The paths that it proposes, by their rail.
  std::vector<uint32_t> better() {
    const auto better = choice_.better(now_);
    std::vector<uint32_t> rails;
    for (const Path& path : paths_of(better ? better->shares : std::vector<Share>())) {
      REQUIRE(path.own == path.peer);
      rails.push_back(path.own.value());
    }
    return rails;
  }
  void wait_ms(int64_t ms) { now_ += ms * kMsNs; }
  [[nodiscard]] int64_t now() const { return now_; }
  void take_down(uint32_t rail) { down_ = equal(rail); }
  // The own rail for so many samples, at that rate.
  void run(int samples, double bytes_per_second, uint32_t ms = 250) {
    for (int i = 0; i < samples; ++i) {
      wait_ms(ms);
      look_.time_ns = now_;
      look_.connection.acknowledged_bytes += static_cast<uint64_t>(bytes_per_second * ms / 1000);
      look_.connection.busy_us += uint64_t{ms} * 1000;
      look_.busy_us += uint64_t{ms} * 1000;
      look_.connection.unsent_bytes = 1;
      choice_.look({.own = look_});
    }
  }
  // Messages with pauses, so that the kernel has nothing queued: over the own rail, or, while that
  // is compared with another one, over that.
  void run_with_pauses(int samples, double bytes_per_second) {
    look_.connection.unsent_bytes = 0;
    for (int i = 0; i < samples; ++i) {
      wait_ms(250);
      look_.time_ns = now_;
      look_.connection.acknowledged_bytes += static_cast<uint64_t>(bytes_per_second / 10);
      look_.connection.busy_us += 100'000;
      look_.busy_us += 100'000;
      look_.written_bytes = look_.connection.acknowledged_bytes;
      look_.messages = look_.written_bytes / 65536;
      choice_.look({.own = look_, .others = {look_}});
    }
  }
  // The own rail seems slow, and another one is tried, which has that rate.
  void compare(double own, double other, int samples = 6) {
    run_with_pauses(samples, own);
    REQUIRE(better().size() == 2);
    const auto tried = *choice_.better(now_);
    CHECK(tried.shares.back().weight == 0);
    CHECK_FALSE(tried.news);
    choice_.on_flows(tried.shares, true, now_);
    CHECK(choice_.watches_home());
    CHECK(better().empty());
    run_with_pauses(3, other);
  }
  // It falls to a quarter, and the others help.
  std::vector<Share> share_slow_rail() {
    flows_over({equal(1)});
    run(6, 25e6);
    run(4, 6.25e6);
    std::vector<Share> shares = choice_.better(now_)->shares;
    choice_.on_flows(shares, true, now_);
    return shares;
  }
  // More messages first, then all: it is well.
  void gets_back(double bytes_per_second) {
    const auto more = choice_.better(now_);
    REQUIRE(more);
    CHECK(paths_of(more->shares).size() > 1);
    CHECK_FALSE(more->news);
    choice_.on_flows(more->shares, true, now_);
    run(4, bytes_per_second);
    CHECK(better().empty());
    run(1, bytes_per_second);
    const auto all = choice_.better(now_);
    REQUIRE(all);
    CHECK(paths_of(all->shares) == std::vector<Path>{equal(1)});
    CHECK(all->news);
  }
  // All messages go back, without a word, whatever was found.
  void go_back() {
    const auto back = choice_.better(now_);
    REQUIRE(back);
    CHECK(back->shares == std::vector<Share>{{equal(1)}});
    CHECK_FALSE(back->news);
    choice_.on_flows(back->shares, true, now_);
  }
  using Rails = std::vector<uint32_t>;

 private:
  PathChoice choice_;
  Path down_{RailIndex(9), RailIndex(9)};
  int64_t now_ = 1000 * kMsNs;
  RailLook look_{};
};

using Rails = Choice::Rails;

}  // namespace ho::tcp
