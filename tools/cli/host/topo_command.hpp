// horing topo: what the library sees on this host and how it would use it.
#pragma once

namespace ho {

// argv[0] is "topo". Returns the exit status: 0, 1 for a failure, 2 for bad arguments.
int topo_command(int argc, const char* const* argv);

}  // namespace ho
