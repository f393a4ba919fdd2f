// What every rank has, on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "comm/communicator.hpp"

namespace ho {

// Collective. The ranks' rows in the order of the ranks; each may have another number of them.
template <typename Row>
[[nodiscard]] Result<std::vector<Row>> gather_all(Communicator& communicator,
                                                  const std::vector<Row>& mine) {
  static_assert(std::is_trivially_copyable_v<Row>);
  const uint64_t my_count = mine.size();
  std::vector<uint64_t> row_counts(communicator.map().world_size());
  CollectiveCall call;
  call.send = &my_count;
  call.recv = row_counts.data();
  call.count = 1;
  call.dtype = DType::kUint64;
  HORING_ASSIGN(auto operation, communicator.start(call, false));
  HORING_TRY(communicator.finish(operation));
  std::vector<size_t> bytes;
  size_t rows = 0;
  for (const uint64_t count : row_counts) {
    bytes.push_back(count * sizeof(Row));
    rows += count;
  }
  std::vector<Row> all(rows);
  call.send = mine.data();
  call.recv = all.data();
  call.counts = bytes;
  call.dtype = DType::kUint8;
  HORING_ASSIGN(operation, communicator.start(call, false));
  HORING_TRY(communicator.finish(operation));
  return all;
}

}  // namespace ho
