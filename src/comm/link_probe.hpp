// How long a link is probed to learn its rate, and how arrivals give it. Pure.
//
// A time alone does not do: on a busy machine a rank may sleep through it, and then nothing has
// been measured. So a probe goes on until enough messages have moved as well, within a limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ho {

struct ProbeLength {
  std::chrono::nanoseconds least{0};  // even where enough messages have moved
  std::chrono::nanoseconds most{0};   // even where they have not, but for the fewest
};

// A rate takes so many, of which a half at most is left out as warm-up.
inline constexpr uint64_t kEnoughMessages = 16;
// However long they take; each message has a deadline of its own.
inline constexpr uint64_t kFewestMessages = 4;

// `probes` of them, one after another, stay well within `timeout`: other ranks wait so long for
// the one whose links are slowest.
[[nodiscard]] ProbeLength probe_length(std::chrono::milliseconds least,
                                       uint32_t probes,
                                       std::chrono::milliseconds timeout);

// Whether the message after `sent` others is the probe's last. The sender alone decides, and marks
// it, so that both sides end with the same message.
[[nodiscard]] bool ends_probe(uint64_t sent,
                              std::chrono::nanoseconds elapsed,
                              const ProbeLength& length);

// Bytes per second, from when each message of `message_bytes` had arrived after the probe began.
// The first quarter of the time is left out, since queues and shapers take up a burst, but never
// more than half of the messages. 0 for none.
[[nodiscard]] double probe_rate(std::span<const std::chrono::nanoseconds> arrivals,
                                size_t message_bytes);

}  // namespace ho
