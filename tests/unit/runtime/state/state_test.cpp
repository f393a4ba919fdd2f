#include <algorithm>
#include <bit>
#include <cstring>

#include "catch.hpp"
#include "state/memory.hpp"
#include "state/needs.hpp"
#include "state/unit_state.hpp"

using namespace paro;

namespace {

// Host memory that ends after so many bytes.
class LittleMemory final : public Memory {
 public:
  explicit LittleMemory(size_t bytes) : left_(bytes) {}
  [[nodiscard]] void* allocate(size_t bytes) override {
    if (bytes > left_) {
      return nullptr;
    }
    left_ -= bytes;
    return host_.allocate(bytes);
  }
  void release(void* address, size_t bytes) override {
    left_ += bytes;
    host_.release(address, bytes);
  }
  [[nodiscard]] const Operations& operations(size_t number = 0) const override {
    return host_.operations(number);
  }
  [[nodiscard]] size_t left() const { return left_; }

 private:
  HostMemory host_;
  size_t left_;
};

ho::GroupMap shape(const char* text) {
  return ho::GroupMap::parse(text).value();
}

}  // namespace

TEST_CASE("the ledger knows what is held, and the peak") {
  HostMemory memory;
  Ledger ledger(memory);
  {
    const auto states = ledger.allocate(Purpose::kOptimizer, 1000);
    auto scratch = ledger.allocate(Purpose::kScratch, 500);
    REQUIRE((states.ok() && scratch.ok()));
    CHECK(ledger.now().total() == 1500);
    scratch = Buffer();
    CHECK(ledger.now()[Purpose::kScratch] == 0);
    const auto fewer = ledger.allocate(Purpose::kGathered, 300);
    CHECK(ledger.now().total() == 1300);
  }
  CHECK(ledger.now().total() == 0);
  CHECK(ledger.peak().total() == 1500);
  CHECK(ledger.peak()[Purpose::kScratch] == 500);
}

TEST_CASE("buffers are zeroed, aligned and move") {
  HostMemory memory;
  Ledger ledger(memory);
  auto made = ledger.allocate(Purpose::kParameters, 77);
  REQUIRE(made.ok());
  Buffer buffer = std::move(*made);
  CHECK(reinterpret_cast<uintptr_t>(buffer.get()) % 64 == 0);
  CHECK(
      std::all_of(buffer.get(), buffer.get() + 77, [](std::byte b) { return b == std::byte{0}; }));
  buffer.get()[5] = std::byte{9};
  buffer.zero();
  CHECK(buffer.get()[5] == std::byte{0});
  Buffer other = std::move(buffer);
  CHECK(other.size_bytes() == 77);
  CHECK(ledger.now().total() == 77);
}

TEST_CASE("no memory is an error that says for what, and what to do") {
  LittleMemory memory(100);
  Ledger ledger(memory);
  const auto made = ledger.allocate(Purpose::kGradients, 101);
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().code() == ho::StatusCode::kOutOfMemory);
  CHECK(made.status().message().find("101 bytes of gradients") != std::string::npos);
  CHECK(ledger.now().total() == 0);
}

TEST_CASE("a unit that cannot be had whole leaves nothing behind") {
  const auto layouts = lay_out({{"unit", 100, 10}}, shape("1x1"), 4);
  StateShape states;
  const uint64_t all = needed(states, *layouts, ho::GlobalRank(0)).total();
  LittleMemory memory(all - 1);
  Ledger ledger(memory);
  CHECK_FALSE(UnitState::make(ledger, layouts->front(), states, ho::GlobalRank(0)).ok());
  CHECK(ledger.now().total() == 0);
  CHECK(memory.left() == all - 1);
}

TEST_CASE("what the largest model needs is not more than a number can say") {
  constexpr uint64_t kMax = uint64_t{1} << 44U;
  CHECK_FALSE(lay_out({{"a", kMax, 0}, {"b", 0, 1}}, shape("2x2"), 1).ok());
  CHECK_FALSE(lay_out({{"a", kMax - 1, 0}}, shape("1x1"), 4096 * 5).ok());
  const auto layouts = lay_out({{"a", kMax - 1, 0}, {"b", 0, 1}}, shape("2x2"), 1);
  REQUIRE(layouts.ok());
  StateShape states;
  states.strategy = parse_strategy("GGG").value();
  states.gathered_buffers = 1U << 17U;
  CHECK(needed_at_most(states, *layouts, 4) > uint64_t{1} << 63U);
}

