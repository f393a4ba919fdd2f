// Calls out of order and without what they need: an answer each, and the process lives. In the
// order of a process's life, so in one test.
#include "abi/collnet_v11.hpp"
#include "abi/collnet_v8.hpp"
#include "abi/net_v11.hpp"
#include "abi/net_v8.hpp"
#include "built_library.hpp"

namespace ho::plugin::built {
namespace {

using nccl_abi::Result;

TEST_CASE("calls that NCCL should not make are answered with an error") {
  auto& old_net = table<nccl_abi::v8::Net>("ncclNetPlugin_v8");
  auto& old_coll_net = table<nccl_abi::v8::CollNet>("ncclCollNetPlugin_v8");
  auto& net = table<nccl_abi::v11::Net>("ncclNetPlugin_v11");
  auto& coll_net = table<nccl_abi::v11::CollNet>("ncclCollNetPlugin_v11");
  int count = -1;
  int done = -1;

  // Before any init.
  CHECK(old_net.devices(&count) == Result::kInternalError);
  CHECK(old_coll_net.devices(&count) == Result::kInternalError);
  CHECK(coll_net.devices(&count) == Result::kInternalError);
  CHECK(old_coll_net.test(nullptr, &done, nullptr) == Result::kInternalError);

  REQUIRE(old_net.init(Log::write) == Result::kSuccess);
  CHECK(old_coll_net.devices(&count) == Result::kSuccess);
  CHECK(count == 1);
  CHECK(old_net.test(nullptr, &done, nullptr) == Result::kInvalidArgument);
  CHECK(old_coll_net.test(nullptr, &done, nullptr) == Result::kInvalidArgument);
  CHECK(done == 0);

  void* of_net = nullptr;
  nccl_abi::v11::CommConfig config{};
  REQUIRE(net.init(&of_net, 5, &config, Log::write, nullptr) == Result::kSuccess);
  void* context = nullptr;
  REQUIRE(coll_net.init(&context, 5, Log::write) == Result::kSuccess);
  std::array<char, 128> handle{};
  void* listener = nullptr;
  void* comm = nullptr;
  REQUIRE(coll_net.listen(context, 0, handle.data(), &listener) == Result::kSuccess);
  std::array<void*, 1> handles{handle.data()};
  REQUIRE(coll_net.connect(handles.data(), 1, 0, listener, &comm) == Result::kSuccess);
  CHECK(coll_net.closeColl(comm) == Result::kSuccess);
  CHECK(coll_net.closeColl(comm) == Result::kInvalidArgument);
  CHECK(coll_net.closeListen(listener) == Result::kSuccess);
  CHECK(coll_net.closeListen(listener) == Result::kInvalidArgument);
  CHECK(coll_net.finalize(context) == Result::kSuccess);
  CHECK(coll_net.finalize(context) == Result::kInvalidArgument);
  CHECK(coll_net.finalize(nullptr) == Result::kSuccess);
  CHECK(net.finalize(of_net) == Result::kSuccess);
  CHECK(net.finalize(of_net) == Result::kSuccess);
}

TEST_CASE("what has a number in this library alone is none of NCCL's reductions") {
  auto& coll_net = table<nccl_abi::v11::CollNet>("ncclCollNetPlugin_v11");
  const auto supported = [&](int type, int op) {
    int answer = -1;
    CHECK(coll_net.reduceSupport(static_cast<nccl_abi::DataType>(type),
                                 static_cast<nccl_abi::ReduceOp>(op),
                                 &answer) == Result::kSuccess);
    return answer;
  };
  CHECK(supported(2, 0) == 1);
  CHECK(supported(11, 3) == 1);
  // NCCL gives these numbers to types of later releases, and to operations that users define.
  CHECK(supported(12, 0) == 0);
  CHECK(supported(2, 5) == 0);
  CHECK(supported(7, 8) == 0);
}

}  // namespace
}  // namespace ho::plugin::built
