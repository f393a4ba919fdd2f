// `paro strategies`: the 14 ways to shard, and what they are known as.
#pragma once

namespace paro::tool {

int strategies_command(int argc, const char* const* argv);

}  // namespace paro::tool
