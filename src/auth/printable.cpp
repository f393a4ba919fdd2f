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

}  // namespace ho
