// Where states live, and how much of it there is.
//
// Memory is the one place that knows what kind of memory it is: everything above allocates through
// it, and works on what lies there by its Operations. Ledger counts what was allocated, by purpose.
// A Buffer owns its bytes and gives them back, to the memory and to the ledger, when it goes.
//
// Threads: a Ledger and its Buffers belong to one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/owned.hpp"
#include "base/status.hpp"
#include "state/host_operations.hpp"

namespace paro {

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;
  // Zeroed, aligned to 64 bytes; nullptr if there is none, or after failure(). `bytes` > 0.
  [[nodiscard]] virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* address, size_t bytes) = 0;
  // On what it has allocated; they live as long as it. Of each of its streams, from 0: where there
  // are fewer, another one's.
  [[nodiscard]] virtual const Operations& operations(size_t stream = 0) const = 0;
  [[nodiscard]] virtual ho::Result<std::unique_ptr<Mark>> make_mark() {
    return std::make_unique<Mark>();
  }
  // Waits of its operations end after so long (0: after what it was made with).
  virtual void limit_waits(uint64_t /*timeout_ms*/) {}
  // Where it is and how much there is, after "no memory for 5 bytes of gradients"; may be "".
  [[nodiscard]] virtual std::string where() const { return {}; }
  // Why the last allocation failed although there may be memory: nothing can be allocated any more.
  [[nodiscard]] virtual ho::Status failure() const { return {}; }
};

class HostMemory final : public Memory {
 public:
  [[nodiscard]] void* allocate(size_t bytes) override;
  void release(void* address, size_t bytes) override;
  [[nodiscard]] const Operations& operations(size_t /*stream*/ = 0) const override {
    return operations_;
  }

 private:
  HostOperations operations_;
};

enum class Purpose : uint8_t {
  kParameters,  // trained and frozen, at their scopes
  kGradients,   // sums over micro-batches
  kOptimizer,   // masters and the rule's own arrays
  kGathered,    // whole units for the time of their computation
  kOutput,      // gradients on their way into a reduction
  kScratch,     // messages of buckets; reordering, with unequal groups
};
inline constexpr size_t kPurposeCount = 6;
[[nodiscard]] std::string_view to_string(Purpose purpose);

// Bytes by purpose.
struct MemoryUse {
  std::array<uint64_t, kPurposeCount> bytes{};
  [[nodiscard]] uint64_t& operator[](Purpose purpose) {
    return bytes[static_cast<size_t>(purpose)];
  }
  [[nodiscard]] uint64_t operator[](Purpose purpose) const {
    return bytes[static_cast<size_t>(purpose)];
  }
  [[nodiscard]] uint64_t total() const;
};

class Ledger;

// Bytes of a memory, owned. Empty where nothing was allocated.
class Buffer {
 public:
  Buffer() = default;
  [[nodiscard]] std::byte* get() const { return bytes_ ? bytes_->address : nullptr; }
  [[nodiscard]] size_t size_bytes() const { return bytes_ ? bytes_->count : 0; }
  void zero();

 private:
  friend class Ledger;
  struct Bytes {
    Ledger* ledger;
    Purpose purpose;
    std::byte* address;
    size_t count;
    void release() const noexcept;
  };
  explicit Buffer(Bytes bytes) : bytes_(bytes) {}
  ho::Owned<Bytes> bytes_;
};

// The control of a step where the states lie, zeroed. No ledger counts its bytes.
class ControlMemory {
 public:
  struct Parts {
    StepControl control;
    // What is not finite of the gradients that this rank computed, before they are summed over
    // ranks.
    GradientSums own;
  };
  static constexpr size_t kBytes = sizeof(Parts);
  ControlMemory() = default;  // nowhere
  // The memory outlives it.
  [[nodiscard]] static ho::Result<ControlMemory> make(Memory& memory);
  [[nodiscard]] Parts* parts() const { return at_ ? at_->parts : nullptr; }
  [[nodiscard]] StepControl* get() const { return at_ ? &at_->parts->control : nullptr; }
  [[nodiscard]] GradientSums* own() const { return at_ ? &at_->parts->own : nullptr; }

 private:
  struct At {
    Memory* memory;
    Parts* parts;
    void release() const noexcept { memory->release(parts, kBytes); }
  };
  explicit ControlMemory(At at) : at_(at) {}
  ho::Owned<At> at_;
};

// Outlives its buffers; borrows the memory.
class Ledger {
 public:
  explicit Ledger(Memory& memory) : memory_(memory) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger() = default;
  [[nodiscard]] ho::Result<Buffer> allocate(Purpose purpose, uint64_t bytes);
  [[nodiscard]] Memory& memory() const { return memory_; }
  [[nodiscard]] const Operations& operations(size_t stream = 0) const {
    return memory_.operations(stream);
  }
  [[nodiscard]] const MemoryUse& now() const { return now_; }
  // At the time when the total was highest.
  [[nodiscard]] const MemoryUse& peak() const { return peak_; }

 private:
  friend class Buffer;
  void give_back(Purpose purpose, std::byte* address, size_t bytes);

  Memory& memory_;
  MemoryUse now_;
  MemoryUse peak_;
};

}  // namespace paro
