// The plugins that this suite forwards to, and processes that load ours as NCCL does.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "abi/common.hpp"

namespace ho::plugin::forward_test {

[[nodiscard]] std::string file_of(const std::string& name);
// Has a table of that version only.
[[nodiscard]] std::string plugin_of(int version);
[[nodiscard]] std::string our_library();

// Runs body in a process of its own, since a process has one network; its text, or how it died.
[[nodiscard]] std::string in_a_process(const std::function<std::string()>& body);

// NCCL's log, and what has been written into it.
void log_as_nccl(nccl_abi::LogLevel level,
                 unsigned long flags,
                 const char* file,
                 int line,
                 const char* format,
                 ...);
[[nodiscard]] std::string& reported();

// Open sockets of this process whose packets carry that class.
[[nodiscard]] size_t sockets_of_class(int traffic_class);

}  // namespace ho::plugin::forward_test
