// What ranks must have in common before NCCL is used.
#include "collectives/nccl_ranks.hpp"

#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace paro {
namespace {

std::vector<NcclRankFacts> three_ranks() {
  std::vector<NcclRankFacts> ranks(3);
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].rank = i;
    ranks[i].version = 22809;
    ranks[i].device = 100 + i;
    ranks[i].memory_bytes = uint64_t{80} << 30U;
    ranks[i].name = NcclRankFacts::pack("NVIDIA H100 80GB HBM3");
  }
  return ranks;
}

}  // namespace

TEST_CASE("ranks with the same facts may use NCCL") {
  CHECK(check_equal(three_ranks()).ok());
  CHECK(check_equal({}).ok());
}

TEST_CASE("a rank with another version, model or memory is named with the first one") {
  auto ranks = three_ranks();
  ranks[2].version = 23203;
  const ho::Status version = check_equal(ranks);
  CHECK(version.code() == ho::StatusCode::kMismatch);
  CHECK(has(version, "rank 2 has NCCL 2.32.3, and rank 0 has 2.28.9: install one version"));

  ranks = three_ranks();
  ranks[1].name = NcclRankFacts::pack("NVIDIA A100");
  const ho::Status model = check_equal(ranks);
  CHECK(model.code() == ho::StatusCode::kMismatch);
  CHECK(has(
      model,
      "rank 1 runs on NVIDIA A100 with 81920 MiB, and rank 0 runs on NVIDIA H100 80GB HBM3 with"));

  ranks = three_ranks();
  ranks[1].memory_bytes /= 2;
  CHECK(has(check_equal(ranks), "with 40960 MiB"));
}

TEST_CASE("two ranks with one GPU need a host of their own or NCCL's setting") {
  auto ranks = three_ranks();
  ranks[2].device = ranks[1].device;
  const ho::Status shared = check_equal(ranks);
  CHECK(shared.code() == ho::StatusCode::kInvalidArgument);
  CHECK(has(shared, "rank 1 and rank 2 have the same GPU"));
  CHECK(has(shared, "an NCCL_HOSTID of its own"));
  ranks[2].host = 7;
  CHECK(check_equal(ranks).ok());
  ranks[2].host = 0;
  ranks[2].shares_device = 1;
  CHECK(check_equal(ranks).ok());
}

TEST_CASE("a model of any length is packed and read within its bounds") {
  NcclRankFacts facts;
  facts.name = NcclRankFacts::pack("");
  CHECK(facts.model().empty());
  const std::string sixty_four(64, 'x');
  facts.name = NcclRankFacts::pack(sixty_four + "y");
  CHECK(facts.model() == sixty_four);
}

}  // namespace paro
