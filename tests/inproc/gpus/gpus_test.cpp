// Which GPUs are shown, where they are and which NIC goes with each, on the double.
#include "cli/host/gpus.hpp"

#include "catch.hpp"
#include "cuda_double.hpp"
#include "scoped_variable.hpp"
#include "topo/discover.hpp"

using namespace ho;

namespace {

// The double's GPUs are at 0000:3a:00.0 and 0000:3b:00.0.
constexpr const char* kHost =
    "pack:2 numa:1 core:2 pu:1; host=node1;"
    " nic=near0,numa=0,switch=1,addr=10.1.0.1/24; nic=near1,numa=1,addr=10.2.0.1/24;"
    " gpu=cuda0,numa=0,switch=1,pci=0000:3a:00.0; gpu=cuda1,numa=1,switch=2,pci=0000:3b:00.0";

Topology topology(const std::string& description) {
  auto found = discover_synthetic(description);
  REQUIRE(found.ok());
  return std::move(found).value();
}

Gpus gpus_on(const std::string& description) {
  return find_gpus(&cuda_double::driver(), topology(description), *parse_interface_filter(""));
}

}  // namespace

TEST_CASE("each GPU is shown with its place and the nearest NIC") {
  cuda_double::reset();
  const Gpus gpus = gpus_on(kHost);
  REQUIRE(gpus.list.size() == 2);
  CHECK(gpus.why_none.empty());
  CHECK(gpus.driver.find("CUDA 12.0") != std::string::npos);
  CHECK(to_string(gpus.list[0]) ==
        "double 0, 1.0 GiB, 0000:3a:00.0, NUMA 0, NIC near0 (same PCIe switch)");
  CHECK(to_string(gpus.list[1]) ==
        "double 1, 1.0 GiB, 0000:3b:00.0, NUMA 1, NIC near1 (same NUMA node)");
  CHECK(cuda_double::live().none());
}

TEST_CASE("a GPU that the PCI tree does not have gets any NIC and says so") {
  cuda_double::reset();
  const Gpus gpus = gpus_on("pack:2 numa:1 core:2 pu:1; nic=eth0,numa=0,addr=10.1.0.1/24");
  REQUIRE(gpus.list.size() == 2);
  CHECK(to_string(gpus.list[1]) ==
        "double 1, 1.0 GiB, 0000:3b:00.0, NUMA ?, NIC eth0 (any: no PCI path known)");
}

TEST_CASE("GPUs of a host without a usable NIC have none") {
  cuda_double::reset();
  const Gpus gpus = gpus_on("pack:1 core:2 pu:1; gpu=cuda0,numa=0,pci=0000:3a:00.0");
  REQUIRE(gpus.list.size() == 2);
  CHECK(to_string(gpus.list[0]) == "double 0, 1.0 GiB, 0000:3a:00.0, NUMA 0, no NIC");
}

TEST_CASE("without a driver or a GPU one line says why") {
  const Topology host = topology(kHost);
  const auto filter = *parse_interface_filter("");
  const Gpus none =
      find_gpus(Status(StatusCode::kUnsupported, "no CUDA driver: install one"), host, filter);
  CHECK(none.list.empty());
  CHECK(none.why_none == "no CUDA driver: install one");
  cuda_double::Config config;
  config.devices = 0;
  cuda_double::reset(config);
  const Gpus hidden = gpus_on(kHost);
  CHECK(hidden.list.empty());
  CHECK(hidden.why_none.find("shows this process no GPU; look at nvidia-smi") != std::string::npos);
  cuda_double::reset();
  cuda_double::fail_call("init", 1, device::kNotPermitted);
  const Gpus refused = gpus_on(kHost);
  CHECK(refused.list.empty());
  CHECK(refused.why_none.starts_with("cuInit: CUDA_ERROR_NOT_PERMITTED"));
  CHECK(refused.why_none.find('\n') == std::string::npos);
}

TEST_CASE("a rank of a launcher is told which GPU it takes") {
  cuda_double::reset();
  const Gpus gpus = gpus_on(kHost);
  CHECK_FALSE(gpu_of_this_rank(cuda_double::driver(), gpus).has_value());
  const test::ScopedVariable rank("RANK", "3");
  const test::ScopedVariable world("WORLD_SIZE", "4");
  const test::ScopedVariable address("MASTER_ADDR", "127.0.0.1");
  const test::ScopedVariable port("MASTER_PORT", "29500");
  {
    const test::ScopedVariable local_rank("LOCAL_RANK", "1");
    const auto taken = gpu_of_this_rank(cuda_double::driver(), gpus);
    REQUIRE(taken.has_value());
    CHECK(taken->device == 1);
    CHECK(taken->text == "this rank (local rank 1) takes GPU 1 of 2");
  }
  const test::ScopedVariable local_rank("LOCAL_RANK", "3");
  const test::ScopedVariable visible("CUDA_VISIBLE_DEVICES", "4,5");
  const auto taken = gpu_of_this_rank(cuda_double::driver(), gpus);
  REQUIRE(taken.has_value());
  CHECK(taken->text ==
        "this rank (local rank 3) takes GPU 1 of 2 (CUDA_VISIBLE_DEVICES=4,5); local rank 1 may "
        "take it too");
}
