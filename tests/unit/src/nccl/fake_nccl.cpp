// What NCCL's library shows to its loader, and nothing else. Built once for each thing that can be
// wrong with one.
#ifndef FAKE_VERSION
#define FAKE_VERSION 22809
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define ANY_CALL(name) \
  EXPORTED int name(); \
  int name() {         \
    return 0;          \
  }

EXPORTED int ncclGetVersion(int* version);
int ncclGetVersion(int* version) {
  *version = FAKE_VERSION;
  return *version == 0 ? 3 : 0;
}

ANY_CALL(ncclGetErrorString)
ANY_CALL(ncclGetLastError)
ANY_CALL(ncclGetUniqueId)
ANY_CALL(ncclCommInitRankConfig)
ANY_CALL(ncclCommGetAsyncError)
ANY_CALL(ncclCommAbort)
#ifndef FAKE_LACKS_FINALIZE
ANY_CALL(ncclCommFinalize)
#endif
ANY_CALL(ncclCommDestroy)
ANY_CALL(ncclCommCount)
ANY_CALL(ncclCommUserRank)
ANY_CALL(ncclAllGather)
ANY_CALL(ncclReduceScatter)
ANY_CALL(ncclAllReduce)
ANY_CALL(ncclBroadcast)
ANY_CALL(ncclGroupStart)
ANY_CALL(ncclGroupEnd)
