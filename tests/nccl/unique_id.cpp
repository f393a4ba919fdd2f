// What an application does first with NCCL: asks it for a unique id, then ends. Prints NCCL's
// version. NCCL is opened as the loader finds it; neither its headers nor a GPU are needed.
//
// status: 0; 1 with a text where the call fails; 77 where there is no NCCL.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace {

constexpr int kSkipped = 77;

// ncclUniqueId, which is what nccl.h says of it.
struct UniqueId {
  char bytes[128];
};

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

int main() {
  void* const nccl = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (nccl == nullptr) {
    std::fprintf(stderr, "no NCCL here: %s\n", ::dlerror());
    return kSkipped;
  }
  auto* const get_version = function<int(int*)>(nccl, "ncclGetVersion");
  auto* const get_unique_id = function<int(UniqueId*)>(nccl, "ncclGetUniqueId");
  if (get_version == nullptr || get_unique_id == nullptr) {
    std::fprintf(stderr, "libnccl.so.2 lacks ncclGetVersion or ncclGetUniqueId\n");
    return 1;
  }
  int version = 0;
  UniqueId id{};
  if (const int result = get_version(&version); result != 0) {
    std::fprintf(stderr, "ncclGetVersion answered %d\n", result);
    return 1;
  }
  if (const int result = get_unique_id(&id); result != 0) {
    std::fprintf(stderr, "ncclGetUniqueId answered %d\n", result);
    return 1;
  }
  std::printf("%d\n", version);
  return 0;
}
