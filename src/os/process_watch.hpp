// Whether another process has ended, however its number is used afterwards.
#pragma once

#include <sys/types.h>

#include "os/fd.hpp"

namespace ho {

class ProcessWatch {
 public:
  // Of a process that is running now. Where the kernel has no descriptors of processes (before
  // Linux 5.3), or does not show it to us, it never counts as ended.
  explicit ProcessWatch(pid_t pid);
  // Also where its parent has not asked for its status yet.
  [[nodiscard]] bool ended() const;

 private:
  Fd process_;
};

}  // namespace ho
