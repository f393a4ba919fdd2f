// A made-up sysfs: what is believed of it, and what is not.
#include "topo/interfaces.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "temporary_folder.hpp"

namespace fs = std::filesystem;

namespace {

class FakeSysfs {
 public:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_.path(path)).parent_path());
    std::ofstream(folder_.root() / path) << text << "\n";
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_directories(fs::path(folder_.path(path)).parent_path());
    fs::create_symlink(folder_.root() / target, folder_.root() / path);
  }
  [[nodiscard]] std::string root() const { return folder_.root().string(); }

 private:
  ho::test::TemporaryFolder folder_;
};

ho::NetworkInterface plain() {
  ho::NetworkInterface interface;
  interface.name = "eth0";
  interface.operstate = "up";
  return interface;
}

const ho::LinkIdentity kIdentity{7, "02:00:00:00:00:01"};

}  // namespace

TEST_CASE("sysfs adds speed, state and PCI place") {
  const FakeSysfs sysfs;
  sysfs.write("class/net/eth0/ifindex", "7");
  sysfs.write("class/net/eth0/address", "02:00:00:00:00:01");
  sysfs.write("class/net/eth0/operstate", "dormant");
  sysfs.write("class/net/eth0/speed", "25000");
  const std::string pci = "devices/pci0000:00/0000:00:01.0/0000:3b:00.1";
  sysfs.write(pci + "/numa_node", "1");
  sysfs.write(pci + "/virtio3/status", "x");
  sysfs.link("class/net/eth0/device", pci + "/virtio3");
  auto interface = plain();
  CHECK(ho::add_from_sysfs(sysfs.root(), kIdentity, interface));
  CHECK(interface.speed_mbit == 25000);
  CHECK(interface.operstate == "dormant");
  CHECK(interface.pci == "0000:3b:00.1");
  CHECK(interface.numa_node == 1);
}

TEST_CASE("another namespace's interface of the same name is not believed") {
  const FakeSysfs sysfs;
  sysfs.write("class/net/eth0/ifindex", "7");
  sysfs.write("class/net/eth0/address", "02:00:00:00:00:99");
  sysfs.write("class/net/eth0/operstate", "down");
  sysfs.write("class/net/eth0/speed", "25000");
  auto interface = plain();
  CHECK_FALSE(ho::add_from_sysfs(sysfs.root(), kIdentity, interface));
  CHECK(interface.speed_mbit == 0);
  CHECK(interface.operstate == "up");
  sysfs.write("class/net/eth0/address", "02:00:00:00:00:01");
  sysfs.write("class/net/eth0/ifindex", "8");
  CHECK_FALSE(ho::add_from_sysfs(sysfs.root(), kIdentity, interface));
}

TEST_CASE("unknown speeds and odd files leave things unknown") {
  const FakeSysfs sysfs;
  sysfs.write("class/net/eth0/ifindex", "7");
  sysfs.write("class/net/eth0/address", "02:00:00:00:00:01");
  auto interface = plain();
  for (const char* speed : {"-1", "", "fast", "99999999999999999999"}) {
    sysfs.write("class/net/eth0/speed", speed);
    CHECK(ho::add_from_sysfs(sysfs.root(), kIdentity, interface));
    CHECK(interface.speed_mbit == 0);
    CHECK(interface.operstate == "up");
    CHECK(interface.pci.empty());
  }
}

TEST_CASE("a bridge leads to the network where a port of it does, and a tunnel does not") {
  const FakeSysfs sysfs;
  const auto reach = [&] {
    auto interface = plain();
    CHECK(ho::add_from_sysfs(sysfs.root(), kIdentity, interface));
    return interface.reach;
  };
  sysfs.write("class/net/eth0/ifindex", "7");
  sysfs.write("class/net/eth0/address", "02:00:00:00:00:01");
  CHECK(reach() == ho::Reach::kUnknown);  // as a container's end of a virtual cable
  sysfs.write("class/net/eth0/bridge/root_id", "x");
  sysfs.write("class/net/eth0/brif/veth1/state", "3");
  sysfs.write("class/net/veth1/ifindex", "8");
  CHECK(reach() == ho::Reach::kThisHost);
  // A VLAN of a bond of a device.
  sysfs.write("class/net/eth0/brif/bond0.5/state", "3");
  sysfs.write("class/net/bond0.5/lower_bond0/x", "");
  sysfs.write("class/net/bond0/lower_eno1/x", "");
  CHECK(reach() == ho::Reach::kThisHost);
  sysfs.write("class/net/eno1/device/vendor", "0x15b3");
  CHECK(reach() == ho::Reach::kNetwork);
  sysfs.write("class/net/tun0/ifindex", "7");
  sysfs.write("class/net/tun0/tun_flags", "0x1001");
  auto tunnel = plain();
  tunnel.name = "tun0";
  CHECK(ho::add_from_sysfs(sysfs.root(), {7, ""}, tunnel));
  CHECK(tunnel.reach == ho::Reach::kThisHost);
}
