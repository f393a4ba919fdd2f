// What is likely to fail, or to be slow, with an assignment. Pure.
#pragma once

#include <string>
#include <vector>

#include "topo/assign.hpp"

namespace ho {

// One line each: a rail whose ends are on different subnets, or on two hosts with one address; a
// rank with a NIC that is much slower than others.
[[nodiscard]] std::vector<std::string> assignment_warnings(const Assignment& assignment);

}  // namespace ho
