// What opening UCX does to a process. What the environment asks for comes from meson.build.
#include <array>
#include <csignal>
#include <cstdlib>

#include "catch.hpp"
#include "transport/ucx/worker.hpp"

namespace ho::ucx {
namespace {

using Handler = void (*)(int);
constexpr std::array<int, 5> kSignals{SIGHUP, SIGILL, SIGSEGV, SIGBUS, SIGFPE};

std::array<Handler, kSignals.size()> handlers() {
  std::array<Handler, kSignals.size()> found{};
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    REQUIRE(sigaction(kSignals.at(i), nullptr, &action) == 0);
    found.at(i) = action.sa_handler;
  }
  return found;
}

// The first of all: a library is opened once.
TEST_CASE("opening UCX leaves signals alone, but for those that the environment gives to it") {
  const auto before = handlers();
  const auto context = Context::create(UCP_FEATURE_TAG);
  INFO(context.status().message());
  REQUIRE(context.ok());
  const auto after = handlers();
  const bool menu = std::getenv("UCX_DEBUG_SIGNO") != nullptr;
  const bool faults = std::getenv("UCX_ERROR_SIGNALS") != nullptr;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    INFO("signal " << kSignals.at(i));
    const bool requested = kSignals.at(i) == SIGHUP ? menu : faults;
    REQUIRE((before.at(i) == after.at(i)) == !requested);
  }
}

TEST_CASE("a UCX that cannot be opened is an error that says what to do") {
  const Status missing = open_library("libucp-of-nobody.so.0").status();
  REQUIRE_THAT(missing.message(),
               Catch::Matchers::Contains("libucp-of-nobody.so.0 (") &&
                   Catch::Matchers::Contains("No such file") &&
                   Catch::Matchers::Contains("HORING_TRANSPORT=tcp"));
  const Status other = open_library("libsodium.so.23").status();
  REQUIRE_THAT(other.message(),
               Catch::Matchers::Contains("libsodium.so.23 (it has no ucp_am_data_release)"));
  REQUIRE(other.code() == StatusCode::kUnsupported);
}

}  // namespace
}  // namespace ho::ucx
