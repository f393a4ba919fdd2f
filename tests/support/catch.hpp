// The one place that knows Catch2's versions: v2 (Debian 12) has one header, v3 has several.
#pragma once

#if HORING_CATCH_VERSION >= 3
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where v2 has it
#else
#include <catch2/catch.hpp>
#endif
