// Links whose rail seems slow in a job with pauses: another rail carries their messages for a
// while, and may be lost meanwhile.
#include <algorithm>
#include <random>

#include "catch.hpp"
#include "conformance.hpp"
#include "cut_ranks.hpp"
#include "has.hpp"

namespace ho::conformance {

using namespace cut;

namespace {

const std::string kOwn = "tcp 127.0.0.1 -> 127.0.0.1, connected";
const std::string kCompared =
    "127.0.0.2 -> 127.0.0.2 with 100 % and 127.0.0.1 -> 127.0.0.1 with 0 %";

// The kernel has nothing queued, and each rail has the rate that the test gives it meanwhile.
class Job {
 public:
  explicit Job(const Relay::Script& script) : ranks_(setting(), script) {}

  [[nodiscard]] Ranks& ranks() { return ranks_; }
  // Both ends say that of their link.
  [[nodiscard]] bool both(const std::string& text) const {
    return has(ranks_.link(0).to_string(), text) && has(ranks_.link(1).to_string(), text);
  }
  // Over a rail that is neither its own nor the one that is compared.
  [[nodiscard]] bool goes_elsewhere() const {
    const std::string both_links = ranks_.link(0).to_string() + ranks_.link(1).to_string();
    return has(both_links, "127.0.0.3") || has(both_links, "127.0.0.4");
  }
  [[nodiscard]] uint64_t failovers() const {
    return ranks_.at(0).failovers() + ranks_.at(1).failovers();
  }
  void run_until(uint64_t bytes_per_us, const std::function<bool()>& reached) {
    for (const Deadline late = deadline_after(std::chrono::seconds(60)); !reached();) {
      INFO(ranks_.link(0).to_string() << "; " << ranks_.link(1).to_string());
      REQUIRE_FALSE(passed(late));
      // At most so much that no stage is over before it is seen.
      const uint64_t us =
          std::min<uint64_t>(static_cast<uint64_t>(now_ns() - last_ns_) / 1000, 10'000);
      last_ns_ = now_ns();
      progress_.busy_us += us;
      progress_.acknowledged_bytes += us * bytes_per_us;
      ranks_.progress(progress_);
      converse(ranks_, {8000, 5000, 7000, 0, 6000});
    }
  }
  void run_until(uint64_t bytes_per_us, const std::string& text) {
    run_until(bytes_per_us, [&] { return both(text); });
  }
  // For as long as it takes to see what is usual.
  void run_well() {
    run_until(1000, [&] { return progress_.busy_us > 1'000'000; });
    CHECK(both(kOwn));
  }

 private:
  [[nodiscard]] static Setting setting() {
    return {.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
            .silence = std::chrono::milliseconds(100)};
  }

  Ranks ranks_;
  TcpProgress progress_{};
  int64_t last_ns_ = now_ns();
};

TEST_CASE("failover: a rail that seems slow in a job with pauses is compared with another one") {
  const bool slow = GENERATE(true, false);
  Job job(uncut);
  job.run_well();
  job.run_until(250, kCompared);
  CHECK(job.ranks().link(0).rails() == 1);
  if (slow) {
    job.run_until(1000, kOwn);
    CHECK(job.failovers() == 0);
    job.run_until(250, "127.0.0.1 -> 127.0.0.1 with 31 % and 127.0.0.2 -> 127.0.0.2 with 23 %");
  }
  job.run_until(slow ? 1000 : 250, kOwn);
}

TEST_CASE("failover: a link goes on over its own rail when the compared one falls silent") {
  Job job(uncut);
  job.run_well();
  job.run_until(250, kCompared);
  job.ranks().silence({"127.0.0.2"});
  converse(job.ranks(), {8000, 100'000, 0, 300, 70'000});
  CHECK_FALSE(job.goes_elsewhere());
  job.ranks().drive_until([&] { return job.both(kOwn); });  // two attempts may have met
  for (int i = 0; i < 20; ++i) {
    converse(job.ranks(), {8, 20'000, 0});
    CHECK_FALSE(job.goes_elsewhere());
  }
}

TEST_CASE("failover: a link goes on over its own rail when the compared one is cut at any byte") {
  const auto seed = GENERATE(range(0U, 8U));
  INFO("seed " << seed);
  std::mt19937 random(seed);  // NOLINT: the same run every time
  bool cuts = false;
  size_t limited = 0;
  // More than its own rail's connection carries meanwhile, and less than what would be enough of
  // the other one's.
  Job job([&](size_t /*n*/) -> Relay::Cut {
    if (!cuts || limited == 2) {
      return {};
    }
    ++limited;
    const uint64_t at = 3'000 + random() % 100'000;
    const bool reset = seed % 2 == 0;
    return seed % 4 < 2 ? Relay::Cut{.to_listener = at, .reset = reset}
                        : Relay::Cut{.to_dialler = at, .reset = reset};
  });
  job.run_well();
  cuts = true;
  const Relay& relay = job.ranks().relay(1);
  CHECK(relay.connections() == 1);
  job.run_until(250, [&] { return relay.cuts() > 0; });
  CHECK(limited == 2);
  CHECK_FALSE(job.goes_elsewhere());
  job.run_until(250, kOwn);
  CHECK(relay.cuts() == 1);
  converse(job.ranks(), {8000, 100'000, 0, 300, 70'000});
}

}  // namespace
}  // namespace ho::conformance
