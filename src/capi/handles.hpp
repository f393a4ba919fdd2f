// What the C functions share: the handles, and checks of what every call is given.
#pragma once

#include <spdlog/fmt/fmt.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/link_rates.hpp"
#include "horing.h"

// `process` made the handle; a forked child of it may not use it (check_process).
struct ho_comm {
  pid_t process;
  std::shared_ptr<ho::Communicator> communicator;
  std::vector<ho::LinkRate> link_rates = {};  // as ho_comm_measure_links() has found them last
};

struct ho_request {
  pid_t process;
  std::shared_ptr<ho::Communicator> communicator;
  std::shared_ptr<ho::Operation> operation;  // null: there was nothing to do
  ho_op_report* report;
  // Its thread waits on between its calls. Last: it goes before what it is about.
  std::unique_ptr<ho::Engine::Hold> hold = {};
};

namespace ho::capi {

// Longer than any job, short enough to be added to any time.
inline constexpr uint64_t kLongestMs = uint64_t{1} << 40;
// No struct of any version is larger: a larger `size` was not set by its owner.
inline constexpr size_t kLargestStructBytes = 4096;

// A forked child has copies of the handle's memory and descriptors, but none of its threads, and
// perhaps locks that no thread will release: whatever it did would hang, or move the parent's
// connections.
[[nodiscard]] Status check_process(pid_t process);
// Not null, and made by this process.
[[nodiscard]] Status check_comm(const ho_comm* comm, const char* what);
[[nodiscard]] ho_comm* new_comm(std::shared_ptr<Communicator> communicator);
[[nodiscard]] Status check_enums(int dtype, int op);

// Copies what both the caller's and this version of an option struct have. The caller's `size`
// is how much of it there is.
template <typename Options>
Result<Options> read_options(const Options* input, const Options& defaults, const char* name) {
  Options options = defaults;
  if (input == nullptr) {
    return options;
  }
  if (input->size < sizeof(input->size) || input->size > kLargestStructBytes) {
    return invalid(fmt::format(
        "{}.size is {}; set it to sizeof({}) or use its _INIT macro", name, input->size, name));
  }
  std::memcpy(&options, input, std::min(input->size, sizeof(Options)));
  return options;
}

}  // namespace ho::capi
