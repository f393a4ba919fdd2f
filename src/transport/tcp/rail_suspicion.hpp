// Finds a slow rail in a job that does not keep its rails busy. There a rate alone says little: it
// changes with the size of messages, with pauses between them, and with how soon the peer reads. So
// a rate that has fallen is a suspicion only. Then another rail carries the link's messages for a
// while: what is no faster there is not the own rail's fault. Pure.
//
// A rate here is what has arrived, by the time in which something was on its way. Kernels count
// that in steps of 1 to 10 ms, so short times of it say nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "transport/tcp/rail_rate.hpp"

namespace ho::tcp {

// What connections have done since the sum began.
class FlightSum {
 public:
  void look(const RailLook& now);
  // Of the same connections.
  void begin_anew();

  // With something on its way.
  [[nodiscard]] double seconds() const { return seconds_; }
  // Bytes per second.
  [[nodiscard]] double rate() const;
  // Of what was written meanwhile; 0: nothing was.
  [[nodiscard]] double message_bytes() const {
    return messages_ == 0 ? 0 : written_bytes_ / messages_;
  }
  // The peer took no more, for a part of that time that matters.
  [[nodiscard]] bool peer_full() const;

 private:
  std::optional<RailLook> last_;
  double bytes_ = 0;
  double written_bytes_ = 0;
  double messages_ = 0;
  double seconds_ = 0;
  double peer_full_seconds_ = 0;
};

class RailSuspicion {
 public:
  static constexpr size_t kSamples = 4;
  static constexpr size_t kBaselineAfter = 16;

  // While the own rail carries all messages.
  void look(const RailLook& own);
  // While another one does.
  void look_at_other(const RailLook& other);
  // Other connections.
  void restart();

  // Once, after a while: what another rail does with such messages, in case the own one has been
  // slow from the beginning.
  [[nodiscard]] bool needs_baseline(int64_t now_ns, size_t more) const {
    return !has_baseline_ && samples_ >= kBaselineAfter + more && now_ns >= not_before_ns_;
  }
  // Once founded() is known: what the better one has done is usual from now on.
  void take_baseline();

  // The own rail has seemed slow for kSamples and so many more, and not for another reason lately.
  [[nodiscard]] bool raised(int64_t now_ns, size_t more) const;
  // What it does then, and did before, with messages of the same size; bytes per second.
  [[nodiscard]] double rate() const { return rate_; }
  [[nodiscard]] double usual() const { return usual_; }
  // Whether the other rail is faster with such messages; nothing: not enough was seen of it.
  [[nodiscard]] std::optional<bool> founded() const;
  // It is. The cause may have ended meanwhile: the own rail is slow if the suspicion is raised
  // again before one sample is well.
  void on_founded() { confirmed_ = true; }
  [[nodiscard]] bool confirmed() const { return confirmed_; }
  // The own rail carries all messages no more.
  void on_left() { confirmed_ = false; }
  // It is not: what was usual is so no more.
  void on_unfounded(int64_t now_ns);
  // Nothing is compared for a while, longer each time.
  void wait(int64_t now_ns);

 private:
  // Of messages of about one size.
  struct Usual {
    double rate = 0;
    size_t samples = 0;
  };
  // What the other rail has done can be compared.
  [[nodiscard]] bool comparable() const;

  FlightSum sum_;
  size_t samples_ = 0;
  bool has_baseline_ = false;
  int size_class_ = 0;             // of the last sample
  std::map<int, Usual> usual_of_;  // by the size, in powers of two
  size_t below_ = 0;               // how many of the last samples
  bool confirmed_ = false;
  double rate_ = 0;
  double usual_ = 0;
  int64_t pause_ns_ = 0;
  int64_t not_before_ns_ = 0;
};

}  // namespace ho::tcp
