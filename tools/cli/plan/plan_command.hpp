// `horing plan`: prints and verifies plans.
#pragma once

namespace ho {

// argv[0] is "plan". Exit status: 0, 1 where verification or building fails, 2 for bad arguments.
int plan_command(int argc, const char* const* argv);

}  // namespace ho
