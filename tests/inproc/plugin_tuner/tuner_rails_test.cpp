// Every version's tuner beside our network and CollNet: what the model says, and what may be
// forced once CollNet is connected. The plugin's settings are read once, so all cases share them.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "abi/collnet_v11.hpp"
#include "abi/net_v11.hpp"
#include "tuner_driver.hpp"

namespace ho::plugin::built {
namespace {

using nccl_abi::v11::CollNet;

constexpr size_t kMiB = size_t{1} << 20U;
constexpr uint64_t kConnected = 0x1111;
constexpr uint64_t kOther = 0x2222;

// Looked up once: Catch's assertions in it are for one thread only.
CollNet& coll_net() {
  static CollNet& found = table<CollNet>("ncclCollNetPlugin_v11");
  return found;
}

// Before NCCL would load anything. Rail rings are said to be much faster than NCCL's own sends.
void prepare() {
  static const bool once = [] {
    const std::string path = "tuner_rails_test." + std::to_string(::getpid()) + ".csv";
    std::ofstream(path) << "all_gather,*,*,2,1,collnet_direct\n"
                           "reduce_scatter,*,*,2,1,collnet_direct\n";
    ::setenv("HORING_TUNING_FILE", path.c_str(), 1);
    ::setenv("HORING_EMULATED_RAILS", "rail0=127.0.0.1,rail1=127.0.0.1", 1);
    ::setenv("HORING_TUNER_NIC_MBPS", "10000", 1);
    ::setenv("HORING_TUNER_RAIL_MBPS", "100000", 1);
    // The network comes before CollNet and the tuner, and stays as long as the communicator.
    static void* context = nullptr;
    nccl_abi::v11::CommConfig config{};
    REQUIRE(table<nccl_abi::v11::Net>("ncclNetPlugin_v11")
                .init(&context, 1, &config, Log::write, nullptr) == Result::kSuccess);
    (void)std::remove(path.c_str());
    return true;
  }();
  CHECK(once);
}

// A rail of two members, each a thread, as NCCL's proxy threads of two ranks.
class Rail {
 public:
  explicit Rail(uint64_t communicator) {
    for (Member& member : members_) {
      REQUIRE(coll_net().init(&member.context, communicator, Log::write) == Result::kSuccess);
      REQUIRE(coll_net().listen(member.context, 0, member.handle.data(), &member.listener) ==
              Result::kSuccess);
    }
    std::thread other([this] { connect(1); });
    connect(0);
    other.join();
    for (Member& member : members_) {
      CHECK(coll_net().closeListen(member.listener) == Result::kSuccess);
      REQUIRE(member.result == Result::kSuccess);
    }
  }
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;
  ~Rail() {
    for (Member& member : members_) {
      CHECK(coll_net().closeColl(member.group) == Result::kSuccess);
      CHECK(coll_net().finalize(member.context) == Result::kSuccess);
    }
  }

 private:
  struct Member {
    void* context = nullptr;
    std::array<std::byte, nccl_abi::kHandleBytes> handle{};
    void* listener = nullptr;
    void* group = nullptr;
    Result result = Result::kInternalError;
  };
  void connect(size_t self) {
    std::array<void*, 2> handles{members_[0].handle.data(), members_[1].handle.data()};
    Member& member = members_[self];
    member.result = coll_net().connect(
        handles.data(), 2, static_cast<int>(self), member.listener, &member.group);
  }

  std::array<Member, 2> members_;
};

float direct(TunerDriver& tuner, Function function, size_t bytes) {
  Costs costs = usual_costs(function);
  tuner.ask({function, bytes}, &costs);
  return costs.at[nccl_abi::kAlgorithmCollNetDirect][nccl_abi::kProtocolSimple];
}

float chain(TunerDriver& tuner, size_t bytes) {
  Costs costs = usual_costs(Function::kAllReduce);
  tuner.ask({Function::kAllReduce, bytes}, &costs);
  return costs.at[nccl_abi::kAlgorithmCollNetChain][nccl_abi::kProtocolSimple];
}

}  // namespace

TEST_CASE(
    "every version decides the same by the model, whether it hears of the communicator or not") {
  prepare();
  for (const int version : {3, 4, 5, 6}) {
    CAPTURE(version);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(16, 4) == Result::kSuccess);
    CHECK(chain(tuner, 64 * kMiB) == 0);
    CHECK(chain(tuner, 8) == kIgnored);
  }
  TunerDriver second(2);
  REQUIRE(second.init(16, 4) == Result::kSuccess);
  CHECK(second.name({Function::kAllReduce, 64 * kMiB}, true, false).algorithm ==
        nccl_abi::kAlgorithmCollNetChain);
  const Named small = second.name({Function::kAllReduce, 8}, true, false);
  CHECK(small.algorithm == nccl_abi::kAlgorithmTree);
  CHECK(small.protocol == nccl_abi::kProtocolLl);
  // Without CollNet there is nothing to be kept from.
  CHECK(second.name({Function::kAllReduce, 8}, false, false).algorithm == Named::kNothing);
}

