// Members of one rail, each a thread with a network of its own on loopback.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/collnet/coll_comm.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin::rail_test {

struct RailJobOptions {
  uint32_t members = 2;
  std::chrono::milliseconds timeout{30000};
  uint64_t wanted_piece_bytes = 1024;
  uint32_t rotate_handles = 0;           // handles come in another order than members
  std::vector<uint32_t> absent;          // give a handle and never come
  std::vector<uint32_t> foreign;         // give a handle of zeros and never come
  std::vector<uint32_t> deaf;            // their network has no such device, so cannot listen on it
  std::vector<std::string> consistency;  // by member: what must be the same on all, by its account
  // A member's network; the builtin one where none is given.
  std::function<std::unique_ptr<NetDriver>()> make_driver = {};
};

// One member's view. comm is null where it could not connect.
struct Member {
  uint32_t self = 0;
  uint32_t members = 0;
  CollComm* comm = nullptr;
  Status connected;
  std::function<void()> close = {};  // before the body ends
};

// Runs body on each member that comes; returns what each threw ("" for nothing).
std::vector<std::string> run_rail(const RailJobOptions& options,
                                  const std::function<void(Member&)>& body);
// The same; everything must go well (Catch2 assertions in the calling thread).
void require_rail(const RailJobOptions& options, const std::function<void(Member&)>& body);

// Throws std::runtime_error unless a promise was kept.
void expect(bool kept, const std::string& promise);

}  // namespace ho::plugin::rail_test
