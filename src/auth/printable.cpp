#include "auth/printable.hpp"

namespace ho {

std::string printable(std::string_view text, size_t max_bytes) {
  std::string result(text.substr(0, max_bytes));
  for (char& character : result) {
    if (character < ' ' || character > '~') {
      character = '?';
    }
  }
  return result;
}

std::string shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return std::string(text);
  }
  constexpr std::string_view kCut = "...";
  const size_t kept = max_bytes - kCut.size();
  const size_t head = kept / 3;
  return std::string(text.substr(0, head)) + std::string(kCut) +
         std::string(text.substr(text.size() - (kept - head)));
}

}  // namespace ho
