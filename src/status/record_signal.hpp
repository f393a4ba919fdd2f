// The signal that asks a process for its records (HORING_RECORD_SIGNAL). Of the whole process.
#pragma once

#include "os/event_fd.hpp"

namespace ho {

// From now on the signal wakes who waits on this descriptor, which may be closed later. Where the
// program has a handler of its own, that stays, and the log says so.
void take_record_signal(const EventFd& wake);
// Whether the signal has come since the last call. Any thread.
[[nodiscard]] bool take_record_request();

}  // namespace ho
