// An environment variable that is set for the time of a test.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace ho::test {

class ScopedVariable {
 public:
  ScopedVariable(std::string_view name, const std::string& value) : name_(name) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { ::unsetenv(name_.c_str()); }

 private:
  std::string name_;
};

}  // namespace ho::test
