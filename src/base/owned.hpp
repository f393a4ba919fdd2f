// What is given back when its owner goes: a mapping, a handle of a driver.
#pragma once

#include <optional>
#include <utility>

namespace ho {

// Holds one, or none: made without, or moved from. Resource has `void release() noexcept`.
template <typename Resource>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Resource resource) : held_(std::move(resource)) {}
  Owned(Owned&& other) noexcept : held_(std::exchange(other.held_, std::nullopt)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      give_back();
      held_ = std::exchange(other.held_, std::nullopt);
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { give_back(); }

  [[nodiscard]] explicit operator bool() const { return held_.has_value(); }
  [[nodiscard]] const Resource* operator->() const { return &*held_; }

 private:
  void give_back() noexcept {
    if (held_) {
      held_->release();
    }
  }

  std::optional<Resource> held_;
};

}  // namespace ho
