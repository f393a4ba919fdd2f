// A job whose ranks are threads of this process: real rendezvous, real sockets over loopback, real
// shared memory. Groups are emulated through host ids.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "horing.h"

namespace ho::test {

struct JobOptions {
  std::string groups = "2x2";       // GroupMap::parse's syntax
  bool round_robin = false;         // ranks dealt over the groups in turn instead of block order
  uint64_t timeout_ms = 120000;     // of operations
  uint32_t rails = 64;              // HORING_RAILS: one per rank of the smallest group, or fewer
  const ho_store* store = nullptr;  // where the ranks find each other, instead of an address
};

// Runs `body` on every rank in a thread of its own and returns each rank's error text ("" for
// none): that of ho_comm_create, or what the body threw.
std::vector<std::string> run_job(const JobOptions& options,
                                 const std::function<void(ho_comm*)>& body);

// The same, and every rank must succeed (a Catch2 assertion in the calling thread).
void require_job(const JobOptions& options, const std::function<void(ho_comm*)>& body);

// Throws std::runtime_error with the library's message unless status is HO_OK.
void must(ho_status status);

}  // namespace ho::test
