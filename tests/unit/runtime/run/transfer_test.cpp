// A transfer of several collectives, which are those of this file: none needs another rank.
#include "run/transfer.hpp"

#include <horing.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"

namespace {

// How each collective ends, by its communicator; such a pointer is never followed.
std::map<const ho_comm*, ho_status> outcomes;
std::string last_error;

ho_comm* comm_of(uintptr_t number) {
  return reinterpret_cast<ho_comm*>(64 * number);
}

}  // namespace

extern "C" {

ho_status ho_all_reduce(ho_comm* comm,
                        const void* /*send*/,
                        void* /*recv*/,
                        size_t /*count*/,
                        ho_dtype /*dtype*/,
                        ho_op /*op*/,
                        const ho_call_options* /*options*/,
                        ho_op_report* /*report*/,
                        ho_request** request) {
  *request = reinterpret_cast<ho_request*>(comm);
  return HO_OK;
}

ho_status ho_request_wait(ho_request* request, uint64_t /*timeout_ms*/) {
  const auto* comm = reinterpret_cast<const ho_comm*>(request);
  last_error = "of " + std::to_string(reinterpret_cast<uintptr_t>(comm) / 64);
  return outcomes.at(comm);
}

const char* ho_last_error_message(void) {
  return last_error.c_str();
}

}  // extern "C"

namespace paro {

TEST_CASE("a transfer fails with the first error of its collectives, whatever the others bring") {
  HostMemory memory;
  Ledger ledger(memory);
  std::array<float, 4> values{};
  const ElementView view(reinterpret_cast<std::byte*>(values.data()), ho::DType::kFloat32);
  const std::vector<ho_status> kinds{HO_OK, HO_TIMEOUT, HO_PEER_LOST};
  for (const ho_status one : kinds) {
    for (const ho_status two : kinds) {
      for (const bool early : {false, true}) {
        outcomes = {{comm_of(1), one}, {comm_of(2), two}, {comm_of(3), HO_OK}};
        std::vector<Route> routes(3);
        for (size_t leg = 0; leg < routes.size(); ++leg) {
          routes[leg].comm = comm_of(leg + 1);
          routes[leg].count = 1;
          routes[leg].begin = leg;
        }
        Transfer transfer(ledger, {});
        REQUIRE(transfer.all_reduce(routes, {&view, 1}).ok());
        if (early) {
          CHECK(transfer.over_within(1));
        }
        const ho::Status ended = transfer.finish();
        INFO("ends: " << one << ", " << two << ", early: " << early);
        const ho_status first = one != HO_OK ? one : two;
        CHECK(static_cast<ho_status>(ended.code()) == first);
        CHECK((first == HO_OK || ended.message() == (one != HO_OK ? "of 1" : "of 2")));
      }
    }
  }
}

}  // namespace paro
