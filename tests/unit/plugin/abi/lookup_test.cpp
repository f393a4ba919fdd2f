// Files and symbols that a release tries, in its order.
#include "abi/lookup.hpp"

#include <string>
#include <vector>

#include "catch.hpp"

using nccl_abi::files_tried;
using nccl_abi::FilesTried;
using nccl_abi::PluginKind;
using nccl_abi::TunerFallback;

namespace {

const nccl_abi::Release& release(const std::string& version) {
  const auto found = nccl_abi::find_release(version);
  REQUIRE(found);
  return *found->release;
}

std::vector<FilesTried> net(const std::string& version, const char* setting) {
  return files_tried(release(version), PluginKind::kNet, setting);
}

std::vector<FilesTried> tuner(const std::string& version, const char* setting) {
  return files_tried(release(version), PluginKind::kTuner, setting);
}

using Plugins = std::vector<FilesTried>;

}  // namespace

TEST_CASE("symbols of a release are in the order in which it looks them up") {
  CHECK(symbols(release("2.19.4"), PluginKind::kNet) ==
        std::vector<std::string>{"ncclNetPlugin_v7", "ncclNetPlugin_v6", "ncclNetPlugin_v5"});
  CHECK(symbols(release("2.28.9"), PluginKind::kCollNet).front() == "ncclCollNetPlugin_v11");
  CHECK(symbols(release("2.22.3"), PluginKind::kTuner) ==
        std::vector<std::string>{"ncclTunerPlugin_v3", "ncclTunerPlugin_v2"});
  CHECK(symbols(release("2.30.7"), PluginKind::kEnv) ==
        std::vector<std::string>{"ncclEnvPlugin_v2", "ncclEnvPlugin_v1"});
  CHECK(symbols(release("2.27.7"), PluginKind::kEnv).empty());
}

TEST_CASE("without a name the default file is tried") {
  for (const char* version : {"2.19.4", "2.21.5", "2.26.2", "2.27.3", "2.30.7"}) {
    CAPTURE(version);
    CHECK(net(version, nullptr) == Plugins{{"libnccl-net.so"}});
  }
  CHECK(tuner("2.20.5", nullptr).empty());
  CHECK(tuner("2.21.5", nullptr) == Plugins{{"libnccl-tuner.so"}});
  CHECK(tuner("2.30.7", "") == Plugins{{"libnccl-tuner.so"}});
  CHECK(files_tried(release("2.28.9"), PluginKind::kEnv, nullptr) == Plugins{{"libnccl-env.so"}});
  CHECK(files_tried(release("2.28.3"), PluginKind::kEnv, "/x/libe.so").empty());
}

TEST_CASE("a short name is looked up as each release does") {
  CHECK(net("2.19.4", "horing") == Plugins{{"libnccl-net-horing.so"}});
  CHECK(net("2.21.5", "horing") == Plugins{{"horing", "libnccl-net-horing.so"}});
  CHECK(net("2.27.3", "horing") == Plugins{{"libnccl-net-horing.so"}});
  CHECK(net("2.28.9", "horing") == Plugins{{"horing", "libnccl-net-horing.so"}});
  CHECK(tuner("2.20.5", "horing") == Plugins{{"horing"}});
  CHECK(tuner("2.28.9", "horing") == Plugins{{"horing", "libnccl-tuner-horing.so"}});
}

TEST_CASE("a path works except where the release has no way to give one") {
  const char* path = "/opt/libnccl-net-horing.so";
  CHECK(net("2.20.5", path) == Plugins{{"libnccl-net-/opt/libnccl-net-horing.so.so"}});
  CHECK(net("2.25.1", path).front().front() == path);
  CHECK(net("2.26.6", path).front().size() == 2);
  CHECK(net("2.27.3", path) == Plugins{{"libnccl-net-/opt/libnccl-net-horing.so.so"}});
  CHECK(net("2.27.5", path) == Plugins{{path}});
  CHECK(net("2.30.7", path) == Plugins{{path}});
  CHECK(net("2.30.7", "./plain") == Plugins{{"./plain"}});
  CHECK(tuner("2.19.4", path) == Plugins{{path}});
}

