// What NCCL finds, and what is wrong, in environments and on disks that are made up.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "abi/env_v1.hpp"
#include "catch.hpp"
#include "cli/plugin/plugin_problems.hpp"
#include "cli/plugin/plugin_report.hpp"
#include "cli/plugin/plugin_search.hpp"
#include "has.hpp"
#include "temporary_folder.hpp"

namespace ho {
namespace {

constexpr const char* kOurs = "/opt/lib/libnccl-net-horing.so";

// A library: the symbols that it has, all in tables of one name.
struct FakeLibrary {
  std::string name;
  std::vector<std::string> symbols;
  bool cut_off = false;
};

const char* answer(const char* name) {
  const std::string_view requested(name);
  if (requested == "NCCL_NET_PLUGIN" || requested == "NCCL_TUNER_PLUGIN") {
    return kOurs;
  }
  return requested == "NCCL_COLLNET_ENABLE" || requested == "NCCL_NET_PLUGIN_REF_COUNT" ? "1"
                                                                                        : nullptr;
}

std::vector<std::string> all_symbols() {
  std::vector<std::string> symbols{"ncclEnvPlugin_v1"};
  for (const char* const version : {"8", "9", "10", "11", "12"}) {
    symbols.push_back(std::string("ncclNetPlugin_v") + version);
    symbols.push_back(std::string("ncclCollNetPlugin_v") + version);
  }
  for (const char* const version : {"2", "3", "4", "5", "6"}) {
    symbols.push_back(std::string("ncclTunerPlugin_v") + version);
  }
  return symbols;
}

// A machine: its files by the names under which the loader finds them, and NCCL's variables.
struct Machine {
  std::map<std::string, FakeLibrary> files{{kOurs, {kOurPluginName, all_symbols()}}};
  std::map<std::string, std::string> variables;

  [[nodiscard]] Findings find(const std::string& version) const {
    const auto release = nccl_abi::find_release(version);
    REQUIRE(release);
    return find_plugins(
        *release->release,
        [values = variables](const std::string& name) -> std::optional<std::string> {
          const auto found = values.find(name);
          return found == values.end() ? std::nullopt : std::optional(found->second);
        },
        [this](const std::string& file) { return open(file); });
  }
  [[nodiscard]] std::vector<PluginProblem> problems(const std::string& version) const {
    return plugin_problems(find(version), kOurs);
  }

