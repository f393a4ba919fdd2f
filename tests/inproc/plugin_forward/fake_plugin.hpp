// A plugin's table of any version in this program's memory, which notes what it is called with.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/forward/table_driver.hpp"

namespace ho::plugin::forward_test {

struct Journal {
  std::vector<uint64_t> inits;           // communicators
  std::vector<int> classes_of_inits;     // v11 and later
  std::vector<int> classes_of_connects;  // v10
  std::vector<void*> contexts;           // that calls named
  std::set<void*> open_contexts;
  std::vector<std::string> calls;  // the others
  nccl_abi::DebugLogger log = nullptr;
  nccl_abi::ProfilerCallback profiler = nullptr;
  size_t sent_bytes = 0;
  std::vector<size_t> buffers;
  void* request_before = nullptr;  // what *request of irecv came in as
  void* profile = nullptr;
  bool profiles_read = false;
  int virtual_devices = 0;
  nccl_abi::Result init_reply = nccl_abi::Result::kSuccess;
  nccl_abi::Result test_reply = nccl_abi::Result::kSuccess;
  int device_count = 1;
};
// Of the table in use. A plugin's calls have no place for it.
inline Journal& journal() {
  static Journal the_journal;
  return the_journal;
}

inline nccl_abi::Result note(const char* call) {
  journal().calls.emplace_back(call);
  return nccl_abi::Result::kSuccess;
}

// The parts of a table that differ by version.
template <typename Net>
void fill_calls_with_contexts(Net& table) {
  using nccl_abi::Result;
  table.init = [](void** context,
                  uint64_t comm_id,
                  nccl_abi::v11::CommConfig* config,
                  nccl_abi::DebugLogger log,
                  nccl_abi::ProfilerCallback profiler) {
    Journal& notes = journal();
    notes.inits.push_back(comm_id);
    notes.classes_of_inits.push_back(config->trafficClass);
    notes.log = log;
    notes.profiler = profiler;
    if (notes.init_reply == Result::kSuccess) {
      *context = reinterpret_cast<void*>(notes.inits.size());  // NOLINT: a number
      notes.open_contexts.insert(*context);
    }
    return notes.init_reply;
  };
  table.listen = [](void* context, int, void*, void** listener) {
    journal().contexts.push_back(context);
    *listener = &journal();
    return Result::kSuccess;
  };
  table.connect = [](void* context, int, void*, void** comm, nccl_abi::DeviceHandle**) {
    journal().contexts.push_back(context);
    *comm = &journal();
    return Result::kSuccess;
  };
  table.finalize = [](void* context) {
    return journal().open_contexts.erase(context) == 1 ? note("finalize") : Result::kInternalError;
  };
  table.setNetAttr = [](void* context, nccl_abi::v11::NetAttr*) {
    journal().contexts.push_back(context);
    return note("setNetAttr");
  };
}

template <typename Net>
void fill_calls_of_the_process(Net& table) {
  using nccl_abi::Result;
  table.listen = [](int, void*, void** listener) {
    *listener = &journal();
    return Result::kSuccess;
  };
  if constexpr (forward::kVersion<Net> == 10) {
    table.init = [](nccl_abi::DebugLogger log, nccl_abi::ProfilerCallback profiler) {
      journal().inits.push_back(0);
      journal().log = log;
      journal().profiler = profiler;
      return journal().init_reply;
    };
    table.connect =
        [](int, nccl_abi::v10::CommConfig* config, void*, void** comm, nccl_abi::DeviceHandle**) {
          journal().classes_of_connects.push_back(config->trafficClass);
          *comm = &journal();
          return Result::kSuccess;
        };
  } else {
    table.init = [](nccl_abi::DebugLogger log) {
      journal().inits.push_back(0);
      journal().log = log;
      return journal().init_reply;
    };
    table.connect = [](int, void*, void** comm, nccl_abi::DeviceHandle**) {
      *comm = &journal();
      return Result::kSuccess;
    };
  }
}

// size_t or int.
template <typename Size>
nccl_abi::Result note_receive(int count, const Size* sizes, void** request) {
  journal().request_before = *request;
  journal().buffers.assign(sizes, sizes + count);
  *request = &journal();
  return note("irecv");
}

template <typename Net>
void fill_messages(Net& table) {
  if constexpr (forward::kVersion<Net> >= 10) {
    table.isend = [](void*, void*, size_t size, int, void*, void* profile, void** request) {
      journal().sent_bytes = size;
      journal().profile = profile;
      *request = &journal();
      return note("isend");
    };
    table.irecv =
        [](void*, int count, void**, size_t* sizes, int*, void**, void** profiles, void** request) {
          journal().profiles_read = profiles != nullptr;
          return note_receive(count, sizes, request);
        };
  } else {
    using Size = std::conditional_t<forward::kSizesAreInt<Net>, int, size_t>;
    table.isend = [](void*, void*, Size size, int, void*, void** request) {
      journal().sent_bytes = static_cast<size_t>(size);
      *request = &journal();
      return note("isend");
    };
    table.irecv = [](void*, int count, void**, Size* sizes, int*, void**, void** request) {
      return note_receive(count, sizes, request);
    };
  }
}

template <typename Properties>
nccl_abi::Result device_properties(int device, Properties* properties) {
  static std::string name = "fake0";
  static std::string path = "/sys/devices/fake";
  *properties = {};
  properties->name = name.data();
  properties->pciPath = path.data();
  properties->guid = 7;
  properties->ptrSupport =
      nccl_abi::kPointerHost | nccl_abi::kPointerCuda | nccl_abi::kPointerDmabuf;
  properties->regIsGlobal = 1;
  properties->speed = 400000;
  properties->port = 2;
  properties->latency = 1.5F;
  properties->maxComms = 1000 + device;
  properties->maxRecvs = 16;
  properties->netDeviceType = nccl_abi::NetDeviceType::kUnpack;
  properties->netDeviceVersion = 9;
  if constexpr (requires { properties->vProps; }) {
    properties->forceFlush = 1;
    properties->vProps.ndevs = 2;
    properties->vProps.devs[0] = 4;
    properties->vProps.devs[1] = 5;
    properties->maxP2pBytes = 1000;
    properties->maxCollBytes = 2000;
  }
  if constexpr (requires { properties->maxMultiRequestSize; }) {
    properties->maxMultiRequestSize = 3;
  }
  if constexpr (requires { properties->railId; }) {
    properties->railId = 11;
    properties->planeId = 12;
  }
  return nccl_abi::Result::kSuccess;
}

// All that a table can have, and a fresh journal.
template <typename Net>
Net make_fake_table() {
  using nccl_abi::Result;
  journal() = {};
  Net table{};
  table.name = "Fake";
  table.devices = [](int* count) {
    *count = journal().device_count;
    return Result::kSuccess;
  };
  table.getProperties = device_properties;
  table.accept = [](void*, void** comm, nccl_abi::DeviceHandle**) {
    *comm = &journal();
    return Result::kSuccess;
  };
  table.regMr = [](void*, void*, size_t, int, void** memory) {
    *memory = &journal();
    return note("regMr");
  };
  table.regMrDmaBuf = [](void*, void*, size_t, int, uint64_t, int, void** memory) {
    *memory = &journal();
    return note("regMrDmaBuf");
  };
  table.deregMr = [](void*, void*) { return note("deregMr"); };
  table.iflush = [](void*, int, void**, int*, void**, void**) { return note("iflush"); };
  table.test = [](void*, int* done, int*) {
    *done = 1;
    return journal().test_reply;
  };
  table.closeSend = [](void*) { return note("closeSend"); };
  table.closeRecv = [](void*) { return note("closeRecv"); };
  table.closeListen = [](void*) { return note("closeListen"); };
  table.getDeviceMr = [](void*, void*, void**) { return note("getDeviceMr"); };
  table.irecvConsumed = [](void*, int, void*) { return note("irecvConsumed"); };
  if constexpr (requires { table.makeVDevice; }) {
    table.makeVDevice = [](int* device, auto* properties) {
      *device = 100 + 10 * journal().virtual_devices++ + properties->ndevs;
      return note("makeVDevice");
    };
  }
  if constexpr (forward::kHasContexts<Net>) {
    fill_calls_with_contexts(table);
  } else {
    fill_calls_of_the_process(table);
  }
  fill_messages(table);
  return table;
}

}  // namespace ho::plugin::forward_test
