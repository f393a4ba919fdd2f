#include "env/common.hpp"

#include <atomic>
#include <cstdlib>
#include <exception>

#include "base/log.hpp"
#include "core/plugin.hpp"
#include "core/settings.hpp"

namespace ho::plugin::every_env {
namespace {

// For the log only.
std::atomic<uint64_t> request_count{0};
std::atomic<uint64_t> ours_count{0};

}  // namespace

nccl_abi::Result init(int version, uint8_t major, uint8_t minor, uint8_t patch) {
  try {
    Plugin::instance().note_env_plugin();
    log_info("horing plugin: loaded by NCCL {}.{}.{} as env v{}", major, minor, patch, version);
  } catch (const std::exception&) {
    return nccl_abi::Result::kSystemError;  // no memory for a line
  }
  return nccl_abi::Result::kSuccess;
}

// Its answers stay valid to the end of the process.
nccl_abi::Result finalize() {
  try {
    log_info("horing plugin: NCCL requested {} settings, {} of them are ours",
             request_count.load(),
             ours_count.load());
  } catch (const std::exception&) {
    return nccl_abi::Result::kSystemError;
  }
  return nccl_abi::Result::kSuccess;
}

// Logs nothing: NCCL calls it from inside its own log too.
const char* value_of(const char* name) {
  try {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): NCCL calls it while the process exits, too
    static const auto* const settings = new NcclSettings(own_library_path());
    const char* const value = name == nullptr ? nullptr : settings->value_of(name);
    ++request_count;
    ours_count += value != nullptr && std::getenv(name) == nullptr ? 1 : 0;
    return value;
  } catch (const std::exception&) {
    return nullptr;  // no memory for a path: NCCL uses its defaults
  }
}

}  // namespace ho::plugin::every_env
