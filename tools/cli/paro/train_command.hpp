// `paro train`: trains the toy model inside a job, with one strategy or with all of them in turn.
#pragma once

namespace paro::tool {

// argv[0] is the subcommand's name. The exit status.
int train_command(int argc, const char* const* argv);

}  // namespace paro::tool
