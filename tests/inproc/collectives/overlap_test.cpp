// Operations of all kinds under way at once on one communicator, and what their reports say.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cases.hpp"
#include "catch.hpp"
#include "group/group_map.hpp"
#include "horing.h"
#include "job.hpp"
#include "plan/traffic.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr int32_t kRoot = 1;

// What rank `from` has for rank `to` in the buffer of operation `salt`.
int32_t element(int32_t salt, int32_t from, int32_t to) {
  return 1'000'000 * salt + 1000 * from + to;
}

// One block of `count` equal elements for each rank.
std::vector<int32_t> blocks_of(int32_t salt, int32_t from, int32_t world, size_t count) {
  std::vector<int32_t> data;
  for (int32_t to = 0; to < world; ++to) {
    data.insert(data.end(), count, element(salt, from, to));
  }
  return data;
}

std::vector<int32_t> blocks_for(int32_t salt, int32_t to, int32_t world, size_t count) {
  std::vector<int32_t> data;
  for (int32_t from = 0; from < world; ++from) {
    data.insert(data.end(), count, element(salt, from, to));
  }
  return data;
}

// An operation under way: its buffers, and what it must bring.
struct UnderWay {
  std::string name;
  std::vector<int32_t> in;
  std::vector<int32_t> out;
  std::vector<int32_t> want;
  ho_request* request = nullptr;
};

class Everything {
 public:
  Everything(ho_comm* comm, size_t count)
      : comm_(comm),
        count_(count),
        counts_(static_cast<size_t>(ho_comm_world_size(comm)), count),
        self_(ho_comm_rank(comm)),
        world_(ho_comm_world_size(comm)) {}

  // Begins each kind once; `round` tells their data apart.
  void begin(int32_t round) {
    begin_moves(10 * round);
    begin_sums(10 * round + 5);
    begin_message(10 * round + 8);
  }

  // The last first: none may need that an earlier one is waited for.
  void end() {
    for (auto each = operations_.rbegin(); each != operations_.rend(); ++each) {
      must(ho_request_wait((*each)->request, 0));
      expect((*each)->out == (*each)->want, (*each)->name.c_str());
    }
    operations_.clear();
  }

 private:
  UnderWay& add(const char* name, std::vector<int32_t> in, std::vector<int32_t> want) {
    operations_.push_back(std::make_unique<UnderWay>());
    UnderWay& made = *operations_.back();
    made.name = std::string(name) + " among others";
    made.in = std::move(in);
    made.out.assign(want.size(), -1);
    made.want = std::move(want);
    return made;
  }

  void begin_moves(int32_t salt) {
    const bool root = self_ == kRoot;
    const auto nothing = std::vector<int32_t>();
    UnderWay& all = add("all_to_all",
                        blocks_of(salt, self_, world_, count_),
                        blocks_for(salt, self_, world_, count_));
    must(ho_all_to_all(
        comm_, all.in.data(), all.out.data(), count_, HO_INT32, nullptr, nullptr, &all.request));
    UnderWay& counted = add("all_to_all_counts",
                            blocks_of(salt + 1, self_, world_, count_),
                            blocks_for(salt + 1, self_, world_, count_));
    must(ho_all_to_all_counts(comm_,
                              counted.in.data(),
                              counts_.data(),
                              counted.out.data(),
                              counts_.data(),
                              HO_INT32,
                              nullptr,
                              nullptr,
                              &counted.request));
    UnderWay& gather = add("gather",
                           std::vector<int32_t>(count_, element(salt + 2, self_, kRoot)),
                           root ? blocks_for(salt + 2, kRoot, world_, count_) : nothing);
    must(ho_gather(comm_,
                   gather.in.data(),
                   gather.out.data(),
                   count_,
                   HO_INT32,
                   kRoot,
                   nullptr,
                   nullptr,
                   &gather.request));
    UnderWay& scatter = add("scatter",
                            root ? blocks_of(salt + 3, kRoot, world_, count_) : nothing,
                            std::vector<int32_t>(count_, element(salt + 3, kRoot, self_)));
    must(ho_scatter(comm_,
                    scatter.in.data(),
                    scatter.out.data(),
                    count_,
                    HO_INT32,
                    kRoot,
                    nullptr,
                    nullptr,
                    &scatter.request));
    UnderWay& nothing_to_do = add("gather of nothing", nothing, nothing);
    must(ho_gather(
        comm_, nullptr, nullptr, 0, HO_INT32, kRoot, nullptr, nullptr, &nothing_to_do.request));
  }

  void begin_sums(int32_t salt) {
    int32_t sum = 0;
    for (int32_t from = 0; from < world_; ++from) {
      sum += element(salt, from, 0);
    }
    const std::vector<int32_t> sums(count_, sum);
    const std::vector<int32_t> mine(count_, element(salt, self_, 0));
    UnderWay& reduce = add("reduce", mine, self_ == kRoot ? sums : std::vector<int32_t>());
    must(ho_reduce(comm_,
                   reduce.in.data(),
                   reduce.out.data(),
                   count_,
                   HO_INT32,
                   HO_SUM,
                   kRoot,
                   nullptr,
                   nullptr,
                   &reduce.request));
    UnderWay& barrier = add("barrier", {}, {});
    must(ho_barrier(comm_, nullptr, &barrier.request));
    UnderWay& all = add("all_reduce", mine, sums);
    must(ho_all_reduce(comm_,
                       all.in.data(),
                       all.out.data(),
                       count_,
                       HO_INT32,
                       HO_SUM,
                       nullptr,
                       nullptr,
                       &all.request));
    int32_t own = 0;
    for (int32_t from = 0; from < world_; ++from) {
      own += element(salt + 1, from, self_);
    }
    UnderWay& scattered = add("reduce_scatter",
                              blocks_of(salt + 1, self_, world_, count_),
                              std::vector<int32_t>(count_, own));
    must(ho_reduce_scatter(comm_,
                           scattered.in.data(),
                           scattered.out.data(),
                           count_,
                           HO_INT32,
                           HO_SUM,
                           nullptr,
                           nullptr,
                           &scattered.request));
    UnderWay& gathered = add("all_gather", mine, blocks_for(salt, 0, world_, count_));
    must(ho_all_gather(comm_,
                       gathered.in.data(),
                       gathered.out.data(),
                       count_,
                       HO_INT32,
                       nullptr,
                       nullptr,
                       &gathered.request));
  }