 private:
  [[nodiscard]] Result<PluginFile> open(const std::string& file) const {
    const auto found = files.find(file);
    if (found == files.end()) {
      return Status(StatusCode::kSystem, file + ": cannot open shared object file");
    }
    if (found->second.cut_off) {
      return Status(StatusCode::kInvalidArgument, file + " is cut off");
    }
    PluginFile opened;
    opened.path = file;
    // Tables begin with their name; only an env plugin's is called.
    auto table = std::make_shared<nccl_abi::v1::Env>();
    table->name = found->second.name.c_str();
    table->getEnv = answer;
    opened.symbol = [table, symbols = found->second.symbols](const std::string& name) {
      const bool has = std::find(symbols.begin(), symbols.end(), name) != symbols.end();
      return has ? static_cast<const void*>(table.get()) : nullptr;
    };
    return opened;
  }
};

// As docs tell it: everything named.
Machine named() {
  Machine machine;
  machine.variables = {{"NCCL_NET_PLUGIN", kOurs},
                       {"NCCL_TUNER_PLUGIN", kOurs},
                       {"NCCL_COLLNET_ENABLE", "1"},
                       {"NCCL_NET_PLUGIN_REF_COUNT", "1"},
                       {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "1"}};
  return machine;
}

// The only problem.
PluginProblem problem(const Machine& machine, const std::string& version) {
  const auto problems = machine.problems(version);
  for (const PluginProblem& one : problems) {
    UNSCOPED_INFO(one.what << " / " << one.todo);
  }
  REQUIRE(problems.size() == 1);
  return problems.front();
}

}  // namespace

TEST_CASE("where everything is named, each release takes the newest versions that both know") {
  const Machine machine = named();
  const Findings newest = machine.find("2.30.7");
  CHECK(newest.net()->version == 12);
  CHECK(newest.coll_net.version == 12);
  CHECK(newest.tuner.version == 6);
  CHECK_FALSE(newest.tuner_of_net);
  const Findings middle = machine.find("2.27.5");
  CHECK(middle.net()->version == 10);
  CHECK(middle.tuner.version == 4);
  for (const char* const version : {"2.21.5", "2.25.1", "2.27.5", "2.28.9", "2.29.7", "2.30.7"}) {
    CAPTURE(version);
    CHECK(machine.problems(version).empty());
    CHECK(plugin_shortfall(machine.find(version)).empty());
  }
}

TEST_CASE("the env plugin alone is enough from 2.28.7 on, and nothing before") {
  Machine machine;
  machine.variables = {{"NCCL_ENV_PLUGIN", kOurs}};
  CHECK(machine.problems("2.28.9").empty());
  CHECK(machine.find("2.28.9").env.version == 1);
  CHECK(machine.find("2.28.9").taken);
  const auto before = machine.problems("2.27.5");
  REQUIRE(before.size() == 4);
  CHECK(has(before[0].what, "NCCL 2.27.5 to 2.27.7 has no env plugins"));
  // What the environment says comes first there too.
  machine.variables["NCCL_COLLNET_ENABLE"] = "0";
  CHECK(has(problem(machine, "2.28.9").what, "NCCL_COLLNET_ENABLE=0: NCCL does not use CollNet"));
  machine.variables = {{"NCCL_ENV_PLUGIN", "/lost.so"}};
  CHECK(has(machine.problems("2.28.9")[0].what, "cannot be loaded: /lost.so: cannot open"));
}

TEST_CASE("where nothing is named or installed, each lack is a problem with its remedy") {
  Machine machine;
  const auto problems = machine.problems("2.27.5");
  REQUIRE(problems.size() == 3);
  CHECK(has(problems[0].what, "libnccl-net.so: cannot open"));
  CHECK(problems[0].todo == std::string("set NCCL_NET_PLUGIN=") + kOurs);
  CHECK(has(problems[1].what, "NCCL_COLLNET_ENABLE is not set"));
  CHECK(has(problems[2].what, "NCCL finds no tuner: libnccl-tuner.so"));
  CHECK(problems[2].todo == std::string("set NCCL_TUNER_PLUGIN=") + kOurs);
  CHECK(has(machine.problems("2.28.9")[0].todo, "or nothing but NCCL_ENV_PLUGIN="));
}

TEST_CASE("a network or a tuner of somebody else wins") {
  Machine machine = named();
  machine.variables.erase("NCCL_NET_PLUGIN");
  machine.files["libnccl-net.so"] = {"AWS Libfabric", {"ncclNetPlugin_v11"}};
  const PluginProblem net = problem(machine, "2.28.9");
  CHECK(has(net.what, "NCCL takes the network AWS Libfabric of libnccl-net.so"));
  CHECK(has(net.what, "NCCL_NET_PLUGIN is not set"));

  machine = named();
  machine.variables.erase("NCCL_TUNER_PLUGIN");
  CHECK(machine.problems("2.28.9").empty());  // asked in the network's library
  CHECK(machine.find("2.28.9").tuner_of_net);
  CHECK(machine.find("2.25.1").tuner_of_net);
  machine.files["libnccl-tuner.so"] = {"other", {"ncclTunerPlugin_v4"}};
  CHECK(has(problem(machine, "2.28.9").what, "NCCL takes the tuner other of libnccl-tuner.so"));
  machine.files["libnccl-tuner.so"].symbols.clear();
  CHECK(has(problem(machine, "2.28.9").what, "libnccl-tuner.so, which has no v5, v4"));
  machine.files.erase("libnccl-tuner.so");
  machine.variables["NCCL_TUNER_PLUGIN"] = "none";
  CHECK(has(problem(machine, "2.28.9").what, "NCCL_TUNER_PLUGIN=none: NCCL finds no tuner"));
}

TEST_CASE("NCCL_NET of another network is a problem") {
  Machine machine = named();
  machine.variables["NCCL_NET"] = "IB";
  const PluginProblem wrong = problem(machine, "2.27.5");
  CHECK(has(wrong.what, "NCCL_NET=IB, so NCCL passes over HO-Ring"));
  CHECK(has(wrong.todo, "unset NCCL_NET, or set NCCL_NET=HO-Ring"));
  machine.variables["NCCL_NET"] = "ho-ring";
  CHECK(machine.problems("2.27.5").empty());
}

TEST_CASE("NCCL_NET of another network is a problem also where the plugin is not found") {
  Machine machine;
  machine.variables = {{"NCCL_NET", "IB"}};
  const auto problems = machine.problems("2.28.9");
  REQUIRE(problems.size() == 4);
  CHECK(has(problems[1].what, "NCCL_NET=IB: NCCL would pass over the plugin"));
  machine.variables["NCCL_NET"] = "ho-ring";
  CHECK(machine.problems("2.28.9").size() == 3);
  machine.variables = {{"NCCL_NET", "IB"}, {"NCCL_NET_PLUGIN", "none"}};
  CHECK(has(machine.problems("2.28.9")[1].what, "NCCL_NET=IB: NCCL would"));
}

TEST_CASE("NCCL_ALGO that leaves COLLNET_DIRECT alone is a problem without an NVSwitch") {
  for (const char* const algorithms : {"CollNetDirect",
                                       "allreduce:ring;reducescatter:collnetdirect",
                                       "collnetdirect,collnetchain",
                                       "allgather:collnetdirect,tree",
                                       "collnetdirect,nvls"}) {
    Machine machine = named();
    machine.variables["NCCL_ALGO"] = algorithms;
    CHECK(has(problem(machine, "2.28.9").what, "without an NVSwitch, and none is seen here"));
    Findings findings = machine.find("2.28.9");
    findings.nvswitch = true;
    CHECK(plugin_problems(findings, kOurs).empty());
  }
  for (const char* const algorithms : {"CollNetDirect,Ring", "^ring", "allreduce:collnetchain"}) {
    Machine machine = named();
    machine.variables["NCCL_ALGO"] = algorithms;
    CHECK(machine.problems("2.28.9").empty());
  }
}

TEST_CASE("an NVSwitch is told by its PCI device") {
  const ho::test::TemporaryFolder folder;
  const std::filesystem::path& root = folder.root();
  const auto device = root / "bus/pci/devices/0000:05:00.0";
  CHECK_FALSE(has_nvswitch(root.string()));
  std::filesystem::create_directories(device);
  std::ofstream(device / "vendor") << "0x10de\n";
  std::ofstream(device / "class") << "0x030200\n";
  CHECK_FALSE(has_nvswitch(root.string()));
  std::ofstream(device / "class") << "0x068000\n";
  CHECK(has_nvswitch(root.string()));
}

TEST_CASE(
    "NCCL_ALGO and NCCL_PROTO are a problem where they leave nothing of CollNet, else a note") {
  struct Setting {
    std::string algorithms;
    std::string protocols;
    std::string left;  // "": a problem
    const char* release = "2.28.9";
  };
  const std::string all = "all_reduce, all_gather, reduce_scatter";
  for (const Setting& one : std::vector<Setting>{
           {"Ring", "", ""},
           {"ring,tree,PAT,NVLSTree", "", ""},
           {"^CollNetDirect,CollNetChain,NVLS", "", ""},
           {"", "LL", ""},
           {"", "LL,LL128", ""},
           {"", "^Simple", ""},
           {"^nvls,collnetdirect", "", "all_reduce"},
           {"collnetchain", "", "all_reduce"},
           {"ring,nvls", "LL,Simple", all},
           {"^ring", "^LL", all},
           {"allreduce:tree,ring", "", "all_gather, reduce_scatter"},
           {"allreduce:tree;allgather:ring;reducescatter:^nvls,collnetdirect", "", ""},
           {"ring;allreduce:^ring", "", "all_reduce"},
           {"ring;allreduce:^ring", "allreduce:LL", ""},
           {"broadcast:ring", "", all},
           {"allreduce:collnetdirect", "", "", "2.23.4"},
       }) {
    Machine machine = named();
    if (!one.algorithms.empty()) {
      machine.variables["NCCL_ALGO"] = one.algorithms;
    }
    if (!one.protocols.empty()) {
      machine.variables["NCCL_PROTO"] = one.protocols;
    }
    CAPTURE(one.algorithms, one.protocols, one.release);
    const auto notes = plugin_remarks(machine.find(one.release));
    REQUIRE(notes.size() == 1);
    CHECK(has(notes[0], "CollNet is left for " + (one.left.empty() ? "no collective" : one.left)));
    CHECK(has(notes[0], "the tuner no longer allows COLLNET_DIRECT"));
    if (one.left.empty()) {
      CHECK(has(problem(machine, one.release).what, "NCCL takes CollNet for no collective"));
    } else {
      CHECK(machine.problems(one.release).empty());
    }
  }
}

TEST_CASE("a node threshold above NCCL's own is worth a note") {
  Machine machine = named();
  machine.variables["NCCL_COLLNET_NODE_THRESHOLD"] = "99";
  CHECK(machine.problems("2.28.9").empty());
  const auto notes = plugin_remarks(machine.find("2.28.9"));
  REQUIRE(notes.size() == 1);
  CHECK(has(notes[0], "NCCL_COLLNET_NODE_THRESHOLD=99"));
  machine.variables["NCCL_COLLNET_NODE_THRESHOLD"] = "2";
  CHECK(plugin_remarks(machine.find("2.28.9")).empty());
}

TEST_CASE("that split communicators lose CollNet unless their parent shares is worth a note") {
  Machine machine = named();
  CHECK(plugin_remarks(machine.find("2.30.7")).empty());
  machine.variables["NCCL_COMM_SPLIT_SHARE_RESOURCES"] = "0";
  const auto off = plugin_remarks(machine.find("2.30.7"));
  REQUIRE(off.size() == 1);
  CHECK(has(off[0], "NCCL_COMM_SPLIT_SHARE_RESOURCES=0, whatever config.splitShare is: "));
  machine.variables.erase("NCCL_COMM_SPLIT_SHARE_RESOURCES");
  const auto unset = plugin_remarks(machine.find("2.30.7"));
  REQUIRE(unset.size() == 1);
  CHECK(has(unset[0], "unless the parent was made with config.splitShare = 1; "));
  machine.variables["NCCL_NET"] = "IB";
  CHECK(plugin_remarks(machine.find("2.30.7")).empty());
}

TEST_CASE("what to set is the file that is loaded already, wherever it was named") {
  Machine machine;
  machine.variables = {{"NCCL_ENV_PLUGIN", kOurs}};
  for (const PluginProblem& one : plugin_problems(machine.find("2.27.5"), "")) {
    CHECK(has(one.todo, one.todo.find(".so") == std::string::npos ? "" : "/PATH/TO/"));
  }
  machine.variables["NCCL_NET_PLUGIN"] = "none";
  machine.variables["NCCL_TUNER_PLUGIN"] = "none";
  const auto problems = plugin_problems(machine.find("2.28.9"), "");
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].todo == std::string("set NCCL_NET_PLUGIN=") + kOurs);
  CHECK(problems[1].todo == std::string("set NCCL_TUNER_PLUGIN=") + kOurs);
}

