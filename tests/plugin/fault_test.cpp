// What must not hang: nodes that die, members that never come or differ, and strangers at the
// listeners.
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "abi/tuner_v5.hpp"
#include "bench/nccl_host/coll_net_comm.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/ring_comm.hpp"
#include "catch.hpp"
#include "host_job.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"
#include "releases.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

constexpr std::chrono::seconds kSoon{30};  // of the slowest machine; a hang has no end

CollNetOptions small_steps() {
  CollNetOptions options;
  options.settings.channels = 4;
  options.settings.chunk_bytes = 1024;
  options.settings.slot_bytes = 1024;
  return options;
}

std::string log_text() {
  std::string text;
  for (const std::string& line : PluginLibrary::log_lines()) {
    text += line + "\n";
  }
  return text;
}

// Whether our tuner changes NCCL's table for an all-reduce of that communicator.
bool tuner_chooses(uint64_t comm_id) {
  void* const library = ::dlopen("libnccl-net-horing.so", RTLD_NOW | RTLD_NOLOAD);
  expect(library != nullptr, "the plugin is loaded");
  auto* const tuner = static_cast<nccl_abi::v5::Tuner*>(::dlsym(library, "ncclTunerPlugin_v5"));
  expect(tuner != nullptr, "it has a tuner");
  nccl_abi::v5::NvlDomainInfo domains{2, 1, 1};
  nccl_abi::v5::TunerConstants constants{};
  void* context = nullptr;
  require(tuner->init(&context, comm_id, 2, 2, nullptr, &domains, &constants), "init");
  std::array<float, size_t{nccl_abi::kAlgorithmCount} * nccl_abi::kProtocolCount> costs{};
  costs.fill(5);
  const auto before = costs;
  int channels = 0;
  require(tuner->getCollInfo(context,
                             nccl_abi::Function::kAllReduce,
                             1024,
                             1,
                             reinterpret_cast<float**>(costs.data()),
                             nccl_abi::kAlgorithmCount,
                             nccl_abi::kProtocolCount,
                             0,
                             &channels),
          "getCollInfo");
  require(tuner->finalize(context), "finalize");
  return costs != before;
}

Work work_of(Collective kind, uint64_t count) {
  return {kind, DType::kInt32, ReduceOp::kSum, count};
}

// One small call; what it moves is of no interest.
void call_once(CollNetComm& comm, Deadline deadline) {
  RailEnd& rail = comm.rail();
  const CollNetTable::Buffer from{rail.send_memory[0], rail.region};
  const CollNetTable::Buffer to{rail.recv_memory[0], rail.region + 64};
  void* request = nullptr;
  require(rail.table->iallreduce(rail.group, from, to, 1, {}, &request), "iallreduce");
  int done = 0;
  while (request != nullptr && done == 0 && !passed(deadline)) {
    require(rail.table->test(request, &done, nullptr), "test");
    std::this_thread::yield();
  }
}

// Small calls, one after another, until the plugin refuses one.
void ask_until_error(CollNetComm& comm) {
  const Deadline deadline = deadline_after(kSoon);
  comm.progress().run([&] {
    while (!passed(deadline)) {
      call_once(comm, deadline);
    }
  });
}

// Collectives until one fails here or on another rank of the node, whose kernels then stop; then
// this rank's own rail must say so too.
void run_until_error(CollNetComm& comm) {
  const Deadline deadline = deadline_after(kSoon);
  for (uint64_t turn = 0; !passed(deadline); ++turn) {
    const Work work = work_of(kCollectives[turn % 3], 50000);
    try {
      write_input(work, comm.memory());
      comm.run(work);
    } catch (const HostError&) {
      comm.memory().fail();
      break;
    }
  }
  try {
    ask_until_error(comm);
  } catch (const PluginError&) {
    return;
  }
  throw HostError("no call ended in an error within " + std::to_string(kSoon.count()) + " s");
}

