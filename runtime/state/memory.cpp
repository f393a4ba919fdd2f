#include "state/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "base/names.hpp"

namespace paro {
namespace {

constexpr size_t kAlignment = 64;

size_t rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// After an allocation of what is named, "5 bytes of gradients". The advice is for a lack of memory.
ho::Status not_allocated(const Memory& memory,
                         const std::string& what,
                         const std::string& advice = {}) {
  if (const ho::Status failure = memory.failure(); !failure.ok()) {
    return failure.with_context("allocating " + what);
  }
  return {ho::StatusCode::kOutOfMemory, "no memory for " + what + memory.where() + advice};
}

}  // namespace

void* HostMemory::allocate(size_t bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): Buffer owns it
  void* address = std::aligned_alloc(kAlignment, rounded(bytes));
  if (address != nullptr) {
    std::memset(address, 0, bytes);
  }
  return address;
}

void HostMemory::release(void* address, size_t /*bytes*/) {
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): aligned_alloc's
  std::free(address);
}

std::string_view to_string(Purpose purpose) {
  constexpr ho::Names<kPurposeCount> kNames{"parameters",
                                            "gradients",
                                            "optimizer state",
                                            "gathered parameters",
                                            "gradients of the backward pass",
                                            "packing and reordering"};
  return ho::name_in(kNames, purpose);
}

uint64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

void Buffer::Bytes::release() const noexcept {
  ledger->give_back(purpose, address, count);
}

void Buffer::zero() {
  if (bytes_) {
    bytes_->ledger->operations().zero(bytes_->address, bytes_->count);
  }
}

ho::Result<ControlMemory> ControlMemory::make(Memory& memory) {
  void* const parts = memory.allocate(kBytes);
  if (parts == nullptr) {
    return not_allocated(memory, "the " + std::to_string(kBytes) + " bytes of a step's control");
  }
  return ControlMemory(At{&memory, static_cast<Parts*>(parts)});
}

ho::Result<Buffer> Ledger::allocate(Purpose purpose, uint64_t bytes) {
  if (bytes == 0) {
    return Buffer();
  }
  auto* address = static_cast<std::byte*>(memory_.allocate(bytes));
  if (address == nullptr) {
    return not_allocated(
        memory_,
        std::to_string(bytes) + " bytes of " + std::string(to_string(purpose)),
        "; this rank holds " + std::to_string(now_.total()) +
            " bytes of states already: take a strategy that splits more (paro plan)");
  }
  now_[purpose] += bytes;
  if (now_.total() > peak_.total()) {
    peak_ = now_;
  }
  return Buffer({this, purpose, address, bytes});
}

void Ledger::give_back(Purpose purpose, std::byte* address, size_t bytes) {
  memory_.release(address, bytes);
  now_[purpose] -= bytes;
}

}  // namespace paro
