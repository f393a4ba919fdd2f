#include "base/escaped.hpp"

#include "base/status.hpp"
#include "catch.hpp"

TEST_CASE("a text cannot drive a terminal: its control characters are escaped") {
  CHECK(ho::escaped("plain, with blanks") == "plain, with blanks");
  CHECK(ho::escaped("a\x1b[31mb\rc\n\t\x7f") == "a\\x1b[31mb\\x0dc\\x0a\\x09\\x7f");
  CHECK(ho::escaped(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(ho::escaped("K\xc3\xb6ln") == "K\xc3\xb6ln");
  CHECK(ho::escaped("\xc2\x9b"
                    "31m") ==
        "\xc2\\x9b"
        "31m");  // another way to write ESC [
}

TEST_CASE("a long text is cut, and says how long it is") {
  const std::string text = "begin" + std::string(100'000, 'x') + "end";
  const std::string cut = ho::escaped(text, 20);
  CHECK(cut == "beginxxxxx...xxxxxxxend (100008 bytes)");
  CHECK(ho::escaped(text).size() < 300);
}

TEST_CASE("errors and system errors show values and names so") {
  const std::string name(100'000, 'n');
  const std::string said = ho::invalid("HORING_X=\x1b[2J and " + name + "; set it").message();
  CHECK(said.find("HORING_X=\\x1b[2J and nnn") == 0);
  CHECK(said.ends_with("(100000 bytes) set it") == false);
  CHECK(said.ends_with("bytes) set it"));
  CHECK(said.size() < 400);
  CHECK(ho::system_error("open(" + name + ")", 2).message().size() < 400);
  CHECK(ho::invalid("two\nlines\tand a tab").message() == "two\nlines\tand a tab");
  // Not what somebody may want to copy.
  const std::string path = "/" + std::string(500, 'p');
  CHECK(ho::invalid(path + " is there").message() == path + " is there");
}

TEST_CASE("a text with control characters is told from one that may be shown as it is") {
  CHECK(ho::is_printable_text("two\nlines, a tab\t and K\xc3\xb6ln\r\n"));
  for (const char* text : {"a\x1b[31m", "a\x7f", "a\xc2\x9b", "\x01"}) {
    CHECK_FALSE(ho::is_printable_text(text));
  }
  CHECK_FALSE(ho::is_printable_text(std::string_view("a\0b", 3)));
}
