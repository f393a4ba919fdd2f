#include "base/escaped.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace ho {
namespace {

constexpr unsigned char kDelete = 0x7f;
// C1 control characters are U+0080 to U+009f: 0xc2 and one of these in UTF-8.
constexpr unsigned char kC1Lead = 0xc2;

bool is_control(unsigned char byte, unsigned char before) {
  return byte < ' ' || byte == kDelete || (before == kC1Lead && byte >= 0x80 && byte < 0xa0);
}

void append_escaped(std::string_view text, std::string& to) {
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(byte, before)) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(byte));
      to += escaped.data();
    } else {
      to += c;
    }
    before = byte;
  }
}

}  // namespace

bool is_printable_text(std::string_view text) {
  unsigned char before = 0;
  return std::ranges::none_of(text, [&before](char c) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = is_control(byte, std::exchange(before, byte));
    return control && c != '\n' && c != '\r' && c != '\t';
  });
}

std::string escaped(std::string_view text, size_t most_bytes) {
  std::string result;
  if (text.size() <= most_bytes) {
    append_escaped(text, result);
    return result;
  }
  const size_t half = most_bytes / 2;
  append_escaped(text.substr(0, half), result);
  result += "...";
  append_escaped(text.substr(text.size() - half), result);
  return result + " (" + std::to_string(text.size()) + " bytes)";
}

std::string message_text(const std::string& text) {
  constexpr size_t kLongestWord = 512;
  constexpr std::string_view kSpace = " \t\n";
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    result += escaped(word, word.size() > kLongestWord ? kMaxEscapedBytes : kLongestWord);
    result += std::string_view(text).substr(end, 1);
    begin = end + 1;
  }
  return result;
}

}  // namespace ho
