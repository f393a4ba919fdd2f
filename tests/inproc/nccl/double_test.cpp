// The double of NCCL itself: each of its checks by a mistake that it must see.
#include "catch.hpp"
#include "has.hpp"
#include "on_nccl.hpp"

using namespace ho;
using namespace ho::test;

namespace {

// Communicators of two ranks, each on its device, made by one thread.
struct Pair {
  explicit Pair(nccl_double::Config config = {}, bool connect = false) {
    config.first_ones_connect = connect;
    reset_doubles(cuda_double::Mode::kEager, config, 2);
    for (int rank = 0; rank < 2; ++rank) {
      devices.push_back(must_have(device::Device::open(cuda_double::driver(), rank)));
      streams.push_back(must_have(device::Stream::create(*devices.back())));
      memory.push_back(must_have(device::DeviceMemory::create(*devices.back(), 64)));
    }
    nccl::UniqueId id{};
    REQUIRE(nccl_double::nccl().get_unique_id(&id) == nccl::kSuccess);
    for (size_t rank = 0; rank < 2; ++rank) {
      const auto current = on(rank);
      nccl::Config settings;
      settings.blocking = 0;
      CHECK(nccl_double::nccl().comm_init(&comms[rank], 2, id, static_cast<int>(rank), &settings) ==
            nccl::kInProgress);
    }
    CHECK(state(0) == nccl::kSuccess);
    CHECK(state(1) == nccl::kSuccess);
  }
  [[nodiscard]] device::CurrentContext on(size_t rank) const {
    return must_have(device::CurrentContext::enter(*devices[rank]));
  }
  [[nodiscard]] nccl::ResultCode state(size_t rank) const {
    const auto current = on(rank);
    nccl::ResultCode result = nccl::kInternalError;
    const auto polled = nccl_double::nccl().comm_async_error(comms[rank], &result);
    return polled == nccl::kSuccess ? result : polled;
  }
  nccl::ResultCode sum(size_t rank, size_t count = 4) const {
    const auto current = on(rank);
    return nccl_double::nccl().all_reduce(memory[rank].pointer(),
                                          memory[rank].pointer(),
                                          count,
                                          static_cast<int>(DType::kFloat32),
                                          nccl::kSum,
                                          comms[rank],
                                          streams[rank].handle());
  }
  void abort() const {
    for (const nccl::CommHandle comm : comms) {
      static_cast<void>(nccl_double::nccl().comm_abort(comm));
    }
    static_cast<void>(nccl_double::take_violations());
  }

  std::vector<std::shared_ptr<device::Device>> devices;
  std::vector<device::Stream> streams;
  std::vector<device::DeviceMemory> memory;
  std::array<nccl::CommHandle, 2> comms{};
};

bool violated(std::string_view words) {
  const auto all = nccl_double::take_violations();
  CHECK(all.size() == 1);
  return !all.empty() && has(all.front(), words);
}

}  // namespace

TEST_CASE("a collective holds its stream until every rank's has come to it") {
  const Pair pair;
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 1);
  CHECK(pair.sum(1) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  nccl_double::hold(1);
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(pair.sum(1) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 2);
  nccl_double::let_go(1);
  CHECK(cuda_double::live().pending == 0);
  pair.abort();
}

