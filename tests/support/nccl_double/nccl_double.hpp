// An NCCL without a GPU, for tests: a table of calls (nccl/nccl.hpp) whose collectives run on the
// streams of the double of the driver (cuda_double), as docs/design/device.md says that NCCL's do.
// It checks its callers: what is wrong becomes a violation here, and the collective never begins.
//
// The ranks of its communicators are threads of one process, each with a device of its own: what
// several processes do is tests/device's. A collective's results are computed when every rank's
// stream has come to it, sums in the order of ranks and in the type of the data.
//
// There is one per process, since NCCL's calls know no object. All of it may be called by any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl/nccl.hpp"

namespace ho::nccl_double {

struct Config {
  int version = 22809;
  // How often a communicator that is made, or a collective that is started, is in progress before
  // it is ready, or on its stream.
  int polls_to_make = 0;
  int polls_to_launch = 0;
  // The first collective of a kind on a communicator connects its ranks: it is in progress until
  // all of them have called it.
  bool first_ones_connect = true;
  // After a rank's abort the others' communicators report a remote error.
  bool aborts_reach_peers = true;
  // To abort or to destroy a communicator frees memory, which waits for every collective on the
  // device, those of other communicators too.
  bool ends_wait_for_device = false;
  // Else aborts and destroys return only once let_ends_return() is called.
  bool ends_return = true;
  // In virtual time: what a collective of so many bytes, those of all ranks' parts, takes. Empty:
  // nothing.
  std::function<int64_t(const std::string& call, size_t bytes, const std::set<int>& devices)>
      takes_ns{};
};

// Always the same table. Before the first reset() it works as a default Config says.
[[nodiscard]] const nccl::Nccl& nccl();
// Forgets everything, cuda_double::reset() included.
void reset(const Config& config = {});

// In order. Each names the rank, the communicator's number and its collective.
[[nodiscard]] std::vector<std::string> violations();
std::vector<std::string> take_violations();
// By NCCL's names: "ncclAllReduce". Since reset().
[[nodiscard]] uint64_t calls(std::string_view name);
// By NCCL's name and the ranks' devices: the bytes of all ranks' parts, of collectives that all of
// them have launched.
using MovedBytes = std::map<std::pair<std::string, std::set<int>>, uint64_t>;
// Since the last time.
[[nodiscard]] MovedBytes take_moved_bytes();
// Communicators that are neither destroyed nor aborted.
[[nodiscard]] size_t live_communicators();

// The k-th of these calls from now on (1: the next) returns the result.
void fail_call(std::string_view name, uint64_t k, nccl::ResultCode result);
// What the device's communicators report from now on.
void report_async_error(int device, nccl::ResultCode result);
// This thread's calls are of that version.
void use_version(int version);
// The device's collectives do not begin before they are let go.
void hold(int device);
void let_go(int device);
void let_ends_return();

}  // namespace ho::nccl_double
