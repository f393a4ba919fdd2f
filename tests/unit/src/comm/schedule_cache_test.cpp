#include "comm/schedule_cache.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "exec/engine_owner.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"

namespace ho {
namespace {

// Gives one link for all keys, and keeps the requests.
class RequestedTransport : public test::SilentTransport {
 public:
  RequestedTransport(test::Journal& journal, Link& link, std::vector<LinkKey>& requested)
      : SilentTransport(journal, link), requested_(requested) {}
  Result<Link*> link(const LinkKey& key) override {
    requested_.push_back(key);
    return SilentTransport::link(key);
  }

 private:
  std::vector<LinkKey>& requested_;
};

// Nothing runs here, so nobody asks.
class IdleOwner final : public EngineOwner {
 public:
  void on_failure(const RunError& error) override { FAIL(error.status.message()); }
  void on_doubt(const MadeCall& /*call*/) override { FAIL("nothing is under way"); }
  [[nodiscard]] std::optional<RailIndex> rail_to(GlobalRank /*peer*/) const override { return {}; }
  [[nodiscard]] Result<NextPart> make_next_part(const PartToCome& /*part*/) override {
    return Status(StatusCode::kInternal, "nothing is under way");
  }
};

// Rank 1 of groups of such sizes, without a network.
struct Bench {
  static constexpr uint16_t kCommunicator = 7;

  test::Journal journal;
  test::SilentLink link;
  IdleOwner owner;
  std::vector<LinkKey> requested;
  Placement placement;
  CallDevice device{nullptr};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ScheduleCache> cache;

  // One host per group.
  explicit Bench(const std::string& groups) : placement{*GroupMap::parse(groups)} {
    for (uint32_t rank = 0; rank < placement.map.world_size(); ++rank) {
      const GroupIndex group = placement.map.group_of(GlobalRank(rank));
      placement.host_id.push_back("host" + std::to_string(group.value()));
    }
    placement.nic.resize(placement.map.world_size());
    auto made = Engine::create(
        {}, std::make_unique<RequestedTransport>(journal, link, requested), nullptr, owner);
    REQUIRE(made.ok());
    engine = *std::move(made);
    cache =
        std::make_unique<ScheduleCache>(placement, GlobalRank(1), kCommunicator, device, *engine);
  }

  [[nodiscard]] std::shared_ptr<const Schedule> made(Collective collective,
                                                     Algorithm algorithm,
                                                     uint32_t root = 0,
                                                     uint8_t channel = 0) {
    const auto schedule = cache->schedule_for(collective, algorithm, GlobalRank(root), channel);
    INFO(schedule.status().message());
    REQUIRE(schedule.ok());
    return *schedule;
  }
};

}  // namespace

TEST_CASE("a schedule is laid out by the first call of its kind, and kept") {
  Bench bench("3");
  const auto first = bench.made(Collective::kAllGather, Algorithm::kRing);
  const size_t links = bench.requested.size();
  CHECK(links > 0);
  for (const LinkKey& key : bench.requested) {
    CHECK(key.communicator == Bench::kCommunicator);
    CHECK(key.peer != GlobalRank(1));
  }
  CHECK(bench.made(Collective::kAllGather, Algorithm::kRing) == first);
  CHECK(bench.requested.size() == links);
}

TEST_CASE("collective, algorithm, channel and a root that counts have schedules of their own") {
  Bench bench("3");
  const std::vector schedules{bench.made(Collective::kAllGather, Algorithm::kRing),
                              bench.made(Collective::kAllReduce, Algorithm::kRing),
                              bench.made(Collective::kAllReduce, Algorithm::kDirect),
                              bench.made(Collective::kAllReduce, Algorithm::kDirect, 0, 2),
                              bench.made(Collective::kBroadcast, Algorithm::kRing, 0),
                              bench.made(Collective::kBroadcast, Algorithm::kRing, 2)};
  for (size_t i = 0; i < schedules.size(); ++i) {
    CHECK(std::count(schedules.begin(), schedules.end(), schedules[i]) == 1);
  }
  // An earlier one is still the same: none is ever dropped.
  CHECK(bench.made(Collective::kAllGather, Algorithm::kRing) == schedules[0]);
  // An all-reduce has no root.
  CHECK(bench.made(Collective::kAllReduce, Algorithm::kRing, 2) == schedules[1]);
}

TEST_CASE("the links of a schedule are those of its channel") {
  Bench bench("3");
  (void)bench.made(Collective::kAllReduce, Algorithm::kRing, 0, 2);
  REQUIRE_FALSE(bench.requested.empty());
  for (const LinkKey& key : bench.requested) {
    CHECK(key.channel == 2);
  }
}

TEST_CASE("a schedule that cannot be laid out is an error, and is not kept") {
  Bench bench("2x2");
  for (int call = 0; call < 2; ++call) {
    const Status refused =
        bench.cache->schedule_for(Collective::kAllGather, Algorithm::kRing, GlobalRank(0), 0)
            .status();
    CHECK(refused.code() == StatusCode::kInternal);
    CHECK(refused.message().find("no network for the link to rank ") == 0);
  }
}

}  // namespace ho
