// sendmsg() is the tests' own in this program: see stopped_test.cpp.
#pragma once

#include "shared_count.hpp"

namespace ho::test {

// Counts the next message of the calling thread once it is sent.
void count_next_message(const SharedCount& count);

}  // namespace ho::test
