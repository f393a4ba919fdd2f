// Every environment variable the library reads, in one table that also prints
// docs/reference/environment.md and `horing env`. Nothing else in the tree calls getenv for
// HORING_* names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ho::env {

// What a variable that holds a number may hold. number() and check_numbers() refuse anything else:
// an odd value that is followed costs more than one that is named.
struct Range {
  uint64_t least = 0;
  uint64_t most = 0;
  bool or_zero = false;  // also 0, where that is below `least`
  bool power_of_two = false;
  uint64_t multiple_of = 1;
  std::string_view or_word{};  // also this word: "auto"
};

struct Variable {
  std::string_view name;
  std::string_view default_value;  // "" = unset
  std::string_view meaning;        // one or two sentences; unit included
  bool must_match;                 // all ranks of a job must have the same value
  std::optional<Range> range{};    // nothing: not a number
};

inline constexpr uint64_t kLongestMs = 1'000'000'000'000;  // 31 years
inline constexpr uint64_t kMaxMbit = 1'000'000;

// X(its name here, its members): in the order in which the documentation lists them.
// clang-format off
#define HORING_VARIABLES(X) \
  X(kLogLevel, "HORING_LOG_LEVEL", "warn", "Least severe level that is logged: trace, debug, info, warn, error or off.", false) \
  X(kJobKey, "HORING_JOB_KEY", "", "Job secret, at least 16 characters; every connection of the job proves it. Without one only loopback is accepted.", false) \
  X(kJobKeyFile, "HORING_JOB_KEY_FILE", "", "File that holds the job secret, readable by its owner only; used where HORING_JOB_KEY is not set.", false) \
  X(kAllowUnauthenticated, "HORING_ALLOW_UNAUTHENTICATED", "0", "1 accepts connections from other hosts without a job key. Anyone who can reach the ports can then join or disturb the job.", true) \
  X(kRendezvous, "HORING_RENDEZVOUS", "", "Where the ranks find each other: tcp://HOST:PORT (rank 0 listens there) or file:///PATH (on a file system that all ranks share). Default: from MASTER_ADDR and MASTER_PORT or the launcher's variables.", false) \
  X(kJobId, "HORING_JOB_ID", "", "Any text that all ranks of a job have in common and no other job has. A rank with another one is refused when ranks find each other. Without it the launcher's are compared: TORCHELASTIC_RUN_ID, SLURM_JOB_ID and SLURM_STEP_ID, PMIX_NAMESPACE, PMI_JOBID.", true) \
  X(kHostId, "HORING_HOST_ID", "", "Overrides the host identity that ranks are grouped by; ranks with equal values form one group.", false) \
  X(kGroupFile, "HORING_GROUP_FILE", "", "JSON file that maps host names to groups (for example by switch): {\"groups\": [[\"node1\", \"node2\"], [\"node3\"]]}.", false) \
  X(kSocketIfname, "HORING_SOCKET_IFNAME", "", "Interfaces that may be rails, in NCCL's syntax: a list of prefixes (eth,ib), =exact names (=eth0,eth1) or ^excluded prefixes (^docker,lo).", false) \
  X(kNcclSocketIfname, "NCCL_SOCKET_IFNAME", "", "NCCL plugin: what HORING_SOCKET_IFNAME is for the builtin network where that is not set.", false) \
  X(kTopoFile, "HORING_TOPO_FILE", "", "hwloc XML file (lstopo --of xml), or a topology file of NCCL's, to use in place of live discovery. Its network interfaces take the addresses and states that this host has under the same names; to show a file on another host (horing topo --xml), give them in it, as <info name=\"IPAddress\" value=\"10.1.0.1/24\"/>.", false) \
  X(kTransport, "HORING_TRANSPORT", "tcp", "Transport between groups: tcp or ucx.", true) \
  X(kRails, "HORING_RAILS", "0", "Rails between groups, at most the ranks of the smallest group. 0 chooses as many as carry the most and of equals the fewest: one per NIC that all groups have, more on NICs faster than 10 Gbit/s.", true, Range{.least = 0, .most = 65536}) \
  X(kAlgorithm, "HORING_ALGORITHM", "auto", "Algorithm of every collective: auto, ring, multi_ring, hierarchical, ho_ring or direct.", true) \
  X(kPieceBytes, "HORING_PIECE_BYTES", "0", "Bytes of a chunk that move as one piece; 0 chooses by size.", true, Range{.least = 1024, .most = 67108864, .or_zero = true, .multiple_of = 8}) \
  X(kDirectMaxBytes, "HORING_DIRECT_MAX_BYTES", "8192", "Largest total size in bytes for which auto chooses the direct algorithm; where it is set, HORING_LEVELS_FILE does not count for auto.", true, Range{.least = 0, .most = 1073741824}) \
  X(kLevelsFile, "HORING_LEVELS_FILE", "", "JSON file of the links inside nodes and between them, as of paro plan --cluster: auto then chooses between direct and ho_ring by the model of time, and the NCCL tuner takes rates and latencies from it. The same contents on all ranks. Not for auto where HORING_DIRECT_MAX_BYTES is set, nor for what HORING_TUNER_* say.", false) \
  X(kScratchBytes, "HORING_SCRATCH_BYTES", "16777216", "Most bytes of partial sums that a rank keeps per channel, four times as many where ranks have devices; larger operations run in passes.", true, Range{.least = 65536, .most = 68719476736}) \
  X(kTimeoutMs, "HORING_TIMEOUT_MS", "600000", "Default deadline of an operation in milliseconds.", false, Range{.least = 1, .most = kLongestMs}) \
  X(kConnectTimeoutMs, "HORING_CONNECT_TIMEOUT_MS", "60000", "Deadline for the ranks to find each other, for what they then set up together, and for opening a connection, in milliseconds each.", false, Range{.least = 1, .most = kLongestMs}) \
  X(kPortRange, "HORING_PORT_RANGE", "", "Ports, as FIRST-LAST, for every TCP listener whose port is not named otherwise, where a firewall lets only these through: one per communicator on each rank, one more on rank 0 (another on each rank, but for HORING_FAILOVER=0), and under NCCL one per connection, with HORING_FAILOVER=0 only while it is being made. UCX's own listeners take UCX_TCP_PORT_RANGE. Default: the kernel chooses.", false) \
  X(kTcpStreams, "HORING_TCP_STREAMS", "1", "TCP connections per rail neighbour; more than one where a single one cannot fill the link.", true, Range{.least = 1, .most = 16}) \
  X(kTcpMaxConnections, "HORING_TCP_MAX_CONNECTIONS", "256", "Most data connections that a rank keeps open; idle ones are closed first.", false, Range{.least = 2, .most = 65536}) \
  X(kFailover, "HORING_FAILOVER", "1", "Links between groups over TCP, the control plane, and NCCL's connections over the plugin's builtin network go on over another rail when theirs is lost, and wait for it where there is no other. 0: a rail that is lost ends the job.", true) \
  X(kFailoverDetectMs, "HORING_FAILOVER_DETECT_MS", "1000", "A rail on which nothing was answered for so long, though data was sent again twice, is lost, in milliseconds.", false, Range{.least = 100, .most = kLongestMs}) \
  X(kFailoverWaitMs, "HORING_FAILOVER_WAIT_MS", "30000", "How long a link, or the control plane, that reaches its peer over no rail waits for one to return before it fails, in milliseconds. Each path is tried first, for 250 at least, and the control plane does not count time in which the process is stopped.", false, Range{.least = 0, .most = kLongestMs}) \
  X(kFailoverNoticeMs, "HORING_FAILOVER_NOTICE_MS", "3000", "A host that has answered the control plane on no path for so long, and at least for HORING_FAILOVER_DETECT_MS and a second, is named in the log once each path has been tried, in milliseconds. HORING_FAILOVER_WAIT_MS says how long it is waited for.", false, Range{.least = 100, .most = kLongestMs}) \
  X(kFailoverBytes, "HORING_FAILOVER_BYTES", "33554432", "Bytes of large messages that a process may copy, for all its links, while its peers' hosts have not acknowledged them. Beyond, a send waits for that.", false, Range{.least = 0, .most = 68719476736}) \
  X(kRailPaceMbit, "HORING_RAIL_PACE_MBIT", "0", "Paces each rail's sends to this many Mbit/s in the sender, where HORING_EMULATED_RAILS has no rate. 0 is off.", true, Range{.least = 0, .most = kMaxMbit}) \
  X(kShmRingBytes, "HORING_SHM_RING_BYTES", "131072", "Bytes of the ring in shared memory per peer and channel; halved until all of a rank's rings fit in 16 MiB.", true, Range{.least = 8192, .most = 4194304, .power_of_two = true}) \
  X(kDeviceSharing, "HORING_DEVICE_SHARING", "1", "Whether ranks of one host read each other's device memory (CUDA IPC) where they can: 0 lets it go through pinned host memory.", false) \
  X(kDeviceSums, "HORING_DEVICE_SUMS", "auto", "Who adds partial sums of device memory that lie in pinned host memory, between the steps of a rail: host or device; auto measures which is faster when a process makes its first communicator.", false) \
  X(kShmSingleCopy, "HORING_SHM_SINGLE_COPY", "auto", "Whether large payloads inside a group are read by the receiver with process_vm_readv: 1 where the kernel permits it, 0 never, auto where it is also measured to be faster than two copies.", false) \
  X(kSpinUs, "HORING_SPIN_US", "auto", "Microseconds to spin before sleeping; auto spins only where the ranks of the node leave cores free.", false, Range{.least = 0, .most = 1000000, .or_word = "auto"}) \
  X(kProgressCpu, "HORING_PROGRESS_CPU", "auto", "CPU list for the progress thread (for example 4-7); auto takes the NUMA node of the rank's NIC, none leaves it alone.", false) \
  X(kTrace, "HORING_TRACE", "", "File for a Chrome/Perfetto trace, a slice per piece and lane; %r in the name is the rank, without it all ranks of the job write into one file.", false) \
  X(kRecordDir, "HORING_RECORD_DIR", "", "Folder in which each rank writes its last operations, as JSON, when its communicator fails (a deadline that passes included), at the signal of HORING_RECORD_SIGNAL, and when `horing status --record` asks: JOB-rankR.json.", false) \
  X(kRecordSignal, "HORING_RECORD_SIGNAL", "", "Number of a signal at which the process writes what HORING_RECORD_DIR is for: 10 (SIGUSR1), 12 (SIGUSR2), or 34 to 64 (real-time signals). No other: a handler that returns repeats a fault for ever, and Ctrl-C or SIGTERM would not end the program. Where the program has a handler for it, that stays.", false) \
  X(kStatusDir, "HORING_STATUS_DIR", "", "Folder of the sockets that `horing status` asks, which only the user may enter; none makes no sockets. Default: horing in XDG_RUNTIME_DIR or /run/user/UID, else /tmp/horing-UID.", false) \
  X(kTuningFile, "HORING_TUNING_FILE", "", "CSV file of what the NCCL tuner chooses, before its own model: lines of collective,min_bytes,max_bytes,nodes,ranks_per_node,choice. The same on all ranks; `horing tune --file` shows what it does.", false) \
  X(kTunerNics, "HORING_TUNER_NICS", "", "NICs of each node that the NCCL tuner counts with. Default: the number of this node's network devices, which must then be the same on all nodes.", true, Range{.least = 1, .most = 1024}) \
  X(kTunerNicMbps, "HORING_TUNER_NIC_MBPS", "", "Mbit/s that one NIC carries of NCCL's own sends, for the NCCL tuner. Default: the speed of this node's slowest NIC, which must then be the same on all nodes.", true, Range{.least = 1, .most = kMaxMbit}) \
  X(kTunerRailMbps, "HORING_TUNER_RAIL_MBPS", "", "Mbit/s that one NIC carries of our rail rings, for the NCCL tuner. Default: as for NCCL's own sends.", true, Range{.least = 1, .most = kMaxMbit}) \
  X(kTunerIntraMbps, "HORING_TUNER_INTRA_MBPS", "", "Mbit/s from a GPU to the others of its node, for the NCCL tuner. Default: taken as no limit.", true, Range{.least = 1, .most = 100000000}) \
  X(kTunerHopUs, "HORING_TUNER_HOP_US", "20", "Microseconds that a small message takes from rank to rank over a NIC, for the NCCL tuner.", true, Range{.least = 1, .most = 1000000}) \
  X(kTunerChannels, "HORING_TUNER_CHANNELS", "", "NCCL's channels for CollNet that the NCCL tuner counts with: NCCL_DEBUG=INFO prints them (\"4 collnet channels\"). Default: one per NIC, within NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS.", true, Range{.least = 1, .most = 64}) \
  X(kNetForward, "HORING_NET_FORWARD", "", "NCCL plugin: another net plugin to pass every network call to, CollNet being added on top: its name (ofi means libnccl-net-ofi.so) or its path. Default: the builtin network over TCP.", true) \
  X(kCollNetHost, "HORING_COLLNET_HOST", "0", "NCCL plugin: 1 offers CollNet, which works on host memory, also on devices whose network moves GPU memory itself; NCCL then gives that up on them.", true) \
  X(kStepLog, "PARO_STEP_LOG", "", "libparo: file for a JSON line per training step, where paro_runner_options.step_log does not name one; %r in the name is the rank, without it rank 0 alone writes.", false) \
  X(kMetricsFile, "PARO_METRICS_FILE", "", "libparo: file of Prometheus metrics, replaced after every training step, where paro_runner_options.metrics_file does not name one; %r as above. In the node exporter's textfile folder its name ends in .prom.", false) \
  X(kStrategyFile, "PARO_STRATEGY_FILE", "", "libparo: file that rank 0 checks before every step, where paro_runner_options.strategy_file does not name one; when it changes, the job takes the strategy and the budget that it names.", false) \
  X(kAutoStrategy, "PARO_AUTO_STRATEGY", "0", "libparo: 1 lets the job choose another strategy where the budget in PARO_STRATEGY_FILE or the measured links have changed; counts on rank 0.", false) \
  X(kNcclLibrary, "PARO_NCCL_LIBRARY", "libnccl.so.2", "libparo: the NCCL that is opened for its collectives, 2.26.2 or newer: a file, or a name that the loader looks for.", false) \
  X(kEmulation, "HORING_EMULATION", "", "How horing run emulates nodes: namespaces (links shaped by the kernel), paced (loopback, paced by the sender) or none. Set by horing run, for information.", true) \
  X(kEmulatedRails, "HORING_EMULATED_RAILS", "", "Loopback addresses that stand for this node's rails, as name=address,...; behind them, where senders keep to a rate, ;mbit=N and ;fd=N, the inherited descriptor of zeroed memory in which the node's ranks share it. Set by horing run where it has no namespaces.", false) \
  X(kRailRateMbit, "HORING_RAIL_RATE_MBIT", "", "Rate of each emulated rail in Mbit/s, 0 for no limit. Set by horing run, for information.", true, Range{.least = 0, .most = kMaxMbit}) \
  X(kCluster, "HORING_CLUSTER", "", "JSON file that describes the emulated cluster around this process. Set by horing cluster; horing run then uses that cluster.", false)
