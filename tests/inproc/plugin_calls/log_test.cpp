// Where the plugin's warnings go. What is set comes from meson.build.
#include "abi/collnet_v11.hpp"
#include "abi/net_v11.hpp"
#include "built_library.hpp"
#include "caught_stderr.hpp"

namespace ho::plugin::built {
namespace {

using nccl_abi::Result;
using test::CaughtStderr;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("a warning appears once, and where somebody sees it") {
  auto& net = table<nccl_abi::v11::Net>("ncclNetPlugin_v11");
  auto& coll_net = table<nccl_abi::v11::CollNet>("ncclCollNetPlugin_v11");
  void* of_net = nullptr;
  void* context = nullptr;
  nccl_abi::v11::CommConfig config{};
  CaughtStderr caught;
  REQUIRE(net.init(&of_net, 5, &config, Log::write, nullptr) == Result::kSuccess);
  REQUIRE(coll_net.init(&context, 5, Log::write) == Result::kSuccess);
  CHECK(coll_net.finalize(context) == Result::kSuccess);
  CHECK(coll_net.finalize(context) == Result::kInvalidArgument);
  const std::string own = caught.end();
  const std::string to_nccl = Log::take();
  INFO(own << to_nccl);
  const bool printed_by_nccl = std::getenv("NCCL_DEBUG") != nullptr;
  const bool wanted = std::getenv("HORING_LOG_LEVEL") != nullptr;
  CHECK(count(to_nccl, "WARN CollNet finalize") == 1);
  CHECK(count(own, "CollNet finalize") == (printed_by_nccl && !wanted ? 0 : 1));
}

}  // namespace
}  // namespace ho::plugin::built