TEST_CASE("a library's name is looked up as each release does") {
  CHECK(net("2.20.5", "libx.so") == Plugins{{"libnccl-net-libx.so.so"}});
  CHECK(net("2.26.2", "libx.so") == Plugins{{"libx.so", "libnccl-net-libx.so.so"}});
  CHECK(net("2.27.3", "libx.so") == Plugins{{"libx.so"}});
  CHECK(net("2.28.9", "libx.so") == Plugins{{"libx.so"}});
  CHECK(net("2.28.9", "libx") == Plugins{{"libx", "libnccl-net-libx.so"}});
  CHECK(net("2.28.9", "x.so") == Plugins{{"x.so", "libnccl-net-x.so.so"}});
}

TEST_CASE("a net list names several plugins since 2.27") {
  CHECK(net("2.26.6", "a,b") == Plugins{{"a,b", "libnccl-net-a,b.so"}});
  CHECK(net("2.27.5", ",a,,/b/c,") == Plugins{{"a", "libnccl-net-a.so"}, {"/b/c"}});
  CHECK(net("2.27.5", "").empty());
  CHECK(net("2.26.6", "") == Plugins{{"libnccl-net.so"}});
  CHECK(tuner("2.27.5", "a,b") == Plugins{{"a,b", "libnccl-tuner-a,b.so"}});
  std::string many = "n0";
  for (int i = 1; i < 20; ++i) {
    many += ",n" + std::to_string(i);
  }
  const Plugins plugins = net("2.28.9", many.c_str());
  REQUIRE(plugins.size() == nccl_abi::kMaxListedNets);
  CHECK(plugins.back().front() == "n13");
}

TEST_CASE("none is a word since 2.28 and a name before") {
  CHECK(net("2.27.7", "none") == Plugins{{"none", "libnccl-net-none.so"}});
  CHECK(net("2.28.3", "none").empty());
  CHECK(net("2.28.3", "None").empty());
  CHECK(net("2.28.3", "none,a").size() == 2);
  CHECK(tuner("2.27.7", "none").size() == 1);
  CHECK(tuner("2.28.3", "NONE").empty());
  CHECK(files_tried(release("2.28.9"), PluginKind::kEnv, "none").empty());
}

TEST_CASE("a beginning of STATIC_PLUGIN is the program itself") {
  const std::string self = nccl_abi::kMainProgram;
  CHECK(net("2.21.5", "STATIC_PLUGIN") ==
        Plugins{{"STATIC_PLUGIN", "libnccl-net-STATIC_PLUGIN.so"}});
  CHECK(net("2.22.3", "STATIC_PLUGIN") == Plugins{{self}});
  CHECK(net("2.28.9", "st") == Plugins{{self}});
  CHECK(net("2.28.9", "STATIC_PLUGIN2") ==
        Plugins{{"STATIC_PLUGIN2", "libnccl-net-STATIC_PLUGIN2.so"}});
  CHECK(net("2.27.3", "STATIC_PLUGIN") == Plugins{{"libnccl-net-STATIC_PLUGIN.so"}});
  CHECK(net("2.28.9", "a,static") == Plugins{{"a", "libnccl-net-a.so"}, {self}});
}

TEST_CASE("a collnet is looked for in the net's file") {
  CHECK(files_tried(release("2.28.9"), PluginKind::kCollNet, "a") == net("2.28.9", "a"));
}

TEST_CASE("a tuner without a file of its own is looked for as each release does") {
  CHECK(release("2.20.5").tuner_fallback == TunerFallback::kNone);
  CHECK(release("2.25.1").tuner_fallback == TunerFallback::kNetNames);
  CHECK(release("2.26.2").tuner_fallback == TunerFallback::kNetLibrary);
}