TEST_CASE("a storage finds elements by their place in the whole") {
  HostMemory memory;
  Ledger ledger(memory);
  // Rank 3 of 3 + 1 owns the second half of each of three segments.
  const auto partition = Partition::make(shape("3+1"), 60, 1);
  const auto storage = Storage::make(ledger,
                                     Purpose::kParameters,
                                     *partition,
                                     Scope::kWorld,
                                     ho::GlobalRank(3),
                                     ho::DType::kBfloat16);
  REQUIRE(storage.ok());
  CHECK(storage->count() == 30);
  CHECK(storage->at(9) == nullptr);
  CHECK(storage->at(20) == nullptr);
  CHECK(storage->at(60) == nullptr);
  REQUIRE(storage->at(10) != nullptr);
  CHECK(storage->at(19) == storage->at(10) + 18);
  CHECK(storage->at(30) == storage->at(10) + 20);
  CHECK(storage->at(59) == storage->at(10) + 58);
}

TEST_CASE("sums are rounded where they lie, and are fp32 again when they begin anew") {
  HostMemory memory;
  Ledger ledger(memory);
  const auto partition = Partition::make(shape("3+1"), 60, 1);
  auto storage = Storage::make(ledger,
                               Purpose::kGradients,
                               *partition,
                               Scope::kWorld,
                               ho::GlobalRank(3),
                               ho::DType::kFloat32);
  REQUIRE(storage.ok());
  for (const Range& range : storage->ranges()) {
    for (uint64_t i = range.begin; i < range.end; ++i) {
      *reinterpret_cast<float*>(storage->at(i)) = static_cast<float>(i) + 1.0F / 1024;
    }
  }
  storage->round_to(memory.operations(), ho::DType::kBfloat16);
  CHECK(storage->dtype() == ho::DType::kBfloat16);
  CHECK(storage->at(59) == storage->at(10) + 58);
  for (const uint64_t i : {10U, 19U, 30U, 59U}) {
    uint16_t bits = 0;
    std::memcpy(&bits, storage->at(i), sizeof(bits));
    CHECK(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U) == static_cast<float>(i));
  }
  storage->zero();
  CHECK(storage->dtype() == ho::DType::kFloat32);
  CHECK(storage->at(59) == storage->at(10) + 116);
}

TEST_CASE("what is needed is what is allocated, on every rank") {
  const std::vector<UnitShape> units{{"a", 97, 31}, {"one", 1, 0}, {"none", 0, 0}, {"f", 0, 12}};
  for (const char* groups : {"1x1", "2x2", "3+1", "1+1+2"}) {
    for (const Strategy& strategy : all_strategies()) {
      const auto layouts = lay_out(units, shape(groups), 4);
      StateShape states{strategy,
                        strategy.parameters,
                        ho::DType::kBfloat16,
                        ho::DType::kBfloat16,
                        std::nullopt,
                        ho::DType::kFloat32,
                        3};
      uint64_t most = 0;
      for (uint32_t rank = 0; rank < shape(groups).world_size(); ++rank) {
        const MemoryUse use = needed(states, *layouts, ho::GlobalRank(rank));
        HostMemory memory;
        Ledger ledger(memory);
        std::vector<UnitState> kept;
        for (const UnitLayout& layout : *layouts) {
          kept.push_back(UnitState::make(ledger, layout, states, ho::GlobalRank(rank)).value());
        }
        INFO(groups << ", " << letters(strategy) << ", rank " << rank);
        for (const Purpose purpose :
             {Purpose::kParameters, Purpose::kGradients, Purpose::kOptimizer}) {
          CHECK(ledger.now()[purpose] == use[purpose]);
        }
        most = std::max(most, use.total());
      }
      CHECK(needed_at_most(states, *layouts, shape(groups).world_size()) == most);
    }
  }
}