TEST_CASE("NCCL 2.19 is not supported, whatever is set") {
  for (const Machine& machine : {Machine(), named()}) {
    const PluginProblem only = problem(machine, "2.19.3");
    CHECK(has(only.what, "this release is not supported"));
    CHECK(only.todo == "use NCCL 2.20 or newer");
  }
}

TEST_CASE("of a list the first plugin that can be is the process's only one") {
  Machine machine = named();
  machine.files["libother.so"] = {"other", {"ncclNetPlugin_v11"}};
  machine.variables["NCCL_NET_PLUGIN"] = std::string("libother.so,") + kOurs;
  const PluginProblem second = problem(machine, "2.28.9");
  CHECK(has(second.what, "NCCL takes the network other of libother.so, the first of the list"));
  CHECK(has(second.todo, "first in NCCL_NET_PLUGIN"));
  machine.variables["NCCL_NET_PLUGIN"] = std::string(kOurs) + ",libother.so";
  CHECK(machine.problems("2.28.9").empty());
  machine.variables["NCCL_NET_PLUGIN"] = std::string("libother.so,") + kOurs;
  machine.variables["NCCL_NET"] = kOurPluginName;
  CHECK(machine.problems("2.28.9").empty());
  machine.variables["NCCL_NET_PLUGIN"] = "none";
  const auto none = machine.problems("2.28.9");
  CHECK(has(none[0].what, "NCCL_NET_PLUGIN=none: NCCL loads no network plugin"));
}

