#include "core/settings.hpp"

#include <stdlib.h>

#include <string>

#include "catch.hpp"

using ho::plugin::NcclSettings;
using ho::plugin::own_library_path;

namespace {

std::string text(const char* value) {
  return value == nullptr ? "(not set)" : value;
}

// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("what turns the plugin on is answered where nobody says otherwise") {
  const NcclSettings settings("/opt/libnccl-net-horing.so");
  CHECK(text(settings.value_of("NCCL_NET_PLUGIN")) == "/opt/libnccl-net-horing.so");
  CHECK(text(settings.value_of("NCCL_TUNER_PLUGIN")) == "/opt/libnccl-net-horing.so");
  CHECK(text(settings.value_of("NCCL_COLLNET_ENABLE")) == "1");
  CHECK(text(settings.value_of("NCCL_NET_PLUGIN_REF_COUNT")) == "1");
  CHECK(text(settings.value_of("NCCL_SOCKET_IFNAME")) == "(not set)");
  CHECK(text(settings.value_of("NCCL_NET")) == "(not set)");
}

TEST_CASE("the environment has the last word") {
  const NcclSettings settings("/opt/libnccl-net-horing.so");
  const Variable off("NCCL_COLLNET_ENABLE", "0");
  const Variable none("NCCL_NET_PLUGIN", "none");
  const Variable empty("NCCL_TUNER_PLUGIN", "");
  const Variable other("NCCL_ALGO", "ring");
  CHECK(text(settings.value_of("NCCL_COLLNET_ENABLE")) == "0");
  CHECK(text(settings.value_of("NCCL_NET_PLUGIN")) == "none");
  CHECK(text(settings.value_of("NCCL_TUNER_PLUGIN")).empty());
  CHECK(text(settings.value_of("NCCL_ALGO")) == "ring");
}

TEST_CASE("a library that does not know its file names none") {
  const NcclSettings settings("");
  CHECK(text(settings.value_of("NCCL_NET_PLUGIN")) == "(not set)");
  CHECK(text(settings.value_of("NCCL_COLLNET_ENABLE")) == "1");
}

TEST_CASE("code knows the file that it is in") {
  CHECK(own_library_path().find("unit_plugin_settings") != std::string::npos);
}
