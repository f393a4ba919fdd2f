// Figures of the method that more than one suite is held to.
#pragma once

#include <cmath>
#include <map>
#include <string>

#include "catch.hpp"

namespace paro::test {

// Equal to as many digits as the figure has.
inline void check_figure(double value, double figure, double digit) {
  CHECK(std::abs(value - figure) <= digit / 2 + 1e-9);
}

// GB of model states of the fullest rank: 7e9 parameters, all trained, 32 ranks in groups of 8.
inline const std::map<std::string, double>& seven_billion_memory_gb() {
  static const std::map<std::string, double> figures{{"NNN", 112},
                                                     {"NNI", 38.5},
                                                     {"NNG", 30.6},
                                                     {"NII", 26.3},
                                                     {"INI", 26.3},
                                                     {"NIG", 18.4},
                                                     {"ING", 18.4},
                                                     {"NGG", 17.1},
                                                     {"GNG", 17.1},
                                                     {"III", 14},
                                                     {"IIG", 6.1},
                                                     {"IGG", 4.8},
                                                     {"GIG", 4.8},
                                                     {"GGG", 3.5}};
  return figures;
}

}  // namespace paro::test
