// What a driver's library shows to its loader, and nothing else. Built once for each thing that can
// be wrong with one.
#include <cstdint>
#include <cstring>
#include <string_view>

#ifndef FAKE_VERSION
#define FAKE_VERSION 12040
#endif
#ifndef FAKE_LACKS
#define FAKE_LACKS ""
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kNotFound = 500;
constexpr uint64_t kLegacyStream = 1;

int any_call() {
  return 0;
}
int first_memory_allocate() {  // of 32-bit sizes, until 3.2
  return 0;
}

template <typename Function>
void* address_of(Function* function) {
  void* address = nullptr;
  std::memcpy(&address, &function, sizeof address);
  return address;
}

}  // namespace

EXPORTED int cuDriverGetVersion(int* version);
int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}

namespace {

[[maybe_unused]] int find(const char* name, void** address, int version, uint64_t flags) {
  const std::string_view requested = name;
  *address = nullptr;
  if (requested == FAKE_LACKS || flags != kLegacyStream) {
    return kNotFound;
  }
  if (requested == "cuDriverGetVersion") {
    *address = address_of(cuDriverGetVersion);
  } else if (requested == "cuMemAlloc" && version < 3020) {
    *address = address_of(first_memory_allocate);
  } else {
    *address = address_of(any_call);
  }
  return 0;
}

}  // namespace

#ifdef FAKE_OLD_LOOKUP
EXPORTED int cuGetProcAddress(const char* name, void** address, int version, uint64_t flags);
int cuGetProcAddress(const char* name, void** address, int version, uint64_t flags) {
  return find(name, address, version, flags);
}
#elif !defined(FAKE_NO_LOOKUP)
EXPORTED int cuGetProcAddress_v2(
    const char* name, void** address, int version, uint64_t flags, int* why);
int cuGetProcAddress_v2(const char* name, void** address, int version, uint64_t flags, int* why) {
  const int result = find(name, address, version, flags);
  *why = result == 0 ? 0 : 1;
  // Drivers answer so for a call that they do not know.
  return result == kNotFound ? 0 : result;
}
#endif

// Lets a test see which of the two it was given.
EXPORTED void* fake_first_memory_allocate();
void* fake_first_memory_allocate() {
  return address_of(first_memory_allocate);
}
