#include "comm/call_shape.hpp"

#include <array>
#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

constexpr uint32_t kWorld = 4;
const CallShape kShape(GlobalRank(1), kWorld, 2);

struct Buffers {
  std::array<float, 64> send{};
  std::array<float, 64> recv{};
};

CollectiveCall call_of(Collective collective, Buffers& buffers, size_t count) {
  CollectiveCall call;
  call.collective = collective;
  call.send = buffers.send.data();
  call.recv = buffers.recv.data();
  call.count = count;
  return call;
}

std::string refusal_text(const Status& status, StatusCode code) {
  CHECK(status.code() == code);
  return status.message();
}

}  // namespace

TEST_CASE("the buffers of each collective hold what this rank gives and gets, in bytes") {
  Buffers buffers;
  const auto use = [&](Collective collective, uint32_t root) {
    CollectiveCall call = call_of(collective, buffers, 3);
    call.root = GlobalRank(root);
    const BufferUse found = kShape.buffer_use(call);
    return std::vector<uint64_t>{found.send, found.recv, found.into_send, found.into_recv};
  };
  using Uses = std::vector<uint64_t>;
  CHECK(use(Collective::kAllGather, 0) == Uses{12, 48, 0, 12});
  CHECK(use(Collective::kReduceScatter, 0) == Uses{48, 12, 12, 0});
  CHECK(use(Collective::kAllReduce, 0) == Uses{12, 12, 0, 0});
  CHECK(use(Collective::kBroadcast, 0) == Uses{0, 12, 0, 0});
  CHECK(use(Collective::kBroadcast, 1) == Uses{12, 12, 0, 0});
  CHECK(use(Collective::kAllToAll, 0) == Uses{48, 48, 0, 0});
  CHECK(use(Collective::kGather, 0) == Uses{12, 0, 0, 12});
  CHECK(use(Collective::kGather, 1) == Uses{12, 48, 0, 12});
  CHECK(use(Collective::kScatter, 0) == Uses{0, 12, 12, 0});
  CHECK(use(Collective::kScatter, 1) == Uses{48, 12, 12, 0});
  CHECK(use(Collective::kReduce, 0) == Uses{12, 0, 0, 0});
  CHECK(use(Collective::kReduce, 1) == Uses{12, 12, 0, 0});
}

TEST_CASE("counts per rank replace the count of each block") {
  Buffers buffers;
  const std::vector<size_t> counts{1, 5, 0, 2};
  CollectiveCall call = call_of(Collective::kAllGather, buffers, 0);
  call.counts = counts;
  CHECK(kShape.total_count(call) == 8);
  const BufferUse use = kShape.buffer_use(call);
  CHECK(use.send == 20);
  CHECK(use.recv == 32);
  CHECK(use.into_recv == 4);

  const std::vector<size_t> expected{3, 3, 3, 3};
  call.collective = Collective::kAllToAll;
  call.recv_counts = expected;
  CHECK(kShape.buffer_use(call).send == 32);
  CHECK(kShape.buffer_use(call).recv == 48);
}

TEST_CASE(
    "counts for another number of ranks, counts beyond 64 TiB and strange roots are refused") {
  Buffers buffers;
  const std::vector<size_t> counts{1, 5, 0};
  CollectiveCall call = call_of(Collective::kAllGather, buffers, 0);
  call.counts = counts;
  CHECK(refusal_text(kShape.check(call), StatusCode::kInvalidArgument) ==
        "all_gather: 3 counts for 4 ranks");

  call = call_of(Collective::kAllGather, buffers, static_cast<size_t>(-1));
  CHECK(refusal_text(kShape.check(call), StatusCode::kInvalidArgument) ==
        "all_gather: a count beyond 64 TiB in all; is it negative?");
  call.count = kShape.most_per_rank(DType::kFloat32) + 1;
  CHECK_FALSE(kShape.check(call).ok());

  call = call_of(Collective::kBroadcast, buffers, 1);
  call.root = GlobalRank(4);
  CHECK(refusal_text(kShape.check(call), StatusCode::kInvalidArgument) ==
        "broadcast: root 4 of 4 ranks");
}

TEST_CASE("null buffers are refused where elements move through them, and only there") {
  Buffers buffers;
  CollectiveCall call = call_of(Collective::kGather, buffers, 2);
  call.recv = nullptr;
  CHECK(kShape.check(call).ok());  // this rank is not the root
  call.root = GlobalRank(1);
  CHECK(refusal_text(kShape.check(call), StatusCode::kInvalidArgument) ==
        "gather: a null buffer with elements to move");
  call.count = 0;
  CHECK(kShape.check(call).ok());
}

TEST_CASE("buffers may overlap in place, and nowhere else") {
  Buffers buffers;
  CollectiveCall call = call_of(Collective::kAllGather, buffers, 4);
  call.send = buffers.recv.data() + 4;  // where this rank's block will be
  CHECK(kShape.check(call).ok());
  call.send = buffers.recv.data() + 5;
  CHECK(kShape.check(call).message().starts_with("all_gather: send and receive buffers overlap"));
  call.send = buffers.recv.data() + 16;  // right behind
  CHECK(kShape.check(call).ok());

  call = call_of(Collective::kAllToAll, buffers, 4);
  call.send = call.recv;
  CHECK_FALSE(kShape.check(call).ok());
}

TEST_CASE("reductions that a type has not, and fp32 sums of other types, are refused by name") {
  Buffers buffers;
  CollectiveCall call = call_of(Collective::kAllReduce, buffers, 4);
  call.dtype = DType::kInt16;
  CHECK(refusal_text(kShape.check(call), StatusCode::kUnsupported)
            .starts_with("all_reduce: no sum of int16"));
  call.dtype = DType::kFloat32;
  call.options.fp32_sums = true;
  CHECK(refusal_text(kShape.check(call), StatusCode::kUnsupported) ==
        "all_reduce: fp32_sums is for sum, avg and premul_sum of half and bfloat16");
  call.dtype = DType::kBfloat16;
  CHECK(kShape.check(call).ok());
}

TEST_CASE("a send to a rank that does not exist, or without a buffer, is refused") {
  Transfer transfer;
  transfer.sends = true;
  transfer.peer = GlobalRank(4);
  CHECK(refusal_text(kShape.check(transfer), StatusCode::kInvalidArgument)
            .ends_with(": there are 4 ranks"));
  transfer.peer = GlobalRank(3);
  CHECK(kShape.check(transfer).ok());
  transfer.count = 1;
  CHECK(refusal_text(kShape.check(transfer), StatusCode::kInvalidArgument)
            .ends_with(": a null buffer, or a count beyond 64 TiB; is it negative?"));
  const std::byte byte{};
  transfer.data = &byte;
  CHECK(kShape.check(transfer).ok());
  transfer.count = (uint64_t{1} << 46) + 1;
  CHECK_FALSE(kShape.check(transfer).ok());
}

TEST_CASE(
    "an algorithm is chosen by the whole data, in an all-to-all by what goes between groups") {
  Buffers buffers;
  CollectiveCall call = call_of(Collective::kAllGather, buffers, 3);
  const SelectionInput whole = kShape.selection_input(call);
  CHECK(whole.total_bytes == 48);
  CHECK(whole.message_bytes == 48);
  call.collective = Collective::kAllToAll;
  call.options.algorithm = Algorithm::kDirect;
  const SelectionInput routed = kShape.selection_input(call);
  CHECK(routed.total_bytes == 48);
  CHECK(routed.message_bytes == 12 * 2 * 2);
  CHECK(routed.requested == Algorithm::kDirect);
}

}  // namespace ho
