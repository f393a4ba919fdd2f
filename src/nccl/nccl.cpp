#include "nccl/nccl.hpp"

#include <cstring>

#include "nccl/loader.hpp"

namespace ho::nccl {
namespace {

template <auto kMember>
void set(Nccl& table, void* address) {
  static_assert(sizeof(table.*kMember) == sizeof address);
  std::memcpy(&(table.*kMember), &address, sizeof address);
}

constexpr NcclCall kCalls[] = {
#define HORING_NCCL_CALL(member, symbol, returned, signature) {symbol, set<&Nccl::member>},
    HORING_NCCL_CALLS(HORING_NCCL_CALL)
#undef HORING_NCCL_CALL
};

Status unsupported(std::string why) {
  return {StatusCode::kUnsupported, std::move(why)};
}

// What a user does about it, after every refusal.
std::string what_to_do() {
  return "; install NCCL " + version_text(kMinVersion) +
         " or newer, name its file in PARO_NCCL_LIBRARY, or keep states on the host";
}

StatusCode code_of(ResultCode result) {
  switch (result) {
    case kInvalidArgument:
    case kInvalidUsage:
      return StatusCode::kInvalidArgument;
    case kRemoteError:
      return StatusCode::kPeerLost;
    case kTimeout:
      return StatusCode::kTimeout;
    case kInternalError:
      return StatusCode::kInternal;
    default:
      return StatusCode::kSystem;
  }
}

std::string_view advice(ResultCode result) {
  switch (result) {
    case kUnhandledCudaError:
    case kSystemError:
      return "; NCCL_DEBUG=WARN prints what failed";
    case kRemoteError:
      return "; another rank has failed or its network is down: look at its log first";
    case kInvalidUsage:
      return "; several ranks on one GPU are refused unless each has an NCCL_HOSTID of its own";
    default:
      return "";
  }
}

}  // namespace

std::span<const NcclCall> nccl_calls() {
  return kCalls;
}

// Until 2.8 a version had two digits less.
std::string version_text(int version) {
  const int major_unit = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major_unit) + "." + std::to_string(version % major_unit / 100) +
         "." + std::to_string(version % 100);
}

ho::Result<std::unique_ptr<LoadedNccl>> load(const std::string& file) {
  auto loaded = std::make_unique<LoadedNccl>();
  auto library = SharedLibrary::open(file);
  if (!library.ok()) {
    return unsupported("no NCCL: " + library.status().message() + what_to_do());
  }
  loaded->library = std::move(library).value();
  void* const get_version = loaded->library.find("ncclGetVersion");
  if (get_version != nullptr) {
    set<&Nccl::get_version>(loaded->table, get_version);
  }
  if (get_version == nullptr || loaded->table.get_version(&loaded->version) != kSuccess) {
    return unsupported(file + " is no NCCL, or one that does not say its version" + what_to_do());
  }
  if (loaded->version < kMinVersion) {
    return unsupported("NCCL " + version_text(loaded->version) + " of " + file +
                       " is too old: its collectives take " + version_text(kMinVersion) +
                       " or newer" + what_to_do());
  }
  for (const NcclCall& call : kCalls) {
    void* const address = loaded->library.find(call.symbol);
    if (address == nullptr) {
      return unsupported("NCCL " + version_text(loaded->version) + " of " + file + " has no call " +
                         call.symbol + what_to_do());
    }
    call.set(loaded->table, address);
  }
  return loaded;
}

Status error(const Nccl& nccl, std::string_view call, ResultCode result, CommHandle comm) {
  if (result == kSuccess) {
    return {};
  }
  const char* const text = nccl.error_text == nullptr ? nullptr : nccl.error_text(result);
  const char* const last = nccl.last_error == nullptr ? nullptr : nccl.last_error(comm);
  std::string message(call);
  message += ": ";
  message += text == nullptr ? "NCCL error " + std::to_string(result) : text;
  if (last != nullptr && *last != '\0') {
    message += std::string(" (last error here: ") + last + ")";
  }
  message += advice(result);
  return {code_of(result), std::move(message)};
}

}  // namespace ho::nccl