  void begin_message(int32_t salt) {
    const int32_t next = (self_ + 1) % world_;
    const int32_t before = (self_ + world_ - 1) % world_;
    UnderWay& sent = add("send", std::vector<int32_t>(count_, element(salt, self_, next)), {});
    must(ho_send(comm_, sent.in.data(), count_, HO_INT32, next, salt, nullptr, &sent.request));
    UnderWay& got = add("recv", {}, std::vector<int32_t>(count_, element(salt, before, self_)));
    must(ho_recv(
        comm_, got.out.data(), count_, HO_INT32, before, salt, nullptr, nullptr, &got.request));
  }

  ho_comm* comm_;
  size_t count_;
  std::vector<size_t> counts_;
  int32_t self_;
  int32_t world_;
  std::vector<std::unique_ptr<UnderWay>> operations_;
};

// What this rank sends and receives by the plan, in bytes.
struct PlanBytes {
  Flow intra;
  Flow inter;
};

PlanBytes plan_bytes(const Case& c, const GroupMap& map, size_t rank) {
  // On loopback all rails have one address, and so one ring.
  const PlanRequest request{c.collective, *c.algorithm, 1, GlobalRank(uint32_t{kRoot})};
  const WholePlan whole = build_whole_plan(map, request).value();
  const Traffic traffic = measure_traffic(whole, map);
  const bool in_blocks = c.collective == Collective::kReduce;
  const uint64_t block = (in_blocks ? c.count / whole.plan.block_count : c.count) * sizeof(float);
  const uint64_t unit = block / traffic.block;
  expect(unit * traffic.block == block, "a block is a whole number of units");
  const auto bytes = [unit](const Flow& flow) { return Flow{flow.out * unit, flow.in * unit}; };
  return {bytes(traffic.intra.at(rank)), bytes(traffic.inter.at(rank))};
}

ho_op_report report_of(ho_comm* comm,
                       const Case& c,
                       std::vector<float>& in,
                       std::vector<float>& out) {
  ho_op_report report = HO_OP_REPORT_INIT;
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.algorithm = static_cast<ho_algorithm>(*c.algorithm);
  const size_t n = c.count;
  switch (c.collective) {
    case Collective::kAllToAll:
      must(ho_all_to_all(comm, in.data(), out.data(), n, HO_FLOAT32, &options, &report, nullptr));
      break;
    case Collective::kGather:
      must(
          ho_gather(comm, in.data(), out.data(), n, HO_FLOAT32, kRoot, &options, &report, nullptr));
      break;
    case Collective::kScatter:
      must(ho_scatter(
          comm, in.data(), out.data(), n, HO_FLOAT32, kRoot, &options, &report, nullptr));
      break;
    default:
      must(ho_reduce(
          comm, in.data(), out.data(), n, HO_FLOAT32, HO_SUM, kRoot, &options, &report, nullptr));
  }
  return report;
}

}  // namespace

TEST_CASE("operations of all kinds and messages are under way at once and do not mix") {
  for (const char* groups : {"2x2", "1x3", "3x1", "1+3"}) {
    require_job({groups}, [](ho_comm* comm) {
      for (const size_t count : {size_t{3}, size_t{40'000}}) {
        Everything everything(comm, count);
        for (const int32_t round : {1, 2, 3}) {
          everything.begin(round);
        }
        everything.end();
      }
    });
  }
}

TEST_CASE("reports of all_to_all, gather, scatter and reduce have the plan's bytes") {
  for (const char* groups : {"2x2", "2+4", "1x3", "3x1"}) {
    require_job({groups}, [groups](ho_comm* comm) {
      const GroupMap map = GroupMap::parse(groups).value();
      const auto rank = static_cast<size_t>(ho_comm_rank(comm));
      // All fractions of a block that plans of these shapes have are whole numbers of elements.
      constexpr uint64_t kCount = 5040;
      std::vector<float> in(kCount * map.world_size(), 1);
      std::vector<float> out(in.size());
      for (const Collective collective : {Collective::kAllToAll,
                                          Collective::kGather,
                                          Collective::kScatter,
                                          Collective::kReduce}) {
        for (const Algorithm algorithm : kAlgorithms) {
          Case c{collective, algorithm};
          c.count = kCount;
          const ho_op_report report = report_of(comm, c, in, out);
          const PlanBytes plan = plan_bytes(c, map, rank);
          const auto same = [&](const char* what, uint64_t reported, uint64_t planned) {
            expect(reported == planned, (c.name() + " on " + groups + ": " + what).c_str());
          };
          same("sent inside", report.intra_sent_bytes, plan.intra.out);
          same("received inside", report.intra_received_bytes, plan.intra.in);
          same("sent between", report.inter_sent_bytes, plan.inter.out);
          same("received between", report.inter_received_bytes, plan.inter.in);
        }
      }
    });
  }
}
