#include "comm/counted_exchange.hpp"

#include <algorithm>
#include <cstddef>

#include "catch.hpp"

namespace ho {
namespace {

constexpr uint64_t kMaxCount = 1000;

// What a rank of two passes.
struct Passed {
  std::vector<size_t> sends;
  std::vector<size_t> expects;
  DType dtype = DType::kFloat32;
  std::optional<Algorithm> wanted{};
};

CountRows rows_of(const Passed& passed) {
  CollectiveCall call;
  call.collective = Collective::kAllToAll;
  call.counts = passed.sends;
  call.recv_counts = passed.expects;
  call.dtype = passed.dtype;
  return {call, passed.wanted, 2};
}

// As every rank has them once they are gathered.
CountRows gathered(const std::vector<Passed>& ranks) {
  CountRows rows = rows_of(ranks[0]);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const CountRows other = rows_of(ranks[rank]);
    std::copy_n(other.mine(), other.row(), rows.all() + rank * rows.row());
  }
  return rows;
}

Status comparison(const std::vector<Passed>& ranks) {
  return gathered(ranks).compare(kMaxCount);
}

}  // namespace

TEST_CASE("rows that fit each other give a block for each pair of ranks") {
  const CountRows rows = gathered({{{1, 2}, {1, 3}}, {{3, 4}, {2, 4}}});
  REQUIRE(rows.compare(kMaxCount).ok());
  CHECK(rows.block_counts() == std::vector<uint64_t>{1, 2, 3, 4});
  CHECK(rows.sent(1, 0) == 3);
}

TEST_CASE("a pair of counts that differ is named with both ranks and what must be equal") {
  const Status status = comparison({{{1, 2}, {1, 3}}, {{3, 4}, {5, 4}}});
  CHECK(status.code() == StatusCode::kMismatch);
  CHECK(status.message() ==
        "rank 0 sends 2 elements to rank 1, which expects 5; send_counts[1] of rank 0 and "
        "recv_counts[0] of rank 1 must be equal");
}

TEST_CASE("counts that no call may have are refused as another process's fault") {
  const Status status = comparison({{{1, kMaxCount + 1}, {1, 3}}, {{3, 4}, {kMaxCount + 1, 4}}});
  CHECK(status.code() == StatusCode::kProtocol);
  CHECK(status.message() == "rank 0 sends 1001 elements to rank 1, beyond 64 TiB in all");
}

TEST_CASE("ranks that pass other types or want other algorithms are told which") {
  Passed first{{1, 2}, {1, 3}};
  Passed second{{3, 4}, {2, 4}};
  second.dtype = DType::kInt64;
  const Status types = comparison({first, second});
  CHECK(types.code() == StatusCode::kMismatch);
  CHECK(types.message() == "rank 0 passed float, rank 1 int64; pass the same type on all ranks");

  second.dtype = first.dtype;
  second.wanted = Algorithm::kDirect;
  const Status algorithms = comparison({first, second});
  CHECK(algorithms.code() == StatusCode::kMismatch);
  CHECK(algorithms.message() ==
        "rank 0 wants the algorithm auto, rank 1 direct; ask for the same on all ranks");
}

TEST_CASE("types and algorithms that this version has not are named by their numbers") {
  CountRows rows = gathered({{{1, 2}, {1, 3}}, {{3, 4}, {2, 4}}});
  rows.all()[rows.row()] += uint64_t{256} * 200;
  CHECK(rows.compare(kMaxCount).message() ==
        "rank 0 wants the algorithm auto, rank 1 algorithm 199; ask for the same on all ranks");
  rows.all()[rows.row()] = 255;
  CHECK(rows.compare(kMaxCount).message() ==
        "rank 0 passed float, rank 1 dtype 255; pass the same type on all ranks");
}

TEST_CASE(
    "the data's part has the sum of all counts, and the algorithm that it is small enough for") {
  PartToCome data;
  data.rows = std::make_shared<CountRows>(gathered({{{1, 2}, {1, 3}}, {{3, 4}, {2, 4}}}));
  data.call.collective = Collective::kAllToAll;
  data.call.dtype = DType::kFloat32;
  data.call.world_size = 2;
  data.input.collective = Collective::kAllToAll;
  data.most = kMaxCount;
  const auto direct = std::make_shared<const Schedule>();
  const auto ring = std::make_shared<const Schedule>();
  data.schedules = {{Algorithm::kDirect, direct}, {Algorithm::kHoRing, ring}};
  data.rules.direct_max_bytes = 20;  // half of the 40 bytes that move: one rank's
  const auto small = data.data_part();
  REQUIRE(small.ok());
  CHECK(small->call.count == 10);
  CHECK(small->call.block_counts.of(2) == 3);
  CHECK(small->schedule == direct);
  data.rules.direct_max_bytes = 19;
  const auto large = data.data_part();
  REQUIRE(large.ok());
  CHECK(large->schedule == ring);

  data.most = 3;
  CHECK(data.data_part().status().code() == StatusCode::kProtocol);
}

TEST_CASE("the rows are gathered under the deadline and label of the whole operation") {
  const auto rows = std::make_shared<CountRows>(rows_of({{1, 2}, {1, 3}}));
  CallOptions options;
  options.label = 9;
  options.timeout = std::chrono::milliseconds(70);
  options.algorithm = Algorithm::kRing;  // the data's
  const CollectiveCall call = rows_call(rows, options);
  CHECK(call.collective == Collective::kAllGather);
  CHECK(call.count == 5);
  CHECK(call.dtype == DType::kUint64);
  CHECK(call.options.label == 9);
  CHECK(call.options.timeout == std::chrono::milliseconds(70));
  CHECK_FALSE(call.options.algorithm.has_value());
}

TEST_CASE("counts of all pairs of ranks are refused among too many of them") {
  CHECK(check_counted_world(4096).ok());
  CHECK(check_counted_world(4097).code() == StatusCode::kUnsupported);
}

}  // namespace ho
