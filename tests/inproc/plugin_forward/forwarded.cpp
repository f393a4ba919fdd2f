#include "forwarded.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <filesystem>

#include "catch.hpp"

namespace ho::plugin::forward_test {

std::string file_of(const std::string& name) {
  return std::string(FORWARDED_FOLDER) + "/libnccl-net-" + name + ".so";
}

std::string plugin_of(int version) {
  return file_of("loopback" + std::to_string(version));
}

std::string our_library() {
  return OUR_LIBRARY;
}

std::string in_a_process(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(120);
    const std::string text = body();
    const bool whole =
        ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(whole ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = ::read(ends[0], bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0
             ? text
             : text + " (ended with wait status " + std::to_string(status) + ")";
}

std::string& reported() {
  static std::string text;
  return text;
}
void log_as_nccl(nccl_abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  std::array<char, 4096> line{};
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  reported() += std::string(line.data()) + "\n";
}

size_t sockets_of_class(int traffic_class) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int found = 0;
    socklen_t size = sizeof found;
    const int fd = std::stoi(entry.path().filename().string());
    const bool is_socket = ::getsockopt(fd, IPPROTO_IP, IP_TOS, &found, &size) == 0;
    count += is_socket && found == traffic_class ? 1U : 0U;
  }
  return count;
}

}  // namespace ho::plugin::forward_test
