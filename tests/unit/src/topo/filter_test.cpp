#include "topo/filter.hpp"

#include "catch.hpp"

namespace {

using ho::NetworkInterface;

NetworkInterface interface(const std::string& name,
                           const std::string& operstate = "up",
                           const std::string& address = "10.0.0.1/24") {
  NetworkInterface made;
  made.name = name;
  made.operstate = operstate;
  made.loopback = name == "lo";
  if (!address.empty()) {
    made.addresses = {address};
  }
  return made;
}

const std::vector<NetworkInterface> kHost{interface("docker0", "up", "172.17.0.1/16"),
                                          interface("eth0"),
                                          interface("eth1", "down"),
                                          interface("eth10"),
                                          interface("ib0", "unknown"),
                                          interface("ib1", "up", ""),
                                          interface("lo", "unknown", "127.0.0.1/8"),
                                          interface("virbr0", "up", "192.168.122.1/24")};

std::string names_taken(const std::vector<NetworkInterface>& host,
                        const ho::InterfaceFilter& filter) {
  const auto decisions = ho::judge_interfaces(host, filter);
  REQUIRE(decisions.size() == host.size());
  std::string names;
  for (size_t i = 0; i < host.size(); ++i) {
    CHECK(decisions[i].reason.starts_with(decisions[i].taken ? "taken: " : "dropped: "));
    if (decisions[i].taken) {
      names += (names.empty() ? "" : " ") + host[i].name;
    }
  }
  return names;
}

std::string taken(const std::vector<NetworkInterface>& host, const std::string& filter) {
  const auto parsed = ho::parse_interface_filter(filter);
  REQUIRE(parsed.ok());
  return names_taken(host, *parsed);
}

std::string reason(const std::string& name, const std::string& filter) {
  const auto decisions = ho::judge_interfaces(kHost, *ho::parse_interface_filter(filter));
  for (size_t i = 0; i < kHost.size(); ++i) {
    if (kHost[i].name == name) {
      return decisions[i].reason;
    }
  }
  return "no such interface";
}

}  // namespace

TEST_CASE("the filter has NCCL's syntax") {
  CHECK(taken(kHost, "") == "eth0 eth10 ib0");
  CHECK(taken(kHost, "eth") == "eth0 eth10");
  CHECK(taken(kHost, "eth1") == "eth10");
  CHECK(taken(kHost, "eth0,ib") == "eth0 ib0");
  CHECK(taken(kHost, "=eth10") == "eth10");
  CHECK(taken(kHost, "=eth") == "");
  CHECK(taken(kHost, "=eth0,ib0") == "eth0 ib0");
  CHECK(taken(kHost, "^eth") == "docker0 ib0 lo virbr0");
  CHECK(taken(kHost, "^docker,lo,virbr,ib") == "eth0 eth10");
  CHECK(taken(kHost, "^=eth1") == "docker0 eth0 eth10 ib0 lo virbr0");
  CHECK(taken(kHost, "^=eth10") == "docker0 eth0 ib0 lo virbr0");
  CHECK(taken(kHost, "lo") == "lo");
  CHECK(taken(kHost, ",eth0,") == "eth0");
  CHECK(taken(kHost, "wlan") == "");
}

// Each row was seen in NCCL 2.32.3: "Bootstrap: Using", or "no socket interface found" for "".
TEST_CASE("NCCL's own variable is read as NCCL reads it") {
  const std::vector<NetworkInterface> host{interface("lo", "unknown", "127.0.0.1/8"),
                                           interface("nic0"),
                                           interface("nic1"),
                                           interface("nic2")};
  struct Row {
    const char* text;
    const char* taken;
  };
  const char* const by_default = "nic0 nic1 nic2";
  for (const Row& row : std::vector<Row>{
           {"", by_default},
           {"nic1", "nic1"},
           {"nic2,nic1", "nic1 nic2"},
           {"=nic1", "nic1"},
           {"=nic", ""},
           {"^nic0", "lo nic1 nic2"},
           {"^nic,far", "lo"},
           {"^=nic0", "lo nic1 nic2"},
           {"=nic1:1", "nic1"},
           {"nic1:7777,nic2", "nic1 nic2"},
           {":1,nic2", "nic2"},
           {"nic1 ", ""},
           {" nic1", ""},
           {"nic0, nic1", "nic0"},
           {"nic9, nic1", ""},
           {"n", by_default},
           {"^", by_default},
           {"=", by_default},
           {",", by_default},
           {"^=", ""},
           {"^,", ""},
           {"=,", "lo nic0 nic1 nic2"},
           {"==nic1", ""},
           {"=^nic0", ""},
           {"^^nic0", "lo nic0 nic1 nic2"},
           {"nic9,=nic1", ""},
           {"nic9,^nic1", ""},
           {"nic/1", ""},
           {"aa,bb,cc,dd,ee,ff,gg,hh,ii,jj,kk,lx,mm,nn,oo,nic2", "nic2"},
           {"aa,bb,cc,dd,ee,ff,gg,hh,ii,jj,kk,lx,mm,nn,oo,pp,nic2", ""},
       }) {
    INFO("'" << row.text << "'");
    CHECK(names_taken(host, ho::nccl_interface_filter(row.text)) == row.taken);
  }
}

