// The built library as NCCL has it: by dlopen and its tables, nothing else of it is linked.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "abi/common.hpp"
#include "catch.hpp"

namespace ho::plugin::built {

template <typename Table>
Table& table(const char* symbol) {
  // The test's own variable.
  static const char* const file = std::getenv("PLUGIN_LIBRARY");
  REQUIRE(file != nullptr);
  static void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  INFO(file << " " << symbol);
  REQUIRE(library != nullptr);
  void* const found = ::dlsym(library, symbol);
  REQUIRE(found != nullptr);
  return *static_cast<Table*>(found);
}

// NCCL's log.
class Log {
 public:
  static void write(nccl_abi::LogLevel level,
                    unsigned long /*flags*/,
                    const char* /*file*/,
                    int /*line*/,
                    const char* format,
                    ...) {
    std::array<char, 4096> text{};
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    const std::lock_guard lock(mutex_);
    lines_.push_back((level == nccl_abi::LogLevel::kWarn ? "WARN " : "") +
                     std::string(text.data()));
  }
  // What was said since the last call, one line each.
  static std::string take() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) {
      all += line + "\n";
    }
    lines_.clear();
    return all;
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<std::string> lines_;
};

}  // namespace ho::plugin::built
