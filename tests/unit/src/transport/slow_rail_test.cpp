// PathChoice under whole jobs: which rails it takes for slow, and how soon.
#include <algorithm>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "transport/tcp/path_choice.hpp"

namespace ho::tcp {
namespace {

constexpr Path kHome{RailIndex(1U), RailIndex(1U)};

// A job that sends messages over the link of rail 1, one after the other, with pauses. A message
// takes two milliseconds and its bytes' time.
class JobOnLink {
 public:
  struct Phase {
    int messages = 0;
    double message_bytes = 0;
    double pause_seconds = 0;
  };
  JobOnLink() { flow({{kHome}}); }

  // Until the link's messages are shared, or for so long; the own rail has that part of its speed.
  // The seconds that it took; 0: they were not shared.
  double shared_within(double seconds, const std::vector<Phase>& phases, double own_part) {
    const double from = now_;
    shared_ = false;
    while (now_ < from + seconds) {
      for (const Phase& phase : phases) {
        for (int i = 0; i < phase.messages && !shared_; ++i) {
          pass(0.002 + phase.message_bytes / (25e6 * (other_ ? 1 : own_part)), 1);
          look_.connection.acknowledged_bytes += static_cast<uint64_t>(phase.message_bytes);
          look_.written_bytes = look_.connection.acknowledged_bytes;
          ++look_.messages;
        }
        pass(phase.pause_seconds, 0);
        if (shared_) {
          return now_ - from;
        }
      }
    }
    return 0;
  }

 private:
  void flow(std::vector<Share> shares) {
    other_ = shares.back().weight == 0;
    shared_ = shares.size() > 2;
    choice_.on_flows(std::move(shares), true, time_ns());
  }
  [[nodiscard]] int64_t time_ns() const { return static_cast<int64_t>(now_ * 1e9); }
  // Time, for a part of which something is on its way.
  void pass(double seconds, double busy) {
    while (seconds > 0 && !shared_) {
      const double step = std::min(seconds, next_look_ - now_);
      now_ += step;
      seconds -= step;
      busy_seconds_ += step * busy;
      if (now_ >= next_look_ - 1e-9) {
        next_look_ += 0.25;
        look();
      }
    }
  }
  void look() {
    look_.time_ns = time_ns();
    look_.busy_us = static_cast<uint64_t>(busy_seconds_ * 1e6);
    choice_.look({.own = look_, .others = {look_}});
    if (auto better = choice_.better(time_ns())) {
      flow(std::move(better->shares));
    }
  }

  PathChoice choice_{{.home = kHome,
                      .opens = true,
                      .connections_per_link = 1,
                      .all = [] { return paths_from(RailIndex(1), 4, 4); },
                      .usable = [](const Path&) { return true; }}};
  double now_ = 1;
  double next_look_ = 1.25;
  double busy_seconds_ = 0;
  RailLook look_{};
  bool other_ = false;  // it carries the messages
  bool shared_ = false;
};

}  // namespace

TEST_CASE("messages whose size changes make no rail slow, whatever turns they take") {
  const int small = GENERATE(range(200, 700, 20));
  const int large = GENERATE(range(60, 220, 20));
  JobOnLink job;
  CHECK(job.shared_within(600, {{small, 16384, 0}, {large, 65536, 0}}, 1) == 0);
}

TEST_CASE("a slow rail is found with messages of several sizes, and where it was always slow") {
  const bool always = GENERATE(true, false);
  const JobOnLink::Phase large = GENERATE(JobOnLink::Phase{60, 65536, 0},
                                          JobOnLink::Phase{60, 65536, 0.02},
                                          JobOnLink::Phase{100, 65536, 0},
                                          JobOnLink::Phase{300, 65536, 0});
  const JobOnLink::Phase small = GENERATE(JobOnLink::Phase{145, 16384, 0},
                                          JobOnLink::Phase{145, 32768, 0.01},
                                          JobOnLink::Phase{160, 16384, 0},
                                          JobOnLink::Phase{900, 8192, 0});
  JobOnLink job;
  CHECK(job.shared_within(always ? 0 : 60, {large, small}, 1) == 0);
  const double seconds = job.shared_within(300, {large, small}, 0.25);
  CHECK(seconds > 0);
  CHECK(seconds < 60);
}

TEST_CASE("a slow rail is found again after comparisons in which the job paused") {
  JobOnLink job;
  CHECK(job.shared_within(20, {{200, 65536, 0.1}}, 1) == 0);
  // A burst raises the suspicion, and then comes a long pause.
  CHECK(job.shared_within(8, {{100, 65536, 6}}, 0.25) == 0);
  const double seconds = job.shared_within(300, {{200, 65536, 0.1}}, 0.25);
  CHECK(seconds > 0);
  CHECK(seconds < 40);
}

TEST_CASE("the slower a rail, the less the job must use it, however long it has been well") {
  const double part = GENERATE(0.25, 0.1, 0.03, 0.01);
  const double pause = part > 0.1 ? 0.4 : 1.5;
  JobOnLink job;
  CHECK(job.shared_within(3600, {{20, 65536, pause}}, 1) == 0);
  const double seconds = job.shared_within(600, {{20, 65536, pause}}, part);
  CHECK(seconds > 0);
  CHECK(seconds < 20);
}

}  // namespace ho::tcp