TEST_CASE("the default falls back to local bridges, then to loopback") {
  CHECK(taken({interface("docker0"), interface("eth0", "down"), interface("lo", "unknown")}, "") ==
        "docker0");
  CHECK(taken({interface("docker0", "down"), interface("lo", "unknown", "127.0.0.1/8")}, "") ==
        "lo");
  CHECK(taken({interface("lo", "down")}, "") == "");
  CHECK(taken({}, "") == "");
}

TEST_CASE("bridges and tunnels of containers are left out by their names") {
  for (const char* name : {"br-1f2e3d4c5b6a",
                           "cni0",
                           "flannel.1",
                           "veth12ab34c",
                           "podman0",
                           "lxcbr0",
                           "lxdbr0",
                           "tun0",
                           "tap3",
                           "cali0123456789a",
                           "vnet7"}) {
    INFO(name);
    CHECK(taken({interface(name), interface("zeth0")}, "") == "zeth0");
    CHECK(taken({interface(name), interface("lo", "unknown", "127.0.0.1/8")}, "") == name);
    CHECK(taken({interface(name), interface("zeth0")}, std::string("=") + name) == name);
  }
  for (const char* name : {"br-ex", "br0", "tunnel", "tapestry0", "bond0", "br-1f2e3d4c5b6a7"}) {
    INFO(name);
    CHECK(taken({interface(name), interface("zeth0")}, "") == std::string(name) + " zeth0");
  }
}

TEST_CASE("where a bridge leads counts for more than its name") {
  NetworkInterface bridge = interface("br0");
  bridge.reach = ho::Reach::kThisHost;
  CHECK(taken({bridge, interface("eth0")}, "") == "eth0");
  bridge.name = "docker0";
  bridge.reach = ho::Reach::kNetwork;  // it has a physical port
  CHECK(taken({bridge, interface("eth0")}, "") == "docker0 eth0");
}

TEST_CASE("an interface with a link-local address only serves before a bridge and loopback") {
  const NetworkInterface link_local = interface("eth1", "up", "fe80::1/64");
  CHECK(taken({interface("docker0"), link_local, interface("lo", "unknown", "127.0.0.1/8")}, "") ==
        "eth1");
  CHECK(taken({interface("eth0"), link_local}, "") == "eth0");
  CHECK(taken({interface("eth0"), link_local}, "eth1") == "eth1");
}

TEST_CASE("what is down inside this host is missed by no job") {
  const auto missed = [](const NetworkInterface& down) {
    const auto decision =
        ho::judge_interfaces(std::vector{down}, *ho::parse_interface_filter(""))[0];
    CHECK(ho::dropped_for_state(decision.reason));
    return ho::was_configured(decision.reason);
  };
  CHECK(missed(interface("eth0", "down")));
  CHECK_FALSE(missed(interface("eth0", "down", "")));
  CHECK_FALSE(missed(interface("br-1f2e3d4c5b6a", "down")));
  CHECK_FALSE(missed(interface("lo", "down")));
}

TEST_CASE("every decision on an interface says why") {
  CHECK(ho::judge_interfaces(std::vector{interface("lo", "unknown", "127.0.0.1/8")},
                             *ho::parse_interface_filter(""))[0]
            .reason ==
        "taken: there is nothing better, and no other host can be reached over it, "
        "127.0.0.1/8");
  CHECK(reason("eth0", "") == "taken: up, 10.0.0.1/24");
  CHECK(reason("eth1", "") == "dropped: operstate down");
  CHECK(reason("ib1", "") == "dropped: no address");
  CHECK(reason("eth0", "^eth") == "dropped: HORING_SOCKET_IFNAME=^eth excludes it");
  CHECK(reason("ib0", "=eth0") == "dropped: HORING_SOCKET_IFNAME==eth0 does not list it");
  CHECK(reason("eth1", "eth") == "dropped: operstate down");
  CHECK(reason("lo", "").starts_with("dropped: loopback"));
  NetworkInterface absent = interface("eth0", "absent");
  CHECK(ho::judge_interfaces(std::vector{absent}, *ho::parse_interface_filter(""))[0].reason ==
        "dropped: the topology file has it, this host's network namespace does not");
}

TEST_CASE("filters that cannot be meant are refused") {
  for (const char* text : {"^", "=", "^=", ",", "eth0 eth1", "eth/0", "eth,^lo", "==eth0"}) {
    INFO(text);
    const auto parsed = ho::parse_interface_filter(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(parsed.status().message().find("HORING_SOCKET_IFNAME") != std::string::npos);
  }
}
