// Vector clocks: what is known to have happened, and who touched memory when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ho::cuda_double {

// For each component (a host thread or a stream, of any process) how many of its steps are known to
// have happened. What knows of a step comes after it.
class Clock {
 public:
  [[nodiscard]] uint64_t at(uint64_t component) const;
  void set(uint64_t component, uint64_t step);
  void join(const Clock& other);

  // To go with a message to another process.
  [[nodiscard]] std::vector<std::byte> packed() const;
  // Nothing where the bytes are no packed clock.
  [[nodiscard]] static std::optional<Clock> unpacked(std::span<const std::byte> bytes);

 private:
  std::vector<std::pair<uint64_t, uint64_t>> steps_;  // sorted by component
};

// One step of one component, with all that comes before it.
struct Step {
  uint64_t component = 0;
  uint64_t number = 0;
  Clock clock;
  std::shared_ptr<const std::string> what;  // for messages
};

// Who read and wrote a range of memory last.
class AccessHistory {
 public:
  // Adds an access to [begin, end). What an earlier access was that the step does not come after,
  // where one of both writes; nothing where all is in order.
  [[nodiscard]] std::optional<std::string> add(const Step& step,
                                               size_t begin,
                                               size_t end,
                                               bool writes);
  // The first access that the clock does not know of.
  [[nodiscard]] std::optional<std::string> unknown_to(const Clock& clock) const;

 private:
  struct Access {
    size_t begin;
    size_t end;
    uint64_t component;
    uint64_t number;
    bool writes;
    std::shared_ptr<const std::string> what;
  };
  void replace(const Step& step, size_t begin, size_t end, bool writes);
  std::vector<Access> accesses_;
};

}  // namespace ho::cuda_double