// clang-format on
#define HORING_VARIABLE(name, ...) inline constexpr Variable name{__VA_ARGS__};
HORING_VARIABLES(HORING_VARIABLE)
#undef HORING_VARIABLE

// All variables, in that order.
[[nodiscard]] std::span<const Variable> all();

// The value, or the variable's default. A variable that is set to nothing counts as not set.
[[nodiscard]] std::string text(const Variable& variable);
[[nodiscard]] std::optional<std::string> text_if_set(const Variable& variable);
// For those where that is a mistake.
[[nodiscard]] bool is_set_to_nothing(const Variable& variable);
// A whole number in the variable's range, or an error that names the variable, its value and what
// it takes.
[[nodiscard]] Result<uint64_t> number(const Variable& variable);
// "0, or 1024 to 67108864, a multiple of 8"; "" for a variable that holds no number.
[[nodiscard]] std::string takes(const Variable& variable);
// The first variable in this process's environment whose number, or numbers, are out of its range,
// as an error.
[[nodiscard]] Status check_numbers();
// Whether the value in effect is one that the variable takes, as far as this can be checked without
// its reader: numbers, switches and words.
[[nodiscard]] Status check_value(const Variable& variable);
// What ranks compare where all must have the same: the value in effect, and one text for all that
// mean the same ("yes" and "1").
[[nodiscard]] std::string compared_text(const Variable& variable);
// Names in this process's environment that begin with `prefix` and are no variable of ours, sorted.
[[nodiscard]] std::vector<std::string> unknown_names(std::string_view prefix);
// One of those that is near to a variable's name, and that: a name that is misspelt does nothing.
struct Misspelt {
  std::string name;
  std::string_view near;
};
[[nodiscard]] std::vector<Misspelt> misspelt_names();
// In the log, once per process.
void warn_of_misspelt_names();
// Both ends are in it.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};
// HORING_PORT_RANGE: nothing where it is not set, an error where it is no range of ports.
[[nodiscard]] Result<std::optional<PortRange>> port_range();
// HORING_RECORD_SIGNAL: nothing where it is not set, an error where it is none of the signals that
// a program leaves to others.
[[nodiscard]] Result<std::optional<int>> record_signal();
// 0/1 (also true/false, yes/no, on/off), or an error.
[[nodiscard]] Result<bool> flag(const Variable& variable);

}  // namespace ho::env
