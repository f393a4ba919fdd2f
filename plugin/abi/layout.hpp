// Where NCCL looks for the members that all versions of a structure begin with.
#pragma once

#include <cstddef>

namespace nccl_abi {

// Of v8 and later.
template <typename Net>
consteval bool net_in_place() {
  return offsetof(Net, name) == 0 * sizeof(void*) && offsetof(Net, init) == 1 * sizeof(void*) &&
         offsetof(Net, devices) == 2 * sizeof(void*) &&
         offsetof(Net, getProperties) == 3 * sizeof(void*) &&
         offsetof(Net, listen) == 4 * sizeof(void*) &&
         offsetof(Net, connect) == 5 * sizeof(void*) &&
         offsetof(Net, accept) == 6 * sizeof(void*) && offsetof(Net, regMr) == 7 * sizeof(void*) &&
         offsetof(Net, regMrDmaBuf) == 8 * sizeof(void*) &&
         offsetof(Net, deregMr) == 9 * sizeof(void*) &&
         offsetof(Net, isend) == 10 * sizeof(void*) && offsetof(Net, irecv) == 11 * sizeof(void*) &&
         offsetof(Net, iflush) == 12 * sizeof(void*) && offsetof(Net, test) == 13 * sizeof(void*) &&
         offsetof(Net, closeSend) == 14 * sizeof(void*) &&
         offsetof(Net, closeRecv) == 15 * sizeof(void*) &&
         offsetof(Net, closeListen) == 16 * sizeof(void*) &&
         offsetof(Net, getDeviceMr) == 17 * sizeof(void*) &&
         offsetof(Net, irecvConsumed) == 18 * sizeof(void*);
}

// Of v8 and later.
template <typename CollNet>
consteval bool coll_net_in_place() {
  return offsetof(CollNet, name) == 0 * sizeof(void*) &&
         offsetof(CollNet, init) == 1 * sizeof(void*) &&
         offsetof(CollNet, devices) == 2 * sizeof(void*) &&
         offsetof(CollNet, getProperties) == 3 * sizeof(void*) &&
         offsetof(CollNet, listen) == 4 * sizeof(void*) &&
         offsetof(CollNet, connect) == 5 * sizeof(void*) &&
         offsetof(CollNet, reduceSupport) == 6 * sizeof(void*) &&
         offsetof(CollNet, regMr) == 7 * sizeof(void*) &&
         offsetof(CollNet, regMrDmaBuf) == 8 * sizeof(void*) &&
         offsetof(CollNet, deregMr) == 9 * sizeof(void*) &&
         offsetof(CollNet, iallreduce) == 10 * sizeof(void*) &&
         offsetof(CollNet, iallgather) == 11 * sizeof(void*) &&
         offsetof(CollNet, ireducescatter) == 12 * sizeof(void*) &&
         offsetof(CollNet, iflush) == 13 * sizeof(void*) &&
         offsetof(CollNet, test) == 14 * sizeof(void*) &&
         offsetof(CollNet, closeColl) == 15 * sizeof(void*) &&
         offsetof(CollNet, closeListen) == 16 * sizeof(void*);
}

// Of v9 and later.
template <typename NetProperties>
consteval bool properties_in_place() {
  return offsetof(NetProperties, name) == 0 && offsetof(NetProperties, pciPath) == 8 &&
         offsetof(NetProperties, guid) == 16 && offsetof(NetProperties, ptrSupport) == 24 &&
         offsetof(NetProperties, regIsGlobal) == 28 && offsetof(NetProperties, forceFlush) == 32 &&
         offsetof(NetProperties, speed) == 36 && offsetof(NetProperties, port) == 40 &&
         offsetof(NetProperties, latency) == 44 && offsetof(NetProperties, maxComms) == 48 &&
         offsetof(NetProperties, maxRecvs) == 52 && offsetof(NetProperties, netDeviceType) == 56 &&
         offsetof(NetProperties, netDeviceVersion) == 60 && offsetof(NetProperties, vProps) == 64;
}

// Of v8 and later.
template <typename WindowPart>
consteval bool window_part_in_place() {
  return offsetof(WindowPart, mhandle) == 0 && offsetof(WindowPart, address) == 8 &&
         offsetof(WindowPart, size) == 16 && sizeof(WindowPart) == 24;
}

// The fourth is destroy() to version 4 and finalize() since.
template <typename Tuner>
consteval bool tuner_in_place() {
  const bool first = offsetof(Tuner, name) == 0 * sizeof(void*) &&
                     offsetof(Tuner, init) == 1 * sizeof(void*) &&
                     offsetof(Tuner, getCollInfo) == 2 * sizeof(void*);
  if constexpr (requires { &Tuner::destroy; }) {
    return first && offsetof(Tuner, destroy) == 3 * sizeof(void*);
  } else {
    return first && offsetof(Tuner, finalize) == 3 * sizeof(void*);
  }
}

template <typename Env>
consteval bool env_in_place() {
  return offsetof(Env, name) == 0 * sizeof(void*) && offsetof(Env, init) == 1 * sizeof(void*) &&
         offsetof(Env, finalize) == 2 * sizeof(void*) && offsetof(Env, getEnv) == 3 * sizeof(void*);
}

}  // namespace nccl_abi
