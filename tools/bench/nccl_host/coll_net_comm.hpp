// A communicator of NCCL's that uses CollNet, on one rank: the head of its rail. Connects as
// NCCL does (handles over the bootstrap, everything that may block on the service thread), and runs
// whole collectives: inside the node through the job's memory, between nodes through the plugin.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/nccl_host/coll_run.hpp"
#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/plugin_library.hpp"
#include "bench/nccl_host/worker.hpp"
#include "os/private_memory.hpp"

namespace ho::nccl_host {

struct CollNetOptions {
  CollSettings settings;
  bool poison = true;
  uint32_t rotate_handles = 0;  // NCCL does not promise that they are in the order of nodes
  bool early_finalize = false;  // contexts are freed before what was made in them
  // Registers and deregisters other memory on the service thread while collectives run.
  bool registers_meanwhile = false;
  // Collectives on buffers that the user has registered. Calls then have at most so many bytes
  // where a node has one rank; 0: as the device allows.
  bool user_buffers = false;
  uint64_t most_call_bytes = 0;
  std::function<void()> before_connect = {};  // when this rank listens and no peer has connected
};

// The outcome of connecting, the same on all ranks.
enum class CollNetState { kUsed, kRefused };

class CollNetComm {
 public:
  CollNetComm(PluginLibrary& library,
              const CommMemory& memory,
              uint64_t comm_id,
              const CollNetOptions& options);
  CollNetComm(const CollNetComm&) = delete;
  CollNetComm& operator=(const CollNetComm&) = delete;
  // Closes what close() has not; errors are lost.
  ~CollNetComm();

  // Collective. Throws HostError where ranks have different outcomes.
  [[nodiscard]] CollNetState connect();
  // Collective with the others' connect(): what a member does that has no CollNet, and one that
  // listens and then never connects.
  void stay_away();
  [[nodiscard]] CollNetState connect_without_coming();
  [[nodiscard]] bool reduces(DType dtype, ReduceOp op) const;
  // Collective, on inputs in the job's memory.
  void run(const Work& work);
  // Throws PluginError where the plugin refuses. Not collective.
  void close();

  [[nodiscard]] CommMemory& memory() { return memory_; }
  [[nodiscard]] RailEnd& rail() { return rail_; }
  [[nodiscard]] Worker& service() { return service_; }
  [[nodiscard]] Worker& progress() { return progress_; }
  [[nodiscard]] uint64_t calls() const { return calls_; }
  [[nodiscard]] uint64_t again() const { return again_; }

 private:
  static constexpr size_t kHandleBytes = nccl_abi::kHandleBytes;
  using Handle = std::array<std::byte, kHandleBytes>;

  [[nodiscard]] std::vector<Handle> handles_of_rail(const std::vector<Handle>& all) const;
  [[nodiscard]] uint64_t most_bytes_of_call(const DeviceProperties& device) const;
  [[nodiscard]] void* listen(Handle& handle);
  [[nodiscard]] bool connect_group(std::vector<Handle> handles, void* listener);
  [[nodiscard]] CollNetState agree(bool connected);
  void register_region();
  void register_user_buffers();
  void ask_for_reductions();
  void register_other_memory();
  void run_in_slots(const Work& work);
  void run_registered(const Work& work);
  void release_group();

  PluginLibrary& library_;
  CommMemory memory_;
  CollNetOptions options_;
  PluginLibrary::Contexts contexts_;
  RailEnd rail_;
  PrivateMemory region_;  // of whole pages, as NCCL's
  uint64_t most_call_bytes_ = 0;
  std::vector<bool> supported_;  // by type, then operation
  uint64_t calls_ = 0;
  uint64_t again_ = 0;
  bool closed_ = false;
  Worker service_;
  Worker progress_;
  Worker kernel_;
};

}  // namespace ho::nccl_host
