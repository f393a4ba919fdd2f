// Collectives by libhoring, over one of its communicators.
#pragma once

#include "collectives/collectives.hpp"
#include "collectives/communicator.hpp"

namespace paro {

class HoringCollectives final : public Collectives {
 public:
  // Borrowed.
  explicit HoringCollectives(ho_comm* comm) : comm_(comm) {}

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
  [[nodiscard]] ho::Status status() override;

 private:
  ho_comm* comm_;
};

}  // namespace paro
