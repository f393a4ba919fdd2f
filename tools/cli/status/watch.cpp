#include "cli/status/watch.hpp"

#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ho {
namespace {

// Nothing is on the screen but the last text, whose lines are cut at its edge.
constexpr const char* kBegin = "\x1b[?7l";
constexpr const char* kAgain = "\x1b[H\x1b[2J";
constexpr const char* kEnd = "\x1b[?7h";

size_t rows_of_terminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : SIZE_MAX;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace

std::string cut_to_screen(const std::string& text, size_t rows) {
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  if (lines < rows || rows < 2) {  // the cursor has a line too
    return text;
  }
  size_t end = 0;
  for (size_t i = 0; i + 2 < rows; ++i) {
    end = text.find('\n', end) + 1;
  }
  return text.substr(0, end) + fmt::format("and {} lines more\n", lines - (rows - 2));
}

void watch(std::chrono::milliseconds every,
           const std::function<std::optional<std::string>()>& look) {
  sigset_t ends{};
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGINT);
  ::sigaddset(&ends, SIGTERM);
  (void)::sigprocmask(SIG_BLOCK, &ends, nullptr);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(every);
  const timespec pause{seconds.count(), std::chrono::nanoseconds(every - seconds).count()};
  const bool draws = ::isatty(STDOUT_FILENO) == 1;
  print(draws ? kBegin : "");
  bool first = true;
  do {
    const auto text = look();
    if (!text) {
      break;
    }
    print(draws ? kAgain + cut_to_screen(*text, rows_of_terminal()) : (first ? "" : "\n") + *text);
    first = false;
  } while (::sigtimedwait(&ends, nullptr, &pause) < 0 && std::ferror(stdout) == 0);
  print(draws ? kEnd : "");
}

}  // namespace ho
