#include "device/driver.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "device/driver_loader.hpp"

namespace ho::device {
namespace {

constexpr DriverResult kNoBinaryForGpu = 209;
constexpr DriverResult kUnsupportedPtx = 222;

// Of calls that take no stream as their default: the one that waits for the others.
constexpr uint64_t kLegacyStream = 1;

// The numbers of CUDA's documentation: 13000 is 13.0.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

template <auto kMember>
void set(Driver& table, void* address) {
  static_assert(sizeof(table.*kMember) == sizeof address);
  std::memcpy(&(table.*kMember), &address, sizeof address);
}

constexpr DriverCall kCalls[] = {
#define HORING_DRIVER_CALL(member, name, version, signature) {name, version, set<&Driver::member>},
    HORING_DRIVER_CALLS(HORING_DRIVER_CALL)
#undef HORING_DRIVER_CALL
};

Status unsupported(std::string why) {
  return {StatusCode::kUnsupported, std::move(why)};
}

template <typename Function>
Function* find(const SharedLibrary& library, const char* symbol) {
  void* const address = library.find(symbol);
  Function* function = nullptr;
  static_assert(sizeof function == sizeof address);
  std::memcpy(&function, &address, sizeof address);
  return function;
}

Status check_version(const SharedLibrary& library, const std::string& file) {
  auto* const get_version = find<DriverResult(int*)>(library, "cuDriverGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != kSuccess) {
    return unsupported(file +
                       " is no CUDA driver, or one that does not say its version; install NVIDIA's "
                       "driver for CUDA " +
                       version_text(kMinDriverVersion) + " or newer");
  }
  if (version < kMinDriverVersion) {
    return unsupported("the CUDA driver " + file + " is of CUDA " + version_text(version) +
                       ", but device memory takes CUDA " + version_text(kMinDriverVersion) +
                       " or newer; install a newer NVIDIA driver");
  }
  return {};
}

// Asks the driver for its calls by name and version: first as since 12.0, then as before.
class Lookup {
 public:
  explicit Lookup(const SharedLibrary& library)
      : now_(find<Now>(library, "cuGetProcAddress_v2")),
        before_(find<Before>(library, "cuGetProcAddress")) {}
  [[nodiscard]] bool possible() const { return now_ != nullptr || before_ != nullptr; }
  // Null where the driver has no such call.
  [[nodiscard]] void* find_call(const DriverCall& call) const {
    void* address = nullptr;
    int why = 0;
    const DriverResult result = now_ != nullptr
                                    ? now_(call.name, &address, call.version, kLegacyStream, &why)
                                    : before_(call.name, &address, call.version, kLegacyStream);
    return result == kSuccess ? address : nullptr;
  }

 private:
  using Now = DriverResult(const char*, void**, int version, uint64_t flags, int* why);
  using Before = DriverResult(const char*, void**, int version, uint64_t flags);
  Now* now_;
  Before* before_;
};

// After which every later call fails too. cuda.h says so of all but the first two, which are errors
// of the hardware that it cannot correct.
constexpr DriverResult kLosesContext[] = {
    214,  // uncorrectable error of the memory (ECC)
    220,  // uncorrectable error of NVLink
    226,  // an error that the GPU has contained
    kIllegalAddress,
    702,  // a launch has timed out
    709,  // the context is destroyed
    710,  // a kernel's assertion
    714,  // 714 to 719: faults of kernels
    715,
    716,
    717,
    718,
    kLaunchFailed,
    721,  // a kernel has left tensor memory behind
    810,  // the MPS server has ended its client
    911,  // an error of a device outside of CUDA
};

bool context_is_lost(DriverResult result) {
  return std::ranges::find(kLosesContext, result) != std::end(kLosesContext);
}

std::string_view advice(DriverResult result) {
  if (context_is_lost(result)) {
    return ": the context is lost; end this process and start it again";
  }
  switch (result) {
    case kOutOfDeviceMemory:
      return ": free memory of the device or of pinned pages, or use smaller buffers";
    case kNoDevice:
      return ": no GPU is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case kInvalidContext:
      return ": no context of the device is current on this thread, or it was destroyed";
    case kDeinitialized:
      return ": the process is ending; make no calls after main has returned";
    case kNoBinaryForGpu:
    case kUnsupportedPtx:
      return ": this build has no kernels for this GPU; build with a newer CUDA compiler";
    case kCaptureUnsupported:
      return ": a stream is being captured into a graph; make the call outside of the capture";
    case kCaptureImplicit:
      return ": a stream that waits for the default stream is being captured into a graph; make "
             "the call outside of the capture, or give it another stream";
    case kAlreadyPinned:
      return ": part of it is pinned already; memory of cudaHostAlloc or cudaHostRegister needs no "
             "second time";
    case kNotPinned:
      return ": it was not registered, or from another address on";
    default:
      return "";
  }
}

StatusCode code_of(DriverResult result) {
  switch (result) {
    case kOutOfDeviceMemory:
      return StatusCode::kOutOfMemory;
    case kInvalidValue:
    case kInvalidDevice:
    case kInvalidHandle:
    case kAlreadyPinned:
    case kNotPinned:
      return StatusCode::kInvalidArgument;
    case kNoDevice:
    case kNotSupported:
    case kCaptureUnsupported:
    case kCaptureImplicit:
    case kNoBinaryForGpu:
    case kUnsupportedPtx:
      return StatusCode::kUnsupported;
    default:
      return StatusCode::kSystem;
  }
}

}  // namespace

std::span<const DriverCall> driver_calls() {
  return kCalls;
}

Result<std::unique_ptr<LoadedDriver>> load_driver(const std::string& file) {
  auto loaded = std::make_unique<LoadedDriver>();
  auto library = SharedLibrary::open(file);
  if (!library.ok()) {
    return unsupported("no CUDA driver: " + library.status().message() +
                       "; install NVIDIA's driver, or use host memory");
  }
  loaded->library = std::move(library).value();
  HORING_TRY(check_version(loaded->library, file));
  const Lookup lookup(loaded->library);
  if (!lookup.possible()) {
    return unsupported("the CUDA driver " + file +
                       " has no cuGetProcAddress; install NVIDIA's driver again");
  }
  for (const DriverCall& call : kCalls) {
    void* const address = lookup.find_call(call);
    if (address == nullptr) {
      return unsupported("the CUDA driver " + file + " has no call " + call.name + " of CUDA " +
                         version_text(call.version) + "; install another NVIDIA driver, CUDA " +
                         version_text(kMinDriverVersion) + " or newer");
    }
    call.set(loaded->table, address);
  }
  return loaded;
}

Result<std::string> cuda_version(const Driver& driver) {
  int version = 0;
  HORING_TRY(driver_error(driver, "cuDriverGetVersion", driver.version(&version)));
  return version_text(version);
}

Status driver_error(const Driver& driver, std::string_view call, DriverResult result) {
  if (result == kSuccess) {
    return {};
  }
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name == nullptr || driver.error_name(result, &name) != kSuccess) {
    name = nullptr;
  }
  if (driver.error_text == nullptr || driver.error_text(result, &text) != kSuccess) {
    text = nullptr;
  }
  std::string message(call);
  message += ": ";
  message += name == nullptr ? "CUDA error " + std::to_string(result) : name;
  if (text != nullptr) {
    message += std::string(" (") + text + ")";
  }
  message += advice(result);
  return {code_of(result), std::move(message)};
}

}  // namespace ho::device