void require_clean(HostJob& job, const std::vector<uint32_t>& ranks) {
  for (const uint32_t rank : ranks) {
    const HostOutcome outcome = job.outcome(rank);
    INFO("rank " << rank);
    CHECK(outcome.signal == 0);
    CHECK(outcome.exited);
    CHECK(outcome.error == "");
  }
}

template <typename Comm>
void run_all_kinds(Comm& comm, uint64_t count) {
  for (const Collective kind : kCollectives) {
    const Work work = work_of(kind, count);
    write_input(work, comm.memory());
    comm.run(work);
    expect(count_wrong(work, comm.memory()) == 0, "every byte is right: " + work.text());
  }
}

// The host goes on over the network alone, as NCCL does.
void go_on_without(HostRank& self, uint32_t communicator) {
  RingOptions options;
  options.channels = 2;
  options.slot_bytes = 4096;
  RingComm rings(self.library(), self.memory(communicator), 50, options);
  run_all_kinds(rings, 900);
  rings.close();
}

HostJobOptions with_rings(uint32_t nodes, uint32_t ranks) {
  HostJobOptions options = host_job(nodes, ranks, 12);
  options.communicators = 2;
  options.link_bytes = RingOptions{2, 4096}.link_bytes();
  return options;
}

// A node's death, seen by the others.
void die_in_collectives(uint32_t nodes, uint32_t ranks, uint32_t dying) {
  HostJobOptions options = host_job(nodes, ranks, 12);
  options.timeout = kSoon;
  HostJob job(options, [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
    run_all_kinds(comm, 3000);
    self.say("working");
    run_until_error(comm);
    comm.close();
  });
  job.wait_for_line("working");
  std::vector<uint32_t> others;
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    if (options.shape.node_of(rank) == dying) {
      job.send_signal(rank, SIGKILL);
    } else {
      others.push_back(rank);
    }
  }
  require_clean(job, others);
}

// Connects to where the handle of a listener of ours leads; both kinds hold address and port.
Fd connect_to(const SocketAddress& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), address.get(), address.size_bytes()) != 0) {
    throw HostError("a stranger cannot connect");
  }
  return fd;
}

// Every TCP port that this process listens on.
std::vector<SocketAddress> own_listeners() {
  std::vector<SocketAddress> listeners;
  constexpr int kMaxDescriptors = 256;
  for (int fd = 3; fd < kMaxDescriptors; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) {
      const SocketAddress address = local_address(fd).value();
      if (address.family() != AF_UNIX) {  // `horing status` asks there
        listeners.push_back(address);
      }
    }
  }
  return listeners;
}

// Nothing, noise, and a beginning that looks right, each then closed or left open.
std::vector<Fd> harass(const std::vector<SocketAddress>& listeners) {
  std::vector<Fd> left_open;
  for (const SocketAddress& listener : listeners) {
    for (int kind = 0; kind < 6; ++kind) {
      Fd stranger = connect_to(listener);
      std::array<unsigned char, 600> noise{};
      for (size_t i = 0; i < noise.size(); ++i) {
        noise.at(i) =
            static_cast<unsigned char>(kind * 73 + static_cast<int>(i) * 31 + 255 * (kind % 2));
      }
      const size_t bytes = kind == 0 ? 0 : noise.size() / static_cast<size_t>(kind);
      if (bytes > 0) {
        static_cast<void>(::send(stranger.get(), noise.data(), bytes, MSG_NOSIGNAL));
      }
      if (kind % 2 == 0) {
        left_open.push_back(std::move(stranger));
      }
    }
  }
  return left_open;
}

}  // namespace

TEST_CASE("a node that dies ends the others' collectives, nobody hangs", "[quick]") {
  die_in_collectives(3, 1, 1);
}

TEST_CASE("whichever node dies, the others' collectives end") {
  for (uint32_t dying = 0; dying < 3; ++dying) {
    die_in_collectives(3, 2, dying);
  }
}

