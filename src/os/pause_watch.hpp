// Tells time in which this process waited from time in which it did not run: it was stopped
// (SIGSTOP, a debugger), or its machine was suspended. What others did not do meanwhile proves
// nothing against them. One thread.
#pragma once

#include <cstdint>

namespace ho {

class PauseWatch {
 public:
  // To be called about every `tick_ns`. How much longer ago the last call was, where that is far
  // more than a busy machine explains; else 0.
  [[nodiscard]] int64_t paused_ns(int64_t now_ns, int64_t tick_ns) {
    constexpr int64_t kFarMoreNs = 500'000'000;
    const int64_t more_ns = last_ns_ == 0 ? 0 : now_ns - last_ns_ - tick_ns;
    last_ns_ = now_ns;
    return more_ns > kFarMoreNs ? more_ns : 0;
  }
  // Nobody has called for a while, and rightly so.
  void restart(int64_t now_ns) { last_ns_ = now_ns; }

 private:
  int64_t last_ns_ = 0;
};

}  // namespace ho
