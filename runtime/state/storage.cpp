#include "state/storage.hpp"

#include <algorithm>
#include <utility>

namespace paro {

Storage::Storage(std::vector<Range> ranges, ho::DType dtype, Buffer buffer)
    : ranges_(std::move(ranges)), made_dtype_(dtype), dtype_(dtype), buffer_(std::move(buffer)) {
  for (const Range& range : ranges_) {
    offsets_.push_back(count_);
    count_ += range.count();
  }
}

ho::Result<Storage> Storage::make(Ledger& ledger,
                                  Purpose purpose,
                                  const Partition& partition,
                                  Scope scope,
                                  ho::GlobalRank self,
                                  ho::DType dtype) {
  const uint64_t bytes = partition.owned_count(scope, self) * ho::size_bytes(dtype);
  HORING_ASSIGN(Buffer buffer, ledger.allocate(purpose, bytes));
  return Storage(partition.owned(scope, self), dtype, std::move(buffer));
}

void Storage::zero() {
  dtype_ = made_dtype_;
  buffer_.zero();
}

void Storage::round_to(const Operations& operations, ho::DType dtype) {
  if (dtype != dtype_ && count_ > 0) {
    operations.round_in_place(dtype, buffer_.get(), count_);
  }
  dtype_ = dtype;
}

std::byte* Storage::at(uint64_t element) const {
  auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), element, [](uint64_t element_index, const Range& range) {
        return element_index < range.begin;
      });
  if (after == ranges_.begin()) {
    return nullptr;
  }
  const auto index = static_cast<size_t>(after - ranges_.begin()) - 1;
  if (element >= ranges_[index].end) {
    return nullptr;
  }
  return buffer_.get() +
         (offsets_[index] + element - ranges_[index].begin) * ho::size_bytes(dtype_);
}

}  // namespace paro