// Rank 1 is on no rail of ranks 0 and 2. Rank 2 has a connection from it, which nobody uses while
// collectives go over CollNet.
TEST_CASE("a rank that dies ends the rails of others that it is not on", "[quick]") {
  HostJobOptions options = with_rings(2, 2);
  options.timeout = kSoon;
  HostJob job(options, [](HostRank& self) {
    constexpr uint64_t kCommId = 1;
    RingComm rings(self.library(), self.memory(1), kCommId, RingOptions{2, 4096});
    CollNetComm comm(self.library(), self.memory(), kCommId, small_steps());
    expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
    run_all_kinds(rings, 900);
    run_all_kinds(comm, 3000);
    self.say("working");
    try {
      ask_until_error(comm);
    } catch (const PluginError&) {
      comm.close();
      rings.close();
      return;
    }
    throw HostError("no call ended in an error");
  });
  job.wait_for_line("working");
  job.send_signal(1, SIGKILL);
  require_clean(job, {0, 2, 3});
}

// The others go on for longer than a rail takes to look twice.
TEST_CASE("a rank that closes does not end the rails of others", "[quick]") {
  HostJob job(with_rings(2, 2), [](HostRank& self) {
    constexpr uint64_t kCommId = 1;
    RingComm rings(self.library(), self.memory(1), kCommId, RingOptions{2, 4096});
    CollNetComm comm(self.library(), self.memory(), kCommId, small_steps());
    expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
    run_all_kinds(rings, 900);
    run_all_kinds(comm, 3000);
    for (int call = 0; self.local() == 0 && call < 40; ++call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      comm.progress().run([&] { call_once(comm, deadline_after(kSoon)); });
    }
    comm.close();
    rings.close();
  });
  require_clean(job, {0, 1, 2, 3});
}

TEST_CASE("a member without the plugin: all refuse at once and go on over the network", "[quick]") {
  HostJob job(with_rings(3, 1), [](HostRank& self) {
    const Deadline deadline = deadline_after(kSoon);
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    if (self.rank() == 1) {
      comm.stay_away();  // its handle is zeros
    } else {
      expect(comm.connect() == CollNetState::kRefused, "the others refuse");
    }
    expect(!passed(deadline), "in time");
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1, 2});
}

TEST_CASE("a member that is known and never comes: all refuse at the deadline", "[quick]") {
  for (const uint32_t absent : {0U, 2U}) {
    HostJobOptions options = with_rings(3, 1);
    options.connect_timeout = std::chrono::seconds(3);
    HostJob job(options, [absent](HostRank& self) {
      const Deadline deadline = deadline_after(kSoon);
      CollNetComm comm(self.library(), self.memory(), 1, small_steps());
      const CollNetState state =
          self.rank() == absent ? comm.connect_without_coming() : comm.connect();
      expect(state == CollNetState::kRefused, "all refuse");
      expect(!passed(deadline), "in time");
      comm.close();
    });
    require_clean(job, {0, 1, 2});
  }
}

TEST_CASE("members with other settings refuse, all of them", "[quick]") {
  HostJobOptions options = with_rings(2, 2);
  options.prepare = [](uint32_t rank) {
    ::setenv("HORING_PIECE_BYTES", rank < 2 ? "65536" : "32768", 1);
  };
  HostJob job(options, [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kRefused, "all refuse");
    bool said = false;
    for (const std::string& line : PluginLibrary::log_lines()) {
      said = said || (line.find("piece sizes") != std::string::npos &&
                      line.find("32768") != std::string::npos);
    }
    expect(said, "and say why");
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1, 2, 3});
}

