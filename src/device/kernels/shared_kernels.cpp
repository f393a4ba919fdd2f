#include "device/kernels/shared_kernels.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.hpp"

namespace ho::device {
namespace {

// A module belongs to a context, and a process has one for each device. So what is loaded is the
// process's, not a communicator's.
struct Loaded {
  Loaded(std::shared_ptr<const Device> of, Kernels loaded)
      : device(std::move(of)), kernels(std::move(loaded)) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (device->is_left_behind()) {
      kernels->leave();
      return;
    }
    const auto current = CurrentContext::enter(*device);
    if (!current.ok()) {
      log_warn("{}", current.status().message());
    }
    kernels.reset();
  }
  const std::shared_ptr<const Device> device;
  std::optional<Kernels> kernels;
};

struct AllLoaded {
  std::mutex mutex;
  std::map<ContextHandle, std::weak_ptr<Loaded>> by_context;
};

AllLoaded& all_loaded() {
  static auto* const all = std::make_unique<AllLoaded>().release();  // never ended
  return *all;
}

}  // namespace

Result<std::shared_ptr<const Kernels>> shared_kernels(const Device& device) {
  AllLoaded& all = all_loaded();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Loaded>& known = all.by_context[device.context()];
  std::shared_ptr<Loaded> loaded = known.lock();
  if (loaded == nullptr) {
    HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(device));
    HORING_ASSIGN(Kernels kernels, Kernels::load(device.driver()));
    loaded = std::make_shared<Loaded>(device.shared_from_this(), std::move(kernels));
    known = loaded;
  }
  return std::shared_ptr<const Kernels>(loaded, &*loaded->kernels);
}

}  // namespace ho::device
