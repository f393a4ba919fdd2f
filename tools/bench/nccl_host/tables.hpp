// The calls of NCCL's net and CollNet tables, whatever their version: what NCCL's own shims make of
// them. Each call goes to the table's function of that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "abi/common.hpp"

namespace ho::nccl_host {

struct DeviceProperties {
  std::string name;
  uint64_t guid = 0;
  int speed_mbps = 0;
  int port = 0;
  int max_comms = 0;
  int max_recvs = 0;
  size_t max_p2p_bytes = 0;   // since v9, else 0
  size_t max_coll_bytes = 0;  // since v9, else 0
  int rail_id = -1;           // since v12
  int plane_id = -1;          // since v12
};

// What both have.
class PluginTable {
 public:
  PluginTable() = default;
  PluginTable(const PluginTable&) = delete;
  PluginTable& operator=(const PluginTable&) = delete;
  virtual ~PluginTable() = default;

  using Result = nccl_abi::Result;
  [[nodiscard]] virtual int version() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] bool has_contexts() const { return version() >= 11; }
  // context: null before v11.
  virtual Result init(void** context, uint64_t comm_id, nccl_abi::DebugLogger logger) = 0;
  virtual Result devices(int* count) = 0;
  virtual Result properties(int device, DeviceProperties* properties) = 0;
  virtual Result listen(void* context, int device, void* handle, void** listener) = 0;
  virtual Result register_memory(void* comm, void* data, size_t bytes, int kind, void** memory) = 0;
  virtual Result deregister(void* comm, void* memory) = 0;
  virtual Result test(void* request, int* done, int* sizes) = 0;
  virtual Result close_listen(void* listener) = 0;
  // Success before v11.
  virtual Result finalize(void* context) = 0;
};

class NetTable : public PluginTable {
 public:
  // Of the symbol's address in a library. Throws HostError for a version that NCCL's releases with
  // this host's headers do not have.
  [[nodiscard]] static std::unique_ptr<NetTable> of(int version, void* symbol);

  virtual Result connect(void* context, int device, void* handle, void** sender) = 0;
  virtual Result accept(void* listener, void** receiver) = 0;
  virtual Result isend(
      void* sender, void* data, size_t bytes, int tag, void* memory, void** request) = 0;
  struct Receives {
    int count = 0;
    void** data = nullptr;
    const size_t* bytes = nullptr;
    int* tags = nullptr;
    void** memories = nullptr;
  };
  virtual Result irecv(void* receiver, const Receives& receives, void** request) = 0;
  virtual Result close_send(void* sender) = 0;
  virtual Result close_recv(void* receiver) = 0;
};

class CollNetTable : public PluginTable {
 public:
  [[nodiscard]] static std::unique_ptr<CollNetTable> of(int version, void* symbol);

  struct Buffer {
    void* memory = nullptr;
    void* data = nullptr;
  };
  struct Reduction {
    int dtype = 0;
    int op = 0;
  };
  struct Window {
    size_t bytes_per_rank = 0;
    size_t offset = 0;
    size_t bytes = 0;
  };
  virtual Result connect(void** handles, int ranks, int rank, void* listener, void** group) = 0;
  virtual Result reduce_support(const Reduction& reduction, int* supported) = 0;
  virtual Result iallreduce(void* group,
                            const Buffer& from,
                            const Buffer& to,
                            size_t count,
                            const Reduction& reduction,
                            void** request) = 0;
  virtual Result iallgather(
      void* group, const Buffer& from, const Buffer& to, const Window& window, void** request) = 0;
  virtual Result ireducescatter(void* group,
                                const Buffer& from,
                                const Buffer& to,
                                const Window& window,
                                const Reduction& reduction,
                                void** request) = 0;
  virtual Result close_group(void* group) = 0;
};

}  // namespace ho::nccl_host
