#include "core/settings.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "catch.hpp"
#include "scoped_variable.hpp"

using ho::plugin::absolute_file;
using ho::plugin::NcclSettings;
using ho::plugin::own_library_path;

namespace {

std::string text(const char* value) {
  return value == nullptr ? "(not set)" : value;
}

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
  const ho::test::ScopedVariable off("NCCL_COLLNET_ENABLE", "0");
  const ho::test::ScopedVariable none("NCCL_NET_PLUGIN", "none");
  const ho::test::ScopedVariable empty("NCCL_TUNER_PLUGIN", "");
  const ho::test::ScopedVariable other("NCCL_ALGO", "ring");
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
  CHECK(own_library_path().front() == '/');
  CHECK(absolute_file("./plugin/libx.so") == std::filesystem::current_path() / "plugin/libx.so");
  CHECK(absolute_file("/opt/libx.so") == "/opt/libx.so");
  CHECK(absolute_file("").empty());
  CHECK(absolute_file(nullptr).empty());
}
