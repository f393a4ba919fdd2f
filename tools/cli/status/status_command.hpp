#pragma once

namespace ho {

// argv[0] is the subcommand's name. The value is the status to exit with.
int status_command(int argc, const char* const* argv);

}  // namespace ho
