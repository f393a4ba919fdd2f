/* A plugin for releases of NCCL that are older than what can be forwarded to. */
__attribute__((visibility("default"))) int ncclNetPlugin_v7 = 7;
