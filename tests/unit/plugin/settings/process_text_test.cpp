// How a process is named where there is little room, as in a listener's handle.
#include "core/driver/process_text.hpp"

#include "catch.hpp"
#include "has.hpp"

using ho::plugin::on_host_text;

namespace {
constexpr size_t kMaxBytes = 32;  // of a handle
}

TEST_CASE("a name that is short enough stays whole") {
  CHECK(on_host_text("RANK 1", "node1", "", kMaxBytes) == "RANK 1 on node1");
  CHECK(on_host_text("RANK 1", "n1.x", "a", kMaxBytes) == "RANK 1 on n1.x, NCCL_HOSTID a");
  CHECK(on_host_text("pid 4194304", "node1.cluster", "", kMaxBytes) ==
        "pid 4194304 on node1.cluster");
}

TEST_CASE("where there is no room for all, rank and host stay readable") {
  CHECK(on_host_text("RANK 1", "ip-10-0-0-17.eu-west-1.compute.internal", "", kMaxBytes) ==
        "RANK 1 on ip-10-0-0-17");
  CHECK(on_host_text("RANK 1", "node1.long.domain.example", "a", kMaxBytes) ==
        "RANK 1 on node1, NCCL_HOSTID a");
  CHECK(on_host_text("RANK 1", "0f3b2a1c9d8e", "horing-test-1", kMaxBytes) ==
        "RANK 1 on 0f3b2a1c9d8e");
  const std::string longest =
      on_host_text("RANK 1000000", "a-training-job-with-a-long-name-worker-17", "x", kMaxBytes);
  CHECK(longest.size() == kMaxBytes);
  CHECK(has(longest, "RANK 1000000 on a-"));
  CHECK(longest.ends_with("worker-17"));
  CHECK(on_host_text("RANK 1", "node1", "", 12).size() <= 12);
}
