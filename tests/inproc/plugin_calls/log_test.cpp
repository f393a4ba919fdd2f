// Where the plugin's warnings go. What is set comes from meson.build.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "abi/collnet_v11.hpp"
#include "abi/net_v11.hpp"
#include "built_library.hpp"

namespace ho::plugin::built {
namespace {

using nccl_abi::Result;

// What goes to stderr meanwhile.
class CaughtStderr {
 public:
  CaughtStderr() : file_(std::tmpfile(), &std::fclose), old_(::dup(STDERR_FILENO)) {
    REQUIRE(file_ != nullptr);
    REQUIRE(::dup2(::fileno(file_.get()), STDERR_FILENO) >= 0);
  }
  CaughtStderr(const CaughtStderr&) = delete;
  CaughtStderr& operator=(const CaughtStderr&) = delete;
  ~CaughtStderr() { end(); }
  std::string end() {
    if (old_ >= 0) {
      ::dup2(old_, STDERR_FILENO);
      ::close(old_);
      old_ = -1;
    }
    std::array<char, 8192> text{};
    std::rewind(file_.get());
    return {text.data(), std::fread(text.data(), 1, text.size(), file_.get())};
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int old_;
};

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
  const bool shown_by_nccl = std::getenv("NCCL_DEBUG") != nullptr;
  const bool wanted = std::getenv("HORING_LOG_LEVEL") != nullptr;
  CHECK(count(to_nccl, "WARN CollNet finalize") == 1);
  CHECK(count(own, "CollNet finalize") == (shown_by_nccl && !wanted ? 0 : 1));
}

}  // namespace
}  // namespace ho::plugin::built
