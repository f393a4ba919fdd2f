#include "cli/run/output.hpp"

#include "catch.hpp"

namespace ho {

TEST_CASE("whole lines alone are printed, each with its prefix") {
  LinePrefixer lines("[3] ", false);
  CHECK(lines.add("one\ntw").empty() == false);
  CHECK(lines.add("o\n\nthree") == "[3] two\n[3] \n");
  CHECK(lines.finish() == "[3] three\n");
  CHECK(lines.finish().empty());
}

TEST_CASE("however the bytes are cut, the lines are the same") {
  const std::string text = "a\nbc\n\ndef\ng";
  const std::string expected = "> a\n> bc\n> \n> def\n> g\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    LinePrefixer lines("> ", false);
    std::string got;
    for (size_t at = 0; at < text.size(); at += step) {
      got += lines.add(std::string_view(text).substr(at, step));
    }
    CHECK(got + lines.finish() == expected);
  }
}

TEST_CASE("a line without end is not held for ever") {
  LinePrefixer lines("> ", false);
  const std::string part(LinePrefixer::kMaxHeldBytes + 1, 'x');
  CHECK(lines.add(part) == "> " + part);
  CHECK(lines.add("y\nz\n") == "y\n> z\n");
}

TEST_CASE("raw output passes as it is") {
  LinePrefixer lines("> ", true);
  CHECK(lines.add("50 %\r") == "50 %\r");
  CHECK(lines.finish().empty());
}

}  // namespace ho
