// How another plugin's library is found, and what is refused.
#include <filesystem>

#include "catch.hpp"
#include "core/forward/net_library.hpp"
#include "forwarded.hpp"
#include "temporary_folder.hpp"

namespace ho::plugin::forward_test {
namespace {

using forward::files_of;
using forward::open_net_library;

std::string refusal(const std::string& name, int newest = forward::kNewestVersion) {
  const auto opened = open_net_library(name, newest);
  REQUIRE(opened.status().code() == StatusCode::kInvalidArgument);
  return opened.status().message();
}

bool holds(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("a plugin is looked for as NCCL does") {
  REQUIRE(files_of("ofi") == std::vector<std::string>{"ofi", "libnccl-net-ofi.so"});
  REQUIRE(files_of("rdma-sharp") ==
          std::vector<std::string>{"rdma-sharp", "libnccl-net-rdma-sharp.so"});
  REQUIRE(files_of("/opt/a/libnet.so") == std::vector<std::string>{"/opt/a/libnet.so"});
  REQUIRE(files_of("./plugin") == std::vector<std::string>{"./plugin"});
  REQUIRE(files_of("libnccl-net.so") == std::vector<std::string>{"libnccl-net.so"});
}

TEST_CASE("a plugin is opened with the newest table that it has") {
  for (const int version : {8, 9, 10, 11, 12}) {
    const auto opened = open_net_library(plugin_of(version));
    REQUIRE(opened.ok());
    REQUIRE(opened->version == version);
    REQUIRE(opened->file == plugin_of(version));
    REQUIRE(opened->table != nullptr);
  }
  const auto newest = open_net_library(our_library());
  REQUIRE(newest.ok());
  REQUIRE(newest->version == 12);
  const auto older = open_net_library(our_library(), 9);
  REQUIRE(older.ok());
  REQUIRE(older->version == 9);
}

TEST_CASE("a name alone finds libnccl-net-NAME.so") {
  // The loader knows a library that is open by its name too, wherever it lies.
  const auto open_already = SharedLibrary::open(plugin_of(10));
  REQUIRE(open_already.ok());
  const auto opened = open_net_library("loopback10");
  REQUIRE(opened.status().message() == "");
  REQUIRE(opened->file == plugin_of(10));
}

TEST_CASE("a plugin that is not there is refused with all that was tried") {
  const std::string text = refusal("nowhere");
  REQUIRE(holds(text, "HORING_NET_FORWARD=nowhere: no such plugin can be opened: "));
  REQUIRE(holds(text, "nowhere: cannot open shared object file"));
  REQUIRE(holds(text, "libnccl-net-nowhere.so: cannot open shared object file"));
  REQUIRE(holds(text, "LD_LIBRARY_PATH"));
  REQUIRE(holds(refusal("/nowhere/libx.so"), "/nowhere/libx.so: cannot open"));
}

TEST_CASE("a plugin whose file is cut off is refused instead of killing the process") {
  const test::TemporaryFolder folder;
  const std::string cut = folder.path("libnccl-net-cut.so");
  std::filesystem::copy_file(our_library(), cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 3);
  const std::string text = refusal(cut);
  REQUIRE(holds(text, "HORING_NET_FORWARD=" + cut + ": " + cut + " is cut off: it has "));
  REQUIRE(holds(text, "install it again"));
}

TEST_CASE("a library that is no net plugin, or too old a one, is refused") {
  REQUIRE(holds(refusal("libm.so.6"), "has none of ncclNetPlugin_v12 to ncclNetPlugin_v8"));
  REQUIRE(holds(refusal(file_of("old")), "has a net plugin of version 7, and version 8 is"));
  REQUIRE(holds(refusal(plugin_of(12), 11), "has none of ncclNetPlugin_v11 to ncclNetPlugin_v8"));
}

}  // namespace
}  // namespace ho::plugin::forward_test
