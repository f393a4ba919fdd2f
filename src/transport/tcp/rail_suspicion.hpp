// Finds a slow rail in a job that does not keep its rails busy. There a rate alone says little: it
// changes with the size of messages, with pauses between them, and with how soon the peer reads. So
// a rate that has fallen is a suspicion only. Then another rail carries the link's messages for a
// while: what is no faster there is not the own rail's fault. Pure.
//
// A rate here is what has arrived, by the time in which something was on its way. Kernels count
// that in steps of 1 to 10 ms, so short times of it say nothing. A message takes some time of its
// own besides that of its bytes, so two rates can be compared where messages have the same size, or
// the same one in the mean.
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
  // What is in it counts for `part` from now on, and `latest` whole.
  void blend(double part, const FlightSum& latest);

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
  // What a comparison with another rail shows.
  enum class Finding {
    kNotYet,
    kNothing,  // too little was seen, only messages of another size, or a peer that took no more
    kNoFaster,
    kFaster,
  };

  // While the own rail carries all messages.
  void look(const RailLook& own);
  // While another one does.
  void look_at_other(const RailLook& other);
  // Other connections.
  void restart();

  // Both are asked just after look(), and are false where that made no sample: a link that is not
  // in use is not compared.
  // After a while: what another rail does with such messages, in case the own one has been slow
  // from the beginning. Where that is no faster, smaller messages need no baseline.
  [[nodiscard]] bool needs_baseline(int64_t now_ns, size_t more) const;
  // The own rail has seemed slow for kSamples and so many more, and not for another reason lately.
  [[nodiscard]] bool raised(int64_t now_ns, size_t more) const;
  // What it has done since it seems so, at most, and did before, with messages of the same size;
  // bytes per second.
  [[nodiscard]] double rate() const;
  [[nodiscard]] double usual() const { return usual_; }
  // The own rail has just seemed slow, or has been found so: the next sample should come soon.
  [[nodiscard]] bool in_doubt(int64_t now_ns) const;

  // Whether the other rail is faster with such messages. last: it is looked at no longer.
  [[nodiscard]] Finding finding(bool last) const;
  // What that says, where it says something: of a baseline, what the better one has done is usual
  // from now on. Else, faster: the own rail is slow if the suspicion is raised again before one
  // such sample is well, for the cause may have ended meanwhile. No faster: what was usual is so no
  // more. Nothing: the next comparison waits.
  void on_compared(Finding finding, bool for_baseline, int64_t now_ns);
  // Of messages as the last sample's.
  [[nodiscard]] bool confirmed() const;
  // The own rail carries all messages no more. If it does again, and is as slow as it was at once,
  // it needs no other comparison.
  void on_shared();
  // Nor any, because it is lost.
  void on_lost();

 private:
  // Of messages of about one size.
  struct OfSize {
    double usual = 0;
    size_t samples = 0;  // that are well
    size_t below = 0;    // how many of the last ones
    double rate = 0;     // the highest of those
    FlightSum recent{};  // of the last ones, whatever they are
    bool has_baseline = false;
    size_t confirmed = 0;  // for so many samples more, of any size
    void on_well(double sample);
  };
  // Longer each time.
  struct Pause {
    int64_t length_ns = 0;
    int64_t until_ns = 0;
    void begin(int64_t now_ns);
  };
  [[nodiscard]] const OfSize* last_sampled() const;
  // What the other rail has done can be compared.
  [[nodiscard]] bool comparable(const OfSize& own) const;

  FlightSum sum_;                  // of the own rail since the last sample
  FlightSum piece_;                // of the other one, of messages of whatever size
  FlightSum other_;                // and of all pieces with messages of that of the last sample
  std::map<int, OfSize> of_size_;  // in powers of two
  std::optional<int> well_;        // up to that size it is as fast as another rail
  bool sampled_ = false;           // by the last look
  int64_t sampled_at_ns_ = 0;
  int size_class_ = 0;  // of the last sample
  double usual_ = 0;
  bool compared_ = false;  // since the own rail has carried all messages
  Pause pause_;
  Pause baseline_pause_;
};

}  // namespace ho::tcp