TEST_CASE("forbidden direct is taken where CollNet is connected for the communicator, only there") {
  prepare();
  for (const int version : {5, 6}) {
    CAPTURE(version);
    const Rail rail(kConnected);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(2, 2, kConnected) == Result::kSuccess);
    for (const size_t bytes : {size_t{1}, size_t{4097}, 64 * kMiB}) {
      CHECK(direct(tuner, Function::kAllGather, bytes) == 0);
      // Since CollNet reduces each type with each operation.
      CHECK(direct(tuner, Function::kReduceScatter, bytes) == 0);
    }
    TunerDriver other(version);
    REQUIRE(other.init(2, 2, kOther) == Result::kSuccess);
    CHECK(direct(other, Function::kAllGather, kMiB) == kIgnored);
    // Ranks that are no heads would not know.
    TunerDriver several(version);
    REQUIRE(several.init(4, 2, kConnected) == Result::kSuccess);
    CHECK(direct(several, Function::kAllGather, kMiB) == kIgnored);
  }
  // Older versions do not hear which communicator it is.
  const Rail rail(kConnected);
  for (const int version : {3, 4}) {
    CAPTURE(version);
    TunerDriver tuner(version);
    REQUIRE(tuner.init(2, 2) == Result::kSuccess);
    CHECK(direct(tuner, Function::kAllGather, kMiB) == kIgnored);
  }
}

TEST_CASE("a communicator that ended is not connected any more") {
  prepare();
  { const Rail rail(kConnected); }
  TunerDriver tuner(5);
  REQUIRE(tuner.init(2, 2, kConnected) == Result::kSuccess);
  CHECK(direct(tuner, Function::kAllGather, kMiB) == kIgnored);
}

TEST_CASE("version 6 raises the chunk of gathers that go through CollNet direct, within a slot") {
  prepare();
  TunerDriver tuner(6);
  REQUIRE(tuner.init(16, 4) == Result::kSuccess);
  constexpr size_t kSlot = (size_t{4} << 20U) / 8;
  constexpr int kDirect = nccl_abi::kAlgorithmCollNetDirect;
  constexpr size_t kNccl = 65536;
  // Three of four blocks of 1 MiB over 8 steps of 4 channels.
  CHECK(tuner.chunk(Function::kAllGather, 16 * kMiB, kDirect, 4, kNccl) == 3 * kMiB / 32);
  CHECK(tuner.chunk(Function::kReduceScatter, 16 * kMiB, kDirect, 1, kNccl) == 3 * kMiB / 8);
  // Not even a slot would have a third block in flight.
  CHECK(tuner.chunk(Function::kAllGather, 512 * kMiB, kDirect, 2, kNccl) == kNccl);
  CHECK(tuner.chunk(Function::kAllGather, 16 * kMiB, kDirect, 4, kSlot) == kSlot);
  CHECK(tuner.chunk(Function::kAllReduce, 16 * kMiB, kDirect, 4, kNccl) == kNccl);
  CHECK(tuner.chunk(Function::kBroadcast, 16 * kMiB, kDirect, 4, kNccl) == kNccl);
  for (const int algorithm : {-1, 0, 1, 3, 4, 5, 6, 7}) {
    CHECK(tuner.chunk(Function::kAllGather, 16 * kMiB, algorithm, 4, kNccl) == kNccl);
  }
  for (const int channels : {0, -1}) {
    CHECK(tuner.chunk(Function::kAllGather, 16 * kMiB, kDirect, channels, kNccl) == kNccl);
  }
}

}  // namespace ho::plugin::built
