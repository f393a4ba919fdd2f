// `paro checkpoint`: what a checkpoint is of, whether it is sound, and its parameters as one file.
#pragma once

namespace paro::tool {

int checkpoint_command(int argc, const char* const* argv);

}  // namespace paro::tool
