// `paro plan`: memory and time of all strategies on a cluster, and which one to take.
#pragma once

namespace paro::tool {

int plan_command(int argc, const char* const* argv);

}  // namespace paro::tool
