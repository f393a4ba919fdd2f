// What the C functions share: the handle, and checks of what every call is given.
#pragma once

#include <paro.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/saver.hpp"
#include "observe/step_log.hpp"
#include "run/step_runner.hpp"
#include "steering/steering.hpp"

// `process` made the handle; a forked child of it may not use it.
struct paro_runner {
  pid_t process = 0;
  std::unique_ptr<paro::Memory> memory;  // outlives the runner
  // Null after a change of strategy that could not even be undone; `lost` has the reason.
  std::unique_ptr<paro::StepRunner> runner;
  ho::Status lost;
  bool frozen_as_parameters = true;
  std::optional<paro::steering::Steering> steering;
  std::optional<paro::observe::StepLog> log;       // where it writes anything
  std::unique_ptr<paro::checkpoint::Saver> saver;  // from the first save on
  ho::Status lost_save;  // of a saver that a rejoin has ended, until a call returns it
};

namespace paro::capi {

// No struct of any version is larger: a larger `size` was not set by its owner.
inline constexpr size_t kLargestStructBytes = 4096;

// Not null, and made by this process: a forked child has copies of the handle's memory, but what it
// did with the communicators would move the parent's connections.
[[nodiscard]] ho::Status check_runner(const paro_runner* runner, const char* what);

// Every field of a struct with `size` ends on a multiple of it or shares one with its neighbour, so
// a size that is none would cut a field in two.
[[nodiscard]] ho::Status check_size(size_t size, const char* name);

// Room for later fields: a caller that sets it needs a feature that this version does not have.
[[nodiscard]] ho::Status check_reserved(int64_t value, const std::string& field);

// What a caller's enumerator is as a number. It may be none of the enumeration's, so it must not be
// read as one.
template <typename Enum>
int number_of(const Enum& value) {
  int number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// Copies what both the caller's and this version of an option struct have.
template <typename Options>
ho::Result<Options> read_options(const Options* input, const Options& defaults, const char* name) {
  Options options = defaults;
  if (input == nullptr) {
    return options;
  }
  HORING_TRY(check_size(input->size, name));
  std::memcpy(static_cast<void*>(&options), input, std::min(input->size, sizeof(Options)));
  return options;
}

// Before a call does anything, so that a result that cannot be written is not a surprise at its
// end.
template <typename Out>
ho::Status check_out(const Out* out, const char* name) {
  return out == nullptr ? ho::invalid(std::string("a null ") + name) : check_size(out->size, name);
}

template <typename Out>
void write_out(Out* target, const Out& values) {
  const size_t size = target->size;
  std::memcpy(static_cast<void*>(target), &values, std::min(size, sizeof(Out)));
  target->size = size;
}

}  // namespace paro::capi