TEST_CASE("members whose levels of links differ refuse, and name the field and both values",
          "[quick]") {
  HostJobOptions options = with_rings(2, 1);
  const std::string prefix = "fault_test." + std::to_string(::getpid()) + ".levels.";
  options.prepare = [prefix](uint32_t rank) {
    const std::string path = prefix + std::to_string(rank);
    std::ofstream(path) << R"({"levels": [{"size": 2, "rate": "9GB", "latency": ")" << rank + 1
                        << R"(us"}]})";
    ::setenv("HORING_LEVELS_FILE", path.c_str(), 1);
  };
  HostJob job(options, [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kRefused, "all refuse");
    const std::string log = log_text();
    for (const char* const part : {"latencies of levels (HORING_LEVELS_FILE) of rail member 0 (",
                                   " and rail member 1 (",
                                   " differ: 1us and 2us; "}) {
      expect(log.find(part) != std::string::npos, std::string(part) + " in " + log);
    }
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1});
  for (const char* const rank : {"0", "1"}) {
    (void)std::remove((prefix + rank).c_str());
  }
}

TEST_CASE("where a rank's NCCL takes no tuner of ours, or has another file, all know", "[quick]") {
  for (const bool other_file : {false, true}) {
    HostJobOptions options = with_rings(2, 1);
    const std::string path = "fault_test." + std::to_string(::getpid()) + ".csv";
    std::ofstream(path) << "all_reduce,*,*,*,*,tree\n";
    options.prepare = [other_file, path](uint32_t rank) {
      if (rank == 0 || !other_file) {
        ::setenv("HORING_TUNING_FILE", path.c_str(), 1);
      }
      if (rank == 1 && !other_file) {
        ::setenv("NCCL_TUNER_PLUGIN", "none", 1);
      }
    };
    HostJob job(options, [other_file](HostRank& self) {
      CollNetComm comm(self.library(), self.memory(), 1, small_steps());
      expect(comm.connect() == CollNetState::kRefused, "all refuse");
      const std::string why = other_file ? "tuning files (HORING_TUNING_FILE) of rail member 0 ("
                                         : "tuners (NCCL_TUNER_PLUGIN) of rail member 0 (";
      const std::string log = log_text();
      expect(log.find(why) != std::string::npos, "say what differs: " + log);
      expect(log.find(" and rail member 1 (") != std::string::npos, "and with whom: " + log);
      expect(log.find(other_file ? " and no rules;" : ": ours and none;") != std::string::npos,
             "and both values: " + log);
      // One tree and one NCCL's own choice would hang: the file has no say any more.
      expect(!tuner_chooses(1), "the tuner leaves the communicator that differs to NCCL");
      const std::string uncompared = "nothing compares its tuning file (HORING_TUNING_FILE)";
      expect(log_text().find(uncompared) == std::string::npos, "its file has been compared");
      expect(tuner_chooses(2), "and no other one");
      // Nobody has met there: as for a rank that is no head of its node.
      expect(self.rank() != 0 || log_text().find(uncompared) != std::string::npos, "which it says");
      comm.close();
      go_on_without(self, 1);
    });
    require_clean(job, {0, 1});
    (void)std::remove(path.c_str());
  }
}

TEST_CASE("a rank whose tuning file is malformed is stopped and says where, others hear of it",
          "[quick]") {
  HostJobOptions options = with_rings(2, 1);
  const std::string path = "fault_test." + std::to_string(::getpid()) + ".bad.csv";
  std::ofstream(path) << "all_reduce,*,*,*,*,oak\n";
  options.prepare = [path](uint32_t rank) {
    if (rank == 1) {
      ::setenv("HORING_TUNING_FILE", path.c_str(), 1);
    }
  };
  HostJob job(options, [path](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kRefused, "both refuse");
    expect(log_text().find("no rules and a file that cannot be used") != std::string::npos,
           "and say what differs: " + log_text());
    bool stopped = false;
    try {
      expect(!tuner_chooses(1), "the tuner leaves the communicator to NCCL");
    } catch (const PluginError&) {
      stopped = true;
    }
    expect(stopped == (self.rank() == 1), "the rank with that file has no tuner");
    const bool named = log_text().find("no tuner: " + path + ":1:") != std::string::npos;
    expect(named == (self.rank() == 1), "and its log says where it is wrong: " + log_text());
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1});
  (void)std::remove(path.c_str());
}

