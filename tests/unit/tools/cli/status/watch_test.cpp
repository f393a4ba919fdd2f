#include "cli/status/watch.hpp"

#include "catch.hpp"

using namespace ho;

TEST_CASE("a text that fits a screen stays whole") {
  CHECK(cut_to_screen("a\nb\n", 3) == "a\nb\n");
  CHECK(cut_to_screen("a\nb\n", SIZE_MAX) == "a\nb\n");
}

TEST_CASE("a text that a screen has no room for says what is left out") {
  CHECK(cut_to_screen("a\nb\nc\n", 3) == "a\nand 2 lines more\n");
  CHECK(cut_to_screen("a\nb\nc\nd\n", 4) == "a\nb\nand 2 lines more\n");
}
