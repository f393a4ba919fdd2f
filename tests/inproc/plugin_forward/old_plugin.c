/* A plugin for releases of NCCL that are older than what can be forwarded to. */
/* NOLINTNEXTLINE(readability-identifier-naming): NCCL's name */
__attribute__((visibility("default"))) int ncclNetPlugin_v7 = 7;