TEST_CASE("remedies fit releases that take no path, and those that know no version of ours") {
  Machine machine = named();
  for (const char* const version : {"2.20.5", "2.27.3"}) {
    CAPTURE(version);
    const auto problems = machine.problems(version);
    REQUIRE_FALSE(problems.empty());
    CHECK(has(problems[0].todo, "NCCL_NET_PLUGIN=horing, with /opt/lib in LD_LIBRARY_PATH"));
  }
  machine.variables["NCCL_NET_PLUGIN"] = "horing";
  machine.files["libnccl-net-horing.so"] = machine.files[kOurs];
  CHECK(machine.problems("2.20.5").empty());
  CHECK(has(plugin_remarks(machine.find("2.20.5")).front(), "has only tuners v1"));
  const PluginProblem old = problem(machine, "2.19.4");
  CHECK(has(old.what, "NCCL 2.19.0 to 2.19.4 looks up network v7, v6, v5"));
  CHECK(plugin_shortfall(machine.find("2.19.4")) == "looks up network v7, v6, v5");
}

TEST_CASE("a name that begins STATIC_PLUGIN is the program itself") {
  Machine machine = named();
  machine.variables["NCCL_NET_PLUGIN"] = "st";
  machine.files[nccl_abi::kMainProgram] = {"", {}};
  const PluginProblem wrong = problem(machine, "2.28.9");
  CHECK(has(wrong.what, "NCCL_NET_PLUGIN=st is a beginning of STATIC_PLUGIN"));
  CHECK(has(wrong.todo, std::string("set NCCL_NET_PLUGIN=") + kOurs));
}

