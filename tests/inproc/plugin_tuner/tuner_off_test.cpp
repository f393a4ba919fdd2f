// The tuner of a rank whose network has turned itself off: a tuning file holds on it as on all
// others, or NCCL's ranks would choose differently and wait for each other.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "abi/net_v11.hpp"
#include "tuner_driver.hpp"

namespace ho::plugin::built {

TEST_CASE("a rank whose network is turned off follows the tuning file, and says what that means") {
  const std::string path = "tuner_off_test." + std::to_string(::getpid()) + ".csv";
  std::ofstream(path) << "all_reduce,*,*,*,*,ring\n";
  ::setenv("HORING_TUNING_FILE", path.c_str(), 1);
  ::setenv("HORING_EMULATED_RAILS", "rail0=127.0.0.1", 1);
  ::setenv("HORING_TRANSPORT", "pigeon", 1);
  void* context = nullptr;
  nccl_abi::v11::CommConfig config{};
  REQUIRE(table<nccl_abi::v11::Net>("ncclNetPlugin_v11")
              .init(&context, 1, &config, Log::write, nullptr) == Result::kSuccess);
  CHECK(Log::take().find("not usable: HORING_TRANSPORT=pigeon") != std::string::npos);
  TunerDriver tuner(5);
  REQUIRE(tuner.init(4, 2) == Result::kSuccess);
  CHECK(Log::take().find("only the tuning file counts") != std::string::npos);
  Costs costs = usual_costs(Function::kAllReduce);
  tuner.ask({Function::kAllReduce, 4096}, &costs);
  CHECK(costs.at[nccl_abi::kAlgorithmRing][nccl_abi::kProtocolSimple] == 0);
  (void)std::remove(path.c_str());
}

}  // namespace ho::plugin::built
