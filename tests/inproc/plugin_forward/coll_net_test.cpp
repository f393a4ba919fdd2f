// CollNet on top of a forwarded network, through the tables that NCCL takes of our library.
#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include "abi/collnet_v12.hpp"
#include "abi/net_v12.hpp"
#include "base/status.hpp"
#include "catch.hpp"
#include "forwarded.hpp"
#include "os/clock.hpp"
#include "os/shared_library.hpp"

namespace ho::plugin::forward_test {
namespace {

using nccl_abi::v12::CollNet;
using nccl_abi::v12::Net;
using HandleBytes = std::array<std::byte, nccl_abi::kHandleBytes>;

constexpr uint64_t kCommunicator = 99;

Status as_status(nccl_abi::Result result, const char* call) {
  return result == nccl_abi::Result::kSuccess
             ? Status()
             : Status(StatusCode::kInternal,
                      std::string(call) + " answered " + std::to_string(static_cast<int>(result)));
}

Status expect(bool holds, const std::string& what) {
  return holds ? Status() : Status(StatusCode::kInternal, "expected: " + what);
}

// Both interfaces in NCCL's order, for one communicator.
struct Tables {
  Net* net = nullptr;
  CollNet* coll_net = nullptr;
  void* of_net = nullptr;
  void* of_coll_net = nullptr;

  [[nodiscard]] Status open(const SharedLibrary& library) {
    net = static_cast<Net*>(library.find("ncclNetPlugin_v12"));
    coll_net = static_cast<CollNet*>(library.find("ncclCollNetPlugin_v12"));
    HORING_TRY(expect(net != nullptr && coll_net != nullptr, "both tables"));
    nccl_abi::v12::CommConfig config{104};
    HORING_TRY(as_status(net->init(&of_net, kCommunicator, &config, log_as_nccl, nullptr), "init"));
    return as_status(coll_net->init(&of_coll_net, kCommunicator, log_as_nccl), "collnet's init");
  }
  [[nodiscard]] Status close() {
    HORING_TRY(as_status(coll_net->finalize(of_coll_net), "collnet's finalize"));
    return as_status(net->finalize(of_net), "finalize");
  }
};

Status check_devices(const Tables& tables) {
  int count = 0;
  int count_of_net = 0;
  HORING_TRY(as_status(tables.coll_net->devices(&count), "collnet's devices"));
  HORING_TRY(as_status(tables.net->devices(&count_of_net), "devices"));
  HORING_TRY(expect(count == 2 && count_of_net == 2, "two devices each"));
  for (int device = 0; device < count; ++device) {
    nccl_abi::v12::NetProperties of_net{};
    nccl_abi::v12::NetProperties of_coll_net{};
    HORING_TRY(as_status(tables.net->getProperties(device, &of_net), "getProperties"));
    HORING_TRY(as_status(tables.coll_net->getProperties(device, &of_coll_net), "getProperties"));
    HORING_TRY(expect(std::string(of_net.name) == of_coll_net.name, "the same names in one order"));
    HORING_TRY(expect(of_net.guid == of_coll_net.guid && of_net.speed == of_coll_net.speed,
                      "the same devices"));
    HORING_TRY(expect(of_coll_net.ptrSupport == nccl_abi::kPointerHost, "host memory"));
  }
  return {};
}

// One of two nodes. classed: sockets that carry the communicator's traffic class while the rail is
// there. Its contribution to element i is i + 1000 times its rank.
Status reduce_as(const Tables& tables,
                 int rank,
                 void* listener,
                 std::array<HandleBytes, 2>& handles,
                 size_t* classed) {
  constexpr size_t kCount = 100'000;
  const CollNet& calls = *tables.coll_net;
  std::array<void*, 2> all{handles[0].data(), handles[1].data()};
  void* group = nullptr;
  HORING_TRY(as_status(calls.connect(all.data(), 2, rank, listener, &group), "connect"));
  std::vector<int32_t> data(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    data[i] = static_cast<int32_t>(i) + 1000 * rank;
  }
  void* memory = nullptr;
  HORING_TRY(as_status(calls.regMr(group, data.data(), kCount * 4, nccl_abi::kPointerHost, &memory),
                       "regMr"));
  void* request = nullptr;
  HORING_TRY(as_status(calls.iallreduce(group,
                                        data.data(),
                                        data.data(),
                                        kCount,
                                        nccl_abi::DataType::kInt32,
                                        nccl_abi::ReduceOp::kSum,
                                        memory,
                                        memory,
                                        &request),
                       "iallreduce"));
  HORING_TRY(expect(request != nullptr, "a request"));
  const Deadline deadline = deadline_after(std::chrono::seconds(60));
  for (int done = 0; done == 0;) {
    HORING_TRY(as_status(calls.test(request, &done, nullptr), "test"));
    HORING_TRY(expect(!passed(deadline), "the all-reduce within a minute"));
    std::this_thread::yield();
  }
  for (size_t i = 0; i < kCount; ++i) {
    HORING_TRY(expect(data[i] == 2 * static_cast<int32_t>(i) + 1000,
                      "element " + std::to_string(i) + " reduced"));
  }
  *classed = sockets_of_class(104);
  HORING_TRY(as_status(calls.deregMr(group, memory), "deregMr"));
  return as_status(calls.closeColl(group), "closeColl");
}

Status reduce_over(int theirs) {
  ::setenv("HORING_NET_FORWARD", plugin_of(theirs).c_str(), 1);
  ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);
  HORING_ASSIGN(const SharedLibrary library, SharedLibrary::open(our_library()));
  Tables tables;
  HORING_TRY(tables.open(library));
  HORING_TRY(check_devices(tables));
  std::array<HandleBytes, 2> handles{};
  std::array<void*, 2> listeners{};
  for (size_t node = 0; node < 2; ++node) {
    HORING_TRY(as_status(tables.coll_net->listen(
                             tables.of_coll_net, 1, handles.at(node).data(), &listeners.at(node)),
                         "listen"));
  }
  size_t classed = 0;
  size_t classed_too = 0;
  Status other;
  std::thread thread([&] { other = reduce_as(tables, 1, listeners[1], handles, &classed_too); });
  const Status one = reduce_as(tables, 0, listeners[0], handles, &classed);
  thread.join();
  HORING_TRY(one);
  HORING_TRY(other);
  HORING_TRY(expect((classed > 0) == (theirs >= 10), "rails of the communicator's traffic class"));
  for (void* const listener : listeners) {
    HORING_TRY(as_status(tables.coll_net->closeListen(listener), "closeListen"));
  }
  return tables.close();
}

TEST_CASE("CollNet on a forwarded network has its devices, and moves its data through it") {
  for (const int theirs : {8, 10, 12}) {
    INFO("the other plugin has v" << theirs);
    CHECK(in_a_process([&] { return reduce_over(theirs).message(); }) == "");
  }
}

}  // namespace
}  // namespace ho::plugin::forward_test