TEST_CASE("the first collective of a kind is in progress until all ranks have called it") {
  const Pair pair({}, true);
  CHECK(pair.sum(0) == nccl::kInProgress);
  CHECK(pair.state(0) == nccl::kInProgress);
  CHECK(cuda_double::live().pending == 0);
  CHECK(pair.sum(1) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 1);
  CHECK(pair.state(0) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(pair.sum(1) == nccl::kSuccess);
  pair.abort();
}

TEST_CASE("an abort lets the rank's streams go and the others' communicators fail") {
  const Pair pair;
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(nccl_double::nccl().comm_abort(pair.comms[0]) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  CHECK(pair.state(1) == nccl::kRemoteError);
  CHECK(pair.sum(1) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 1);
  CHECK(nccl_double::nccl().comm_abort(pair.comms[1]) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  CHECK(nccl_double::violations().empty());
}

TEST_CASE("a communicator that is used after its end is named with the call that ended it") {
  const Pair pair;
  CHECK(nccl_double::nccl().comm_abort(pair.comms[0]) == nccl::kSuccess);
  CHECK(pair.sum(0) == nccl::kInvalidArgument);
  CHECK(violated("ncclAllReduce uses a communicator that ncclCommAbort has ended"));
  pair.abort();
}

TEST_CASE("a communicator in progress may not be used") {
  const Pair pair({.polls_to_launch = 2});
  CHECK(pair.sum(0) == nccl::kInProgress);
  CHECK(cuda_double::live().pending == 0);
  CHECK(pair.sum(0) == nccl::kInvalidArgument);
  CHECK(violated("ncclAllReduce on rank 0 of communicator 1, which is not ready"));
  CHECK(pair.state(0) == nccl::kInProgress);
  CHECK(pair.state(0) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 1);
  pair.abort();
}

TEST_CASE("a rank with another collective is named with what the first rank has") {
  const Pair pair;
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(pair.sum(1, 3) == nccl::kSuccess);
  CHECK(
      violated("rank 1 of communicator 1: collective 1, all-reduce of 3 float, where rank 0 "
               "has all-reduce of 4 float"));
  CHECK(cuda_double::live().pending == 2);
  pair.abort();
  CHECK(cuda_double::live().pending == 0);
}

TEST_CASE("a communicator is destroyed after all ranks have finalized it and not before") {
  const Pair pair;
  CHECK(nccl_double::nccl().comm_destroy(pair.comms[0]) == nccl::kInvalidArgument);
  CHECK(violated("ncclCommDestroy of rank 0 of communicator 1, which is not finalized"));
  CHECK(nccl_double::nccl().comm_finalize(pair.comms[0]) == nccl::kInProgress);
  CHECK(pair.state(0) == nccl::kInProgress);
  CHECK(nccl_double::nccl().comm_finalize(pair.comms[1]) == nccl::kInProgress);
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(pair.state(rank) == nccl::kSuccess);
    CHECK(nccl_double::nccl().comm_destroy(pair.comms[rank]) == nccl::kSuccess);
  }
  CHECK(nccl_double::live_communicators() == 0);
}

TEST_CASE("collectives of a group begin at its end") {
  const Pair pair;
  CHECK(nccl_double::nccl().group_start() == nccl::kSuccess);
  CHECK(pair.sum(0) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  {
    const auto current = pair.on(0);
    CHECK(nccl_double::nccl().group_end() == nccl::kSuccess);
  }
  CHECK(cuda_double::live().pending == 1);
  CHECK(pair.sum(1) == nccl::kSuccess);
  CHECK(cuda_double::live().pending == 0);
  CHECK(nccl_double::nccl().group_end() == nccl::kInvalidArgument);
  CHECK(violated("ncclGroupEnd has no ncclGroupStart before it"));
  pair.abort();
}

TEST_CASE("a buffer that another stream writes without an order is the driver's violation") {
  const Pair pair;
  const auto current = pair.on(0);
  const auto other = must_have(device::Stream::create(*pair.devices[0]));
  const auto pinned = must_have(device::PinnedMemory::create(*pair.devices[0], 16));
  must_be_ok(other.copy(pair.memory[0].pointer(), pinned.bytes().data(), 16));
  CHECK(pair.sum(0) == nccl::kUnhandledCudaError);
  const auto violations = cuda_double::take_violations();
  REQUIRE(violations.size() == 1);
  CHECK(has(violations[0], "rank 0 of communicator 1: collective 1, all-reduce of 4 float"));
  CHECK(has(violations[0], "is not ordered after copy_async"));
  pair.abort();
}
