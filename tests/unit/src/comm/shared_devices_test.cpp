#include "comm/shared_devices.hpp"

#include "catch.hpp"

namespace ho {
namespace {

RankInfo rank_on(const std::string& host, std::optional<RankDevice> device) {
  RankInfo info;
  info.host_id = "id of " + host;
  info.host_name = host;
  info.device = std::move(device);
  return info;
}

const RankDevice kFirst{"GPU-1", "0000:3b:00.0"};
const RankDevice kSecond{"GPU-2", "0000:5e:00.0"};

}  // namespace

TEST_CASE("ranks of one host on one GPU are named with what to do") {
  const std::vector<RankInfo> infos{
      rank_on("node0", kFirst), rank_on("node0", kSecond), rank_on("node0", kFirst)};
  const auto shared = shared_devices(infos);
  REQUIRE(shared.size() == 1);
  CHECK(shared[0].ranks == std::vector<uint32_t>{0, 2});
  CHECK(shared[0].warning ==
        "ranks 0, 2 share GPU 0000:3b:00.0 on node0: their copies and sums take turns; set "
        "LOCAL_RANK or CUDA_VISIBLE_DEVICES per rank");
}

TEST_CASE("each GPU that is shared has a warning of its own") {
  std::vector<RankInfo> infos;
  for (int rank = 0; rank < 6; ++rank) {
    infos.push_back(rank_on("node0", rank < 2 ? kSecond : kFirst));
  }
  const auto shared = shared_devices(infos);
  REQUIRE(shared.size() == 2);
  CHECK(shared[0].ranks == std::vector<uint32_t>{2, 3, 4, 5});
  CHECK(shared[0].warning.starts_with("ranks 2-5 share GPU 0000:3b:00.0"));
  CHECK(shared[1].ranks == std::vector<uint32_t>{0, 1});
}

TEST_CASE("slices, other hosts and ranks without a device share nothing") {
  RankDevice slice = kFirst;
  slice.uuid = "GPU-1-slice";
  CHECK(shared_devices(std::vector{rank_on("node0", kFirst),
                                   rank_on("node0", slice),
                                   rank_on("node1", kFirst),
                                   rank_on("node0", std::nullopt),
                                   rank_on("node0", std::nullopt)})
            .empty());
  CHECK(shared_devices({}).empty());
}

}  // namespace ho
