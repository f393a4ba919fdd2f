// A rank that receives a chunk and passes it on, in pieces.
#include "exec/piece_progress.hpp"

#include <memory>
#include <utility>

#include "catch.hpp"
#include "silent_link.hpp"

using namespace ho;

namespace {

constexpr uint32_t kRecv = 0;
constexpr uint32_t kSend = 1;
constexpr uint32_t kPieces = 3;

PlanOp op_of(OpKind kind, uint16_t phase) {
  PlanOp op;
  op.kind = kind;
  op.peer = GlobalRank(kind == OpKind::kRecv ? 1 : 2);
  op.phase = phase;
  op.chunks = {ChunkIndex(0)};
  return op;
}

struct PassedOn {
  test::SilentLink link;
  std::shared_ptr<const Schedule> schedule;
  std::unique_ptr<Binding> binding;
  std::unique_ptr<PieceProgress> progress;

  // A barrier between phases, or the dependency of a piece on its own bytes.
  explicit PassedOn(bool barrier, bool through_scratch = false) {
    BuiltPlan built;
    built.plan.collective = Collective::kBroadcast;
    built.plan.block_count = 1;
    built.plan.chunks = {Chunk{}};
    built.plan.phase_barrier = barrier;
    built.mine.ops = {op_of(OpKind::kRecv, 0), op_of(OpKind::kSend, 1)};
    if (!barrier) {
      built.mine.ops[kSend].deps = {kRecv};
    }
    if (through_scratch) {
      built.mine.ops[kRecv].dst = Space::kScratch;
      built.mine.ops[kSend].src = Space::kScratch;
      built.plan.scratch_chunk_count = 1;
    }
    schedule = *make_schedule(
        std::move(built),
        [&](GlobalRank /*peer*/, Lane /*lane*/, RailIndex /*rail*/) -> Result<Link*> {
          return &link;
        });
    Call call;
    call.collective = Collective::kBroadcast;
    call.dtype = DType::kUint8;
    call.count = size_t{kPieces} * 1024;
    call.block_counts = BlockCounts(call.count);
    call.world_size = 3;
    BindingLimits limits;
    limits.piece_bytes = 1024;
    limits.scratch_bytes = through_scratch ? 1024 : limits.scratch_bytes;
    binding = std::make_unique<Binding>(schedule->built.plan, schedule->built.mine, call, limits);
    REQUIRE(binding->op_pieces(schedule->op(kRecv)) == kPieces);
    progress = std::make_unique<PieceProgress>(*schedule, *binding);
  }
};

}  // namespace

TEST_CASE("a piece may move when the pieces that it depends on are through, and no sooner") {
  const PassedOn rank(false);
  PieceProgress& progress = *rank.progress;
  CHECK(progress.total() == 2 * kPieces);
  CHECK(progress.ready(kRecv, 0));
  CHECK(progress.ready(kRecv, 2));  // it is the cursor that keeps the order
  CHECK_FALSE(progress.ready(kSend, 0));
  progress.add(kRecv);
  CHECK(progress.ready(kSend, 0));
  CHECK_FALSE(progress.ready(kSend, 1));
  progress.add(kSend);
  CHECK(progress.done() == 2);
}

TEST_CASE("scratch is written anew once what was there in the pass before has been read") {
  const PassedOn rank(false, true);
  PieceProgress& progress = *rank.progress;
  REQUIRE(rank.binding->pass_pieces() == 1);
  progress.add(kRecv);
  CHECK_FALSE(progress.ready(kRecv, 1));
  CHECK(progress.blockers_of(kRecv, 1).releases);
  progress.add(kSend);
  CHECK(progress.ready(kRecv, 1));
}

TEST_CASE("what a piece waits for is said: a message inside the group, or a barrier alone") {
  const PassedOn chained(false);
  const auto blockers = chained.progress->blockers_of(kSend, 0);
  CHECK(blockers.ops == std::vector<uint32_t>{kRecv});
  CHECK(blockers.intra_messages == 1);
  CHECK_FALSE(blockers.network);
  CHECK_FALSE(blockers.releases);
  CHECK(PassedOn(true).progress->blockers_of(kSend, 0).ops.empty());
}

TEST_CASE("with phase barriers nothing of a phase moves before all of the one before is through") {
  const PassedOn rank(true);
  PieceProgress& progress = *rank.progress;
  for (uint32_t piece = 0; piece < kPieces; ++piece) {
    CHECK_FALSE(progress.ready(kSend, 0));
    CHECK(progress.ready(kRecv, piece));
    progress.add(kRecv);
  }
  CHECK(progress.ready(kSend, 0));
  CHECK(progress.ready(kSend, kPieces - 1));
}
