// The arguments of calls as values, as horing.h has them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/dtype.hpp"
#include "base/index.hpp"
#include "device/driver.hpp"
#include "plan/plan.hpp"

namespace ho {

struct CallOptions {
  std::optional<Algorithm> algorithm;
  std::optional<std::chrono::milliseconds> timeout;
  bool fp32_sums = false;
  double scale = 1;                       // of this rank's input, for kPremulSum
  bool foreground = false;                // a request that the caller waits for at once
  device::StreamHandle stream = nullptr;  // of calls with device memory; null: the default stream
  uint64_t label = 0;  // what a collective is for, compared between ranks; 0: not said
};

// The arguments of a collective. Counts are elements; see horing.h for shapes.
struct CollectiveCall {
  Collective collective = Collective::kAllGather;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // of a block where each rank has one (blocks_of()), else of the whole
  std::span<const size_t> counts{};       // per rank; replaces count where not empty
  std::span<const size_t> recv_counts{};  // all-to-all with counts, which are those sent, only
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  GlobalRank root;
  CallOptions options;
  std::shared_ptr<const void> owned{};  // the buffers' memory, where nobody else keeps it
};

struct PointToPointCall {
  bool sends = false;
  const void* data = nullptr;  // read when sending
  void* into = nullptr;        // written when receiving
  size_t count = 0;
  DType dtype = DType::kUint8;
  std::optional<GlobalRank> peer;  // nothing: receives from any rank
  int32_t tag = 0;
  int32_t* source = nullptr;  // written when a receive ends
  CallOptions options;
};

}  // namespace ho
