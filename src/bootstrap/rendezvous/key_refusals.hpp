// Who came without the job's key, and which rank he said he was. Nothing is proven, and whoever
// reaches the port can come as often as he likes under ever new names: so memory is bounded, and
// whether somebody was refused as a rank is known for every rank, whatever else has come. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/messages/wire.hpp"

namespace ho {

class KeyRefusals {
 public:
  static constexpr size_t kMaxRanks = 256;         // whose callers are kept
  static constexpr size_t kMaxCallersPerRank = 4;  // the first two and the last two
  static constexpr size_t kMaxTexts = 8;
  enum class Kind : uint8_t {
    kNew,       // kept
    kAgain,     // has been refused before: the same rank, host and process
    kStranger,  // one of too many, kept only while it is among the last; or no rank of this job
  };

  explicit KeyRefusals(uint32_t world_size) : refused_(world_size, false) {}

  // `text` is what texts() says of this caller.
  Kind note(const wire::RankClaim& who, const std::string& text);
  [[nodiscard]] bool was_refused(uint32_t rank) const;
  // Of those who came as one of these ranks, the first of each rank before the others.
  [[nodiscard]] std::vector<std::string> texts(std::span<const uint32_t> ranks) const;

 private:
  struct Caller {
    std::string host;
    uint32_t pid = 0;
    std::string text;
  };
  struct OfRank {
    std::vector<Caller> callers;
    uint64_t left_out = 0;
  };

  std::vector<bool> refused_;  // by rank
  std::map<uint32_t, OfRank> kept_;
};

}  // namespace ho
