// Collectives by NCCL, over one of its communicators, on device memory.
//
// NCCL wants equal counts of all ranks, and that the ranks of all devices begin what is under way
// at once in one order, over all their communicators (ADR 38): its kernels hold their streams, and
// a device's run in the order in which they were begun. Sums are in the type of the data, 16-bit
// numbers too. Reports have no bytes, which NCCL does not tell, and times until the end was seen,
// some 2 ms late where nobody asked before.
#pragma once

#include <memory>
#include <string>

#include "collectives/collectives.hpp"
#include "collectives/nccl_rank.hpp"

namespace paro {

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;
  // Waits until all ranks have come to the same point, within the rank's time. All end those of
  // several communicators in one order.
  ~NcclCollectives() override;

  [[nodiscard]] ho::Status begin_all_gather(const CollectiveOptions& options,
                                            ho::DType dtype,
                                            const void* mine,
                                            void* all,
                                            std::span<const size_t> counts,
                                            Pending& pending) override;
  [[nodiscard]] ho::Status begin_reduce_scatter(const CollectiveOptions& options,
                                                ho::DType dtype,
                                                void* all,
                                                void* mine,
                                                std::span<const size_t> counts,
                                                Pending& pending) override;
  [[nodiscard]] ho::Status begin_all_reduce(const CollectiveOptions& options,
                                            ho::DType dtype,
                                            void* all,
                                            size_t count,
                                            Pending& pending) override;
  [[nodiscard]] ho::Status begin_broadcast(const CollectiveOptions& options,
                                           ho::DType dtype,
                                           void* all,
                                           size_t count,
                                           size_t root,
                                           Pending& pending) override;
  [[nodiscard]] bool over(Pending& pending) override;
  [[nodiscard]] ho::Result<bool> join(Pending& pending, uint64_t timeout_ms) override;
  [[nodiscard]] ho::Result<bool> join_stream(Pending& pending,
                                             void* stream,
                                             uint64_t timeout_ms) override;
  [[nodiscard]] ho::Status status() override { return rank_->status(); }

 private:
  friend class NcclRank;
  NcclCollectives(std::shared_ptr<NcclRank> rank, std::unique_ptr<NcclCommunicator> comm)
      : rank_(std::move(rank)), comm_(std::move(comm)) {}
  // Of one that NCCL gets with `count` elements of `type`.
  struct Started {
    const char* call;
    ho::DType dtype;
    size_t count;
  };
  template <typename Call>
  [[nodiscard]] ho::Status begin(const CollectiveOptions& options,
                                 const Started& started,
                                 Pending& pending,
                                 const Call& call);
  [[nodiscard]] ho::Result<size_t> equal_count(const char* call,
                                               std::span<const size_t> counts) const;
  [[nodiscard]] ho::Status check_memory(const char* call, const void* memory, size_t bytes) const;
  // What was found before NCCL's call. All ranks are told, unless it is this call's arguments.
  [[nodiscard]] ho::Status reported(const ho::Status& found);
  [[nodiscard]] ho::Status check_sum(const char* call, ho::DType dtype) const;
  [[nodiscard]] ho::Result<NcclOperation*> free_operation();
  // Whether the operation has ended, well, or failed and aborted. Lets the lock go meanwhile.
  [[nodiscard]] bool has_ended(std::unique_lock<std::mutex>& lock, NcclOperation& operation);

  std::shared_ptr<NcclRank> rank_;
  std::unique_ptr<NcclCommunicator> comm_;
};

}  // namespace paro
