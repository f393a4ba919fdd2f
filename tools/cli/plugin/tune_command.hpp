// horing tune: what the NCCL tuner would choose for a communicator.
#pragma once

namespace ho {

// argv[0] is "tune". Returns the exit status: 0, 1 for a failure, 2 for bad arguments or a bad
// file.
int tune_command(int argc, const char* const* argv);

}  // namespace ho
