#include "core/settings.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "catch.hpp"
#include "scoped_variable.hpp"

using ho::plugin::absolute_file;
using ho::plugin::NcclSettings;
using ho::plugin::own_library_path;
using ho::plugin::tuner_taken;

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

TEST_CASE("the tuner that NCCL takes, by its setting and by what the loader finds") {
  const std::string own = own_library_path();
  const std::string other = "/etc/hostname";  // any other file
  std::string found_name;
  std::string found_file;
  const auto file_of = [&](const std::string& name) {
    return name == found_name ? found_file : std::string();
  };
  CHECK(tuner_taken("none", file_of, own) == "none");
  CHECK(tuner_taken("None", file_of, own) == "none");
  // NCCL goes on to the network's library where it finds nothing.
  CHECK(tuner_taken(std::nullopt, file_of, own) == "ours");
  CHECK(tuner_taken("/nowhere.so", file_of, own) == "ours");
  found_name = "libnccl-tuner.so";
  found_file = other;
  CHECK(tuner_taken(std::nullopt, file_of, own) == "another (hostname)");
  CHECK(tuner_taken("", file_of, own) == "another (hostname)");
  found_name = "libnccl-tuner-horing.so";
  found_file = own;
  CHECK(tuner_taken("horing", file_of, own) == "ours");
  found_file = other;
  CHECK(tuner_taken("horing", file_of, own) == "another (hostname)");
  CHECK(ho::plugin::file_opened_by("libsurely-nothing.so").empty());
}
