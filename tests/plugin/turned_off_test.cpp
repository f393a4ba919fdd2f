// What the others learn of a rank whose plugin cannot work.
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "bench/nccl_host/coll_net_comm.hpp"
#include "bench/nccl_host/error.hpp"
#include "catch.hpp"
#include "host_job.hpp"
#include "net_line.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "releases.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

// A rank that is told nothing waits for longer.
constexpr std::chrono::seconds kReported{30};

HostJobOptions with_setting(uint32_t nodes,
                            uint32_t wrong_rank,
                            const std::string& name,
                            const std::string& value) {
  HostJobOptions options = host_job(nodes, 1, 12);
  options.connect_timeout = 4 * kReported;
  options.timeout = 4 * kReported;
  options.prepare = [=](uint32_t rank) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    if (rank == wrong_rank) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  };
  return options;
}

void expect_logged(const std::string& words) {
  std::string log;
  for (const std::string& line : PluginLibrary::log_lines()) {
    log += "\n  " + line;
  }
  expect(log.find(words) != std::string::npos, "'" + words + "' is in the log:" + log);
}

// The error of whoever cannot be connected.
void expect_no_line(HostRank& self) {
  const Deadline deadline = deadline_after(kReported);
  try {
    NetLine line(self);
  } catch (const PluginError&) {
    expect(!passed(deadline), "in time");
    return;
  }
  throw HostError("a rank that is turned off was connected");
}

}  // namespace

TEST_CASE("a rank that is turned off says why to whoever connects to it or waits for it",
          "[quick]") {
  struct Wrong {
    uint32_t rank;  // 0 connects, 1 accepts
    const char* variable;
    const char* value;
    const char* because;
  };
  for (const Wrong& wrong :
       {Wrong{0, "HORING_TRANSPORT", "pigeon", "takes tcp or ucx"},
        Wrong{1, "HORING_TRANSPORT", "pigeon", "takes tcp or ucx"},
        // Its interfaces are those of the default then.
        Wrong{1, "HORING_SOCKET_IFNAME", "eth0 eth1", "'eth0 eth1' cannot be an"}}) {
    const uint32_t off = wrong.rank;
    require_job(with_setting(2, off, wrong.variable, wrong.value), [wrong, off](HostRank& self) {
      expect_no_line(self);
      const std::string why =
          std::string(wrong.variable) + "=" + wrong.value + ": " + wrong.because;
      if (self.rank() == off) {
        expect_logged("horing plugin: not usable: " + why);
      } else {
        expect_logged("the plugin of RANK " + std::to_string(off) + " on ");
        expect_logged(" has turned itself off: " + why);
      }
    });
  }
}

// What listens there speaks a protocol that this rank does not have: only its own log can say it.
TEST_CASE("a rank that is turned off and is to connect to another network's handle says why",
          "[quick]") {
  require_job(with_setting(1, 0, "HORING_NET_FORWARD", "nosuch"), [](HostRank& self) {
    const auto contexts = self.library().open(1);
    std::array<std::byte, nccl_abi::kHandleBytes> handle{};
    handle.fill(std::byte{0x5a});
    void* comm = nullptr;
    expect(self.library().net().connect(contexts.net, 0, handle.data(), &comm) !=
                   nccl_abi::Result::kSuccess &&
               comm == nullptr,
           "there is no connection");
    expect_logged("horing plugin: not usable: HORING_NET_FORWARD=nosuch: ");
    expect_logged("cannot be told and waits for this one");
    self.library().finalize(contexts);
  });
}

TEST_CASE("the members of a rail learn why one of them is turned off", "[quick]") {
  require_job(with_setting(3, 1, "HORING_TCP_STREAMS", "many"), [](HostRank& self) {
    const Deadline deadline = deadline_after(kReported);
    CollNetComm comm(self.library(), self.memory(), 1, {});
    expect(comm.connect() == CollNetState::kRefused, "all refuse");
    expect(!passed(deadline), "in time");
    expect_logged("CollNet is not used: ");
    expect_logged(self.rank() == 1 ? "HORING_TCP_STREAMS" : "the plugin of RANK 1 on ");
    expect_logged(self.rank() == 1 ? "HORING_TCP_STREAMS"
                                   : " has turned itself off: HORING_TCP_STREAMS");
    comm.close();
  });
}

TEST_CASE("a member that cannot even listen tells all why", "[quick]") {
  require_job(with_setting(3, 2, "NCCL_HOSTID", "two"), [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, {});
    rlimit usual{};
    ::getrlimit(RLIMIT_NOFILE, &usual);
    if (self.rank() == 2) {
      const Fd next(::dup(0));
      const rlimit none{static_cast<rlim_t>(next.get()), usual.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &none);
    }
    const CollNetState state = comm.connect();
    ::setrlimit(RLIMIT_NOFILE, &usual);
    expect(state == CollNetState::kRefused, "all refuse");
    expect_logged("Too many open files");
    if (self.rank() != 2) {
      expect_logged("RANK 2 on ");
      expect_logged(", NCCL_HOSTID two");
    }
    comm.close();
  });
}

// NCCL then takes its own network, or the next of the list, and asks us nothing any more.
TEST_CASE("where nobody can be told, or another plugin is named, init fails as ever", "[quick]") {
  const auto fails = [](HostRank& self) {
    for (uint64_t comm = 1; comm <= 2; ++comm) {
      try {
        (void)self.library().open(comm);
        throw HostError("init went well");
      } catch (const PluginError&) {
        const auto lines = PluginLibrary::log_lines();
        expect(std::count_if(lines.begin(),
                             lines.end(),
                             [](const std::string& line) {
                               return line.find("horing plugin: not usable: ") != std::string::npos;
                             }) == 1,
               "one warning, however often NCCL tries");
      }
    }
  };
  HostJobOptions no_interface = with_setting(1, 0, "HORING_SOCKET_IFNAME", "=nosuch");
  require_job(no_interface, fails);
  require_job(with_setting(1, 0, "NCCL_SOCKET_IFNAME", "=no such"), fails);
  HostJobOptions listed = with_setting(1, 0, "HORING_TRANSPORT", "pigeon");
  listed.prepare = [](uint32_t /*rank*/) {
    ::setenv("HORING_TRANSPORT", "pigeon", 1);
    ::setenv("NCCL_NET_PLUGIN", "horing,other", 1);
  };
  require_job(listed, fails);
}
