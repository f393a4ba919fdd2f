// Every rank's values, on every rank, in rank order.
#pragma once

#include <horing/communicator.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace ho::harness {

template <typename T>
[[nodiscard]] std::vector<T> gather_all(horing::Communicator& comm, std::span<const T> mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(mine.size() * static_cast<size_t>(comm.world_size()));
  comm.all_gather(mine.data(), all.data(), mine.size_bytes(), HO_UINT8);
  return all;
}

template <typename T>
[[nodiscard]] std::vector<T> gather_all(horing::Communicator& comm, const T& mine) {
  return gather_all(comm, std::span<const T>(&mine, 1));
}

}  // namespace ho::harness
