// The double's state: sets of ranks that share an id, and each rank's communicator.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda_double.hpp"
#include "nccl_double.hpp"

namespace ho::nccl_double {

enum class Kind : uint8_t { kAllGather, kReduceScatter, kAllReduce, kBroadcast };

// What all ranks of a collective must have in common.
struct Shape {
  Kind kind = Kind::kAllGather;
  size_t count = 0;
  nccl::DataType type = 0;
  nccl::Reduction op = 0;
  int root = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};
[[nodiscard]] std::string to_string(const Shape& shape);

// Where each rank's data is, by rank.
struct Buffers {
  std::vector<const void*> send;
  std::vector<void*> recv;
};
// The bytes that a rank reads and writes, of so many ranks.
[[nodiscard]] std::vector<cuda_double::TouchedRange> touched(
    const Shape& shape, size_t ranks, int rank, const void* send, void* recv);
// Every rank's result.
void compute(const Shape& shape, const Buffers& buffers, const cuda_double::Translate& translate);

struct Collective {
  uint64_t number = 0;  // on its communicator, from 1
  Shape shape;
  int first_rank = 0;  // who came first, whose shape it is
  size_t came = 0;
  std::shared_ptr<Buffers> buffers;
  std::shared_ptr<cuda_double::JointWork> work;
  std::vector<std::shared_ptr<cuda_double::JointWork>> different;  // of ranks with another shape
};

struct RankSet {
  uint64_t number = 0;         // for messages, from 1
  int ranks = 0;               // 0: nobody has come
  std::map<int, int> devices;  // of the ranks that have come
  size_t finalized = 0;
  bool aborted = false;                     // by a rank
  std::map<Kind, std::set<int>> connected;  // ranks that have called a collective of the kind
  std::deque<Collective> collectives;
  uint64_t forgotten = 0;  // that are over, before the first one there
};

// A collective as a rank calls it.
struct Started {
  const char* call;
  nccl::CommHandle handle;
  Shape shape;
  const void* send;
  void* recv;
  nccl::StreamHandle stream;
};

enum class Phase : uint8_t { kMaking, kReady, kFinalizing, kFinalized };

struct Communicator {
  std::shared_ptr<RankSet> set;
  int rank = 0;
  int device = 0;
  Phase phase = Phase::kMaking;
  int polls_left = 0;
  std::vector<Started> to_launch;  // collectives that are in progress
  uint64_t started = 0;
  nccl::ResultCode async_error = nccl::kSuccess;
};

struct Fault {
  std::string name;
  uint64_t left = 0;
  nccl::ResultCode result = nccl::kSuccess;
};

struct State {
  std::mutex mutex;
  Config config;
  std::map<std::string, std::shared_ptr<RankSet>> sets;  // by id
  std::map<nccl::CommHandle, Communicator> communicators;
  std::map<nccl::CommHandle, std::string> ended;  // by which call
  std::map<std::string, uint64_t, std::less<>> counts;
  MovedBytes moved;
  std::vector<Fault> faults;
  std::vector<std::string> violations;
  uintptr_t handles = 0x100000;
  uint64_t ids = 0;
  uint64_t set_numbers = 0;
};
[[nodiscard]] State& state();

// One call, from its count to its end: holds the lock, and says whether it fails as a test wants.
class Call {
 public:
  explicit Call(const char* name);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;
  [[nodiscard]] nccl::ResultCode refused() const { return refused_; }
  // Null, and a violation, where there is no such communicator.
  [[nodiscard]] Communicator* find(nccl::CommHandle handle);
  nccl::ResultCode violation(const std::string& text);
  [[nodiscard]] State* operator->() { return &state_; }

 private:
  State& state_;
  std::unique_lock<std::mutex> lock_;
  const char* name_;
  nccl::ResultCode refused_ = nccl::kSuccess;
};
[[nodiscard]] std::string rank_text(const Communicator& comm);  // "rank 1 of communicator 2"

// What it has in progress connects ranks, of which some have not come.
[[nodiscard]] bool waits_for_ranks(const Communicator& comm);
// Gives the streams what the communicator has in progress.
[[nodiscard]] nccl::ResultCode launch_started(Call& call, Communicator& comm);

// Each part of the table.
void fill_communicator_calls(nccl::Nccl& table);
void fill_collective_calls(nccl::Nccl& table);

}  // namespace ho::nccl_double
