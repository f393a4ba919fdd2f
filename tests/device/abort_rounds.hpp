// Aborts in the middle of calls with device memory, over and over, on whatever driver() is.
#pragma once

#include <string>
#include <vector>

namespace ho::test {

// One job of 2x2 ranks, threads of this process: they all-reduce until one of them, which a thread
// of its own makes abort after some milliseconds, ends the calls of all. Then every rank's stream
// must still copy and its status tell why. Errors of the ranks, "" for none.
[[nodiscard]] std::vector<std::string> abort_round(int round, int devices);

}  // namespace ho::test
