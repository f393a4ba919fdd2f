#include "state/memory.hpp"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace paro {
namespace {

constexpr size_t kAlignment = 64;

size_t rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
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

void HostMemory::zero(void* address, size_t bytes) {
  std::memset(address, 0, bytes);
}

void HostMemory::copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

std::string_view to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kParameters:
      return "parameters";
    case Purpose::kGradients:
      return "gradients";
    case Purpose::kOptimizer:
      return "optimizer state";
    case Purpose::kGathered:
      return "gathered parameters";
    case Purpose::kOutput:
      return "gradients of the backward pass";
    case Purpose::kScratch:
      break;
  }
  return "packing and reordering";
}

uint64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

Buffer::Buffer(Buffer&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      purpose_(other.purpose_),
      address_(std::exchange(other.address_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (ledger_ != nullptr) {
      ledger_->give_back(purpose_, address_, bytes_);
    }
    ledger_ = std::exchange(other.ledger_, nullptr);
    purpose_ = other.purpose_;
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (ledger_ != nullptr) {
    ledger_->give_back(purpose_, address_, bytes_);
  }
}

void Buffer::zero() {
  if (bytes_ > 0) {
    ledger_->memory().zero(address_, bytes_);
  }
}

ho::Result<Buffer> Ledger::allocate(Purpose purpose, uint64_t bytes) {
  if (bytes == 0) {
    return Buffer();
  }
  auto* address = static_cast<std::byte*>(memory_.allocate(bytes));
  if (address == nullptr) {
    return ho::Status(ho::StatusCode::kOutOfMemory,
                      "no memory for " + std::to_string(bytes) + " bytes of " +
                          std::string(to_string(purpose)) + "; this rank holds " +
                          std::to_string(now_.total()) +
                          " bytes of states already: take a strategy that splits more (paro plan)");
  }
  now_[purpose] += bytes;
  if (now_.total() > peak_.total()) {
    peak_ = now_;
  }
  return Buffer(*this, purpose, address, bytes);
}

void Ledger::give_back(Purpose purpose, std::byte* address, size_t bytes) {
  memory_.release(address, bytes);
  now_[purpose] -= bytes;
}

}  // namespace paro
