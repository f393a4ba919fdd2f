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

std::string taken(const std::vector<NetworkInterface>& host, const std::string& filter) {
  const auto parsed = ho::parse_interface_filter(filter);
  REQUIRE(parsed.ok());
  const auto decisions = ho::judge_interfaces(host, *parsed);
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

TEST_CASE("the default falls back to local bridges, then to loopback") {
  CHECK(taken({interface("docker0"), interface("eth0", "down"), interface("lo", "unknown")}, "") ==
        "docker0");
  CHECK(taken({interface("docker0", "down"), interface("lo", "unknown", "127.0.0.1/8")}, "") ==
        "lo");
  CHECK(taken({interface("lo", "down")}, "") == "");
  CHECK(taken({}, "") == "");
}

TEST_CASE("every decision on an interface says why") {
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
