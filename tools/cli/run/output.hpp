// Ranks' output on its way to the terminal: whole lines, each with its rank in front.
#pragma once

#include <string>
#include <string_view>

namespace ho {

// Cuts a stream into lines. Pure.
class LinePrefixer {
 public:
  // raw: passes everything on at once, as it is.
  LinePrefixer(std::string prefix, bool raw) : prefix_(std::move(prefix)), raw_(raw) {}

  // What can be written now: the complete lines. A line longer than kMaxHeldBytes goes out in
  // parts.
  [[nodiscard]] std::string add(std::string_view bytes);
  // The last line when it had no end; gets one.
  [[nodiscard]] std::string finish();

  static constexpr size_t kMaxHeldBytes = 1 << 20;

 private:
  std::string prefix_;
  bool raw_;
  std::string held_;          // the incomplete line
  bool inside_line_ = false;  // its beginning was written already
};

}  // namespace ho