TEST_CASE("NCCL ends at a library that is cut off and tries none behind it") {
  Machine machine = named();
  machine.variables["NCCL_NET_PLUGIN"] = "x";
  machine.files["x"] = {"", {}, true};
  machine.files["libnccl-net-x.so"] = machine.files[kOurs];
  CHECK(has(problem(machine, "2.30.7").what,
            "NCCL_NET_PLUGIN=x and no such file can be loaded: x is cut off"));
  CHECK(plugin_shortfall(machine.find("2.30.7")) == "ends at x");
  machine.variables["NCCL_NET_PLUGIN"] = kOurs;
  machine.variables["NCCL_TUNER_PLUGIN"] = "x";
  CHECK(has(problem(machine, "2.30.7").what,
            "NCCL_TUNER_PLUGIN=x: NCCL finds no tuner: x is cut off"));
  CHECK_FALSE(machine.find("2.30.7").tuner_of_net);
  machine.variables["NCCL_NET_PLUGIN"] = "x," + std::string(kOurs);
  CHECK_FALSE(machine.find("2.30.7").taken);
}

TEST_CASE("what is printed of a variable drives no terminal") {
  Machine machine = named();
  machine.variables["NCCL_ENV_PLUGIN"] = "/x\x1b[31m";
  const std::string what = problem(machine, "2.30.7").what;
  CHECK(has(what, "NCCL_ENV_PLUGIN=/x\\x1b[31m cannot be loaded"));
  CHECK_FALSE(has(what, "\x1b"));
}

TEST_CASE("releases that forget a plugin's name need one more variable") {
  Machine machine = named();
  machine.variables.erase("NCCL_NET_PLUGIN_REF_COUNT");
  for (const char* const version : {"2.28.3", "2.28.9", "2.29.7"}) {
    CHECK(problem(machine, version).todo == "set NCCL_NET_PLUGIN_REF_COUNT=1");
  }
  for (const char* const version : {"2.27.5", "2.30.3"}) {
    CHECK(machine.problems(version).empty());
  }
  machine.files["libnccl-net.so"] = machine.files[kOurs];
  machine.variables.erase("NCCL_NET_PLUGIN");
  CHECK(machine.problems("2.28.9").empty());  // the name that NCCL falls back on
}

TEST_CASE("NCCL's files of settings are read") {
  const auto values =
      parse_nccl_conf("# a comment\nNCCL_NET=IB\nNCCL_ALGO=ring,tree=1\nno value\n\nA=");
  CHECK(values.size() == 3);
  CHECK(values.at("NCCL_NET") == "IB");
  CHECK(values.at("NCCL_ALGO") == "ring,tree=1");
  CHECK(values.at("A").empty());
}

TEST_CASE("what starting the plugin shows becomes a problem") {
  const Findings findings = named().find("2.28.9");
  ProbedPlugin probed;
  probed.warnings = {"horing plugin: not usable: no network interface can be used; eth0 dropped"};
  const auto unusable = problems_of_probe(findings, probed);
  REQUIRE(unusable.size() == 1);
  CHECK(has(unusable[0].what, "no network interface can be used"));
  probed.warnings.clear();
  CHECK(has(problems_of_probe(findings, probed)[0].what, "has no devices"));
  probed.started = true;
  probed.devices = {{"eth0", "", 1000, false}};
  probed.coll_net_said = "CollNet offers no devices: a reason";
  probed.log = {probed.coll_net_said, "loaded by NCCL as tuner v5"};
  const auto withheld = problems_of_probe(findings, probed);
  CHECK(has(withheld[0].what, "CollNet of /opt/lib"));
  CHECK(has(withheld[0].what, ": CollNet offers no devices: a reason"));
  probed.devices[0].coll_net = true;
  CHECK(problems_of_probe(findings, probed).empty());
}

}  // namespace ho
