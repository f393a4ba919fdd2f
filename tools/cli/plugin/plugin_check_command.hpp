#pragma once

namespace ho {

// `horing plugin-check`: what NCCL would make of this environment. The exit status: 0 fine, 1 there
// are problems, 2 bad arguments.
int plugin_check_command(int argc, const char* const* argv);

}  // namespace ho
