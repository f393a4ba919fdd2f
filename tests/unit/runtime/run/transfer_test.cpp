// A transfer of several collectives, which are those of this file: none needs another rank.
#include "run/transfer.hpp"

#include <array>
#include <vector>

#include "catch.hpp"

namespace paro {
namespace {

// Begins all that is asked, and ends it as it is told.
class EndsSo final : public Collectives {
 public:
  explicit EndsSo(ho::Status end) : end_(std::move(end)) {}
  ho::Status begin_all_gather(const CollectiveOptions& /*options*/,
                              ho::DType /*dtype*/,
                              const void* /*mine*/,
                              void* /*all*/,
                              std::span<const size_t> /*counts*/,
                              Pending& pending) override {
    return begin(pending);
  }
  ho::Status begin_reduce_scatter(const CollectiveOptions& /*options*/,
                                  ho::DType /*dtype*/,
                                  void* /*all*/,
                                  void* /*mine*/,
                                  std::span<const size_t> /*counts*/,
                                  Pending& pending) override {
    return begin(pending);
  }
  ho::Status begin_all_reduce(const CollectiveOptions& /*options*/,
                              ho::DType /*dtype*/,
                              void* /*all*/,
                              size_t /*count*/,
                              Pending& pending) override {
    return begin(pending);
  }
  ho::Status begin_broadcast(const CollectiveOptions& /*options*/,
                             ho::DType /*dtype*/,
                             void* /*all*/,
                             size_t /*count*/,
                             size_t /*root*/,
                             Pending& pending) override {
    return begin(pending);
  }
  bool over(Pending& /*pending*/) override { return true; }
  ho::Result<bool> join_stream(Pending& /*pending*/,
                               void* /*stream*/,
                               uint64_t /*timeout_ms*/) override {
    return true;
  }
  ho::Status status() override { return {}; }
  ho::Result<bool> join(Pending& pending, uint64_t /*timeout_ms*/) override {
    pending.request = nullptr;
    HORING_TRY(end_);
    return true;
  }

 private:
  ho::Status begin(Pending& pending) {
    pending.request = this;
    pending.report.intra_sent_bytes = 10;
    return {};
  }

  ho::Status end_;
};

}  // namespace

TEST_CASE("a transfer fails with the first error of its collectives, whatever the others bring") {
  HostMemory memory;
  Ledger ledger(memory);
  std::array<float, 4> values{};
  const ElementView view(reinterpret_cast<std::byte*>(values.data()), ho::DType::kFloat32);
  const std::vector<ho::StatusCode> kinds{
      ho::StatusCode::kOk, ho::StatusCode::kTimeout, ho::StatusCode::kPeerLost};
  for (const ho::StatusCode one : kinds) {
    for (const ho::StatusCode two : kinds) {
      for (const bool early : {false, true}) {
        EndsSo first({one, "of 1"});
        EndsSo second({two, "of 2"});
        EndsSo third({});
        std::vector<Route> routes(3);
        routes[0].over.fill(&first);
        routes[1].over.fill(&second);
        routes[2].over.fill(&third);
        for (size_t leg = 0; leg < routes.size(); ++leg) {
          routes[leg].count = 1;
          routes[leg].begin = leg;
        }
        Transfer transfer(ledger, {});
        REQUIRE(transfer.all_reduce(routes, {&view, 1}).ok());
        if (early) {
          CHECK(transfer.over_within(1));
        }
        const ho::Status ended = transfer.finish();
        INFO("ends: " << static_cast<int>(one) << ", " << static_cast<int>(two)
                      << ", early: " << early);
        const ho::StatusCode expected = one != ho::StatusCode::kOk ? one : two;
        CHECK(ended.code() == expected);
        CHECK((ended.ok() || ended.message() == (one != ho::StatusCode::kOk ? "of 1" : "of 2")));
        CHECK(transfer.sent().intra == 30);
      }
    }
  }
}

}  // namespace paro
