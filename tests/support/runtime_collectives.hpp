// Collectives of the runtime on a device, compared with libhoring's over host memory. Errors are
// thrown.
#pragma once

#include <horing.h>

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/horing_collectives.hpp"
#include "must_have.hpp"
#include "patterns.hpp"

namespace ho::test {

struct DestroyComm {
  void operator()(ho_comm* comm) const { ho_comm_destroy(comm); }
};
using HeldComm = std::unique_ptr<ho_comm, DestroyComm>;

inline HeldComm split(ho_comm* comm, int32_t color) {
  ho_comm* part = nullptr;
  if (ho_comm_split(comm, color, ho_comm_rank(comm), &part) != HO_OK) {
    throw std::runtime_error(ho_last_error_message());
  }
  return HeldComm(part);
}

inline void must_join(paro::Collectives& over, paro::Pending& pending) {
  if (!must_have(over.join(pending, 0))) {
    throw std::runtime_error("not over at its deadline");
  }
}

enum class What { kGather, kScatter, kReduce, kBroadcast };
inline constexpr What kEveryCollective[] = {
    What::kGather, What::kScatter, What::kReduce, What::kBroadcast};

inline void carry_out(paro::Collectives& over,
                      What what,
                      const paro::CollectiveOptions& options,
                      DType dtype,
                      std::byte* all,
                      std::byte* mine,
                      std::span<const size_t> counts) {
  paro::Pending pending;
  const size_t count = counts[0] * counts.size();
  switch (what) {
    case What::kGather:
      must_be_ok(over.begin_all_gather(options, dtype, mine, all, counts, pending));
      break;
    case What::kScatter:
      must_be_ok(over.begin_reduce_scatter(options, dtype, all, mine, counts, pending));
      break;
    case What::kReduce:
      must_be_ok(over.begin_all_reduce(options, dtype, all, count, pending));
      break;
    case What::kBroadcast:
      must_be_ok(over.begin_broadcast(options, dtype, all, count, counts.size() - 1, pending));
      break;
  }
  must_join(over, pending);
}

// Of `part` elements for each rank of the set. make_memory(bytes) makes memory of the device, with
// write(bytes), data() and read().
template <typename MakeMemory>
void must_give_what_libhoring_gives(ho_comm* set,
                                    paro::Collectives& over,
                                    What what,
                                    const paro::CollectiveOptions& options,
                                    DType dtype,
                                    size_t part,
                                    const MakeMemory& make_memory) {
  const auto rank = static_cast<uint32_t>(ho_comm_rank(set));
  const std::vector<size_t> counts(static_cast<size_t>(ho_comm_world_size(set)), part);
  const size_t element = size_bytes(dtype);
  std::vector<std::byte> expected(counts.size() * part * element);
  for (size_t i = 0; i < counts.size() * part; ++i) {
    store(dtype, &expected[i * element], pattern(ReduceOp::kSum, rank, i));
  }
  const size_t mine = rank * part * element;
  const auto memory = make_memory(expected.size());
  memory.write(expected);
  paro::HoringCollectives on_host(set);
  carry_out(on_host, what, {}, dtype, expected.data(), &expected[mine], counts);
  carry_out(over, what, options, dtype, memory.data(), memory.data() + mine, counts);
  const std::vector<std::byte> is = memory.read();
  const bool own = what == What::kScatter;  // the rest is undefined
  if (std::memcmp(
          &is[own ? mine : 0], &expected[own ? mine : 0], own ? part * element : is.size()) != 0) {
    throw std::runtime_error("collective " + std::to_string(static_cast<int>(what)) + " of " +
                             std::to_string(part) + " " + std::string(to_string(dtype)) +
                             " differs from libhoring's");
  }
}

}  // namespace ho::test