TEST_CASE("ranks of different releases load different tables and work together") {
  HostJobOptions options = with_rings(3, 1);
  options.releases = {"2.27.7", "2.28.9", "2.30.7"};
  HostJob job(options, [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kUsed, "CollNet connects");
    run_all_kinds(comm, 3000);
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1, 2});
}

TEST_CASE("a member that runs out of descriptors tells all why", "[quick]") {
  HostJobOptions job_options = with_rings(3, 1);
  job_options.prepare = [](uint32_t rank) {
    if (rank == 2) {
      ::setenv("NCCL_HOSTID", "my-long-training-job-2026-11-24-with-a-name-worker-2", 1);
      ::setenv("RANK", "2", 1);
    }
  };
  HostJob job(job_options, [](HostRank& self) {
    CollNetOptions options = small_steps();
    rlimit usual{};
    ::getrlimit(RLIMIT_NOFILE, &usual);
    if (self.rank() == 2) {
      options.before_connect = [usual] {
        // One more: for the connection to the other members.
        const Fd next(::dup(0));
        const rlimit few{static_cast<rlim_t>(next.get()) + 1, usual.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &few);
      };
    }
    CollNetComm comm(self.library(), self.memory(), 1, options);
    expect(comm.connect() == CollNetState::kRefused, "all refuse");
    ::setrlimit(RLIMIT_NOFILE, &usual);
    std::string why;
    for (const std::string& line : PluginLibrary::log_lines()) {
      why = line.find("CollNet is not used") != std::string::npos ? line : why;
    }
    expect(why.find("Too many open files") != std::string::npos, "all know the cause: " + why);
    const bool named = why.find("rail member 2 (") != std::string::npos &&
                       why.find("-with-a-name-worker-2, RANK 2, pid ") != std::string::npos;
    expect(self.rank() == 2 || named, "and whose it is: " + why);
    comm.close();
    go_on_without(self, 1);
  });
  require_clean(job, {0, 1, 2});
}

TEST_CASE("members with other keys refuse, all of them") {
  HostJobOptions options = host_job(2, 1, 12);
  options.connect_timeout = std::chrono::seconds(5);
  options.prepare = [](uint32_t rank) {
    ::setenv("HORING_JOB_KEY", rank == 0 ? "the key of one member" : "the key of the other", 1);
  };
  HostJob job(options, [](HostRank& self) {
    CollNetComm comm(self.library(), self.memory(), 1, small_steps());
    expect(comm.connect() == CollNetState::kRefused, "both refuse");
    comm.close();
  });
  require_clean(job, {0, 1});
}

TEST_CASE("strangers at the listeners of CollNet and the network change nothing", "[quick]") {
  HostJob job(with_rings(2, 1), [](HostRank& self) {
    CollNetOptions options = small_steps();
    std::vector<Fd> strangers;
    options.before_connect = [&strangers] { strangers = harass(own_listeners()); };
    CollNetComm comm(self.library(), self.memory(), 1, options);
    expect(comm.connect() == CollNetState::kUsed, "CollNet connects all the same");
    expect(!strangers.empty(), "a stranger connected");
    run_all_kinds(comm, 3000);
    strangers.clear();
    comm.close();
    RingOptions rings{2, 4096};
    rings.before_connect = [&strangers] { strangers = harass(own_listeners()); };
    RingComm over_net(self.library(), self.memory(1), 2, rings);
    expect(!strangers.empty(), "a stranger connected to the network");
    write_input(work_of(Collective::kAllReduce, 900), over_net.memory());
    over_net.run(work_of(Collective::kAllReduce, 900));
    expect(count_wrong(work_of(Collective::kAllReduce, 900), over_net.memory()) == 0, "right");
    over_net.close();
  });
  require_clean(job, {0, 1});
}
