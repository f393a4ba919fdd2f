// Whatever fails of a runner on devices: all ranks have one cause, and nothing is left.
#include "catch.hpp"
#include "on_doubles.hpp"
