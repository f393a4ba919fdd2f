// One send or receive of this rank as a value: what was asked for, and how it ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.hpp"
#include "base/index.hpp"
#include "base/status.hpp"
#include "os/clock.hpp"

namespace ho {

struct Transfer {
  bool sends = false;
  std::optional<GlobalRank> peer;  // nothing: a receive from any rank
  int32_t tag = 0;
  DType dtype = DType::kUint8;
  uint64_t count = 0;
  const std::byte* data = nullptr;  // read when sending
  std::byte* into = nullptr;        // written when receiving
  int32_t* source = nullptr;        // of a receive: whose message it was, written at its end
  Deadline deadline = Deadline::max();
  std::chrono::milliseconds timeout{0};  // what the deadline was made from, for messages

  // Kept by PointToPoint.
  uint64_t order = 0;              // of submission, among all transfers of this rank
  std::optional<GlobalRank> from;  // of a receive: whose message it takes, once that is known
  uint32_t number = 0;             // of a send: among those to its peer
  uint64_t moved_bytes = 0;        // that were given to the link, or came from it
  bool cleared = false;            // of a send: its receive is posted
  bool lent = false;               // a link has been given its memory
  std::optional<Status> outcome;

  [[nodiscard]] uint64_t bytes() const { return count * size_bytes(dtype); }
  // "12 float"
  [[nodiscard]] std::string shape() const;
  // "recv from rank 3 tag 7 (12 float)"
  [[nodiscard]] std::string name() const;
  // The error of one whose deadline has passed.
  [[nodiscard]] Status late() const;
};

}  // namespace ho
