// A tuner of each version behind one face, called as NCCL calls it.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "abi/tuner_v2.hpp"
#include "abi/tuner_v3.hpp"
#include "abi/tuner_v4.hpp"
#include "abi/tuner_v5.hpp"
#include "abi/tuner_v6.hpp"
#include "built_library.hpp"

namespace ho::plugin::built {

using nccl_abi::Function;
using nccl_abi::Result;

inline constexpr int kVersions[] = {2, 3, 4, 5, 6};
inline constexpr float kIgnored = nccl_abi::v3::kIgnoredCost;

// NCCL's table for a call, as it passes it.
struct Costs {
  std::array<std::array<float, nccl_abi::kProtocolCount>, nccl_abi::kAlgorithmCount> at{};
  friend bool operator==(const Costs&, const Costs&) = default;
};

// What NCCL fills in for a collective between nodes without an NVSwitch, CollNet enabled.
inline Costs usual_costs(Function function) {
  Costs costs;
  for (auto& row : costs.at) {
    row.fill(kIgnored);
  }
  costs.at[nccl_abi::kAlgorithmRing] = {90.5F, 70.25F, 60.125F};
  if (function == Function::kAllReduce) {
    costs.at[nccl_abi::kAlgorithmTree] = {50.5F, 55.25F, 65.125F};
    costs.at[nccl_abi::kAlgorithmCollNetChain][nccl_abi::kProtocolSimple] = 75.0F;
  } else {
    costs.at[nccl_abi::kAlgorithmPat][nccl_abi::kProtocolSimple] = 80.0F;
  }
  return costs;
}

// What the second version names in place of a table, and what NCCL passes in.
struct Named {
  static constexpr int kNothing = -1;
  int algorithm = kNothing;
  int protocol = kNothing;
};

struct Question {
  Function function = Function::kAllReduce;
  size_t bytes = 0;
  int operations = 1;
  bool registered = false;
  int algorithms = nccl_abi::kAlgorithmCount;
  int protocols = nccl_abi::kProtocolCount;
};

// Before 2.32.3 NCCL gave constants that it had not initialized: who reads or writes them ends
// here.
inline nccl_abi::v5::TunerConstants* untouchable_constants() {
  static void* const page = ::mmap(
      nullptr, sizeof(nccl_abi::v5::TunerConstants), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  return static_cast<nccl_abi::v5::TunerConstants*>(page);
}

class TunerDriver {
 public:
  explicit TunerDriver(int version) : version_(version) {}
  TunerDriver(const TunerDriver&) = delete;
  TunerDriver& operator=(const TunerDriver&) = delete;
  ~TunerDriver() { CHECK(end() == Result::kSuccess); }

  Result init(size_t ranks, size_t nodes, uint64_t communicator = 1) {
    const auto without_context = [&](auto& tuner) {
      return tuner.init(ranks, nodes, Log::write, &context_);
    };
    const auto with_communicator = [&](auto& tuner) {
      const int local = static_cast<int>(ranks / nodes);
      nccl_abi::v5::NvlDomainInfo domains{static_cast<int>(nodes), local, local};
      return tuner.init(
          &context_, communicator, ranks, nodes, Log::write, &domains, untouchable_constants());
    };
    switch (version_) {
      case 2:
        return without_context(v2());
      case 3:
        return without_context(v3());
      case 4:
        return without_context(v4());
      case 5:
        return with_communicator(v5());
      default:
        return with_communicator(v6());
    }
  }

  // Versions 3 to 6. NCCL gives up a communicator whose tuner answers with an error.
  void ask(const Question& question, Costs* costs) {
    int channels = 0;
    float** const table = reinterpret_cast<float**>(costs);
    const auto with_registered = [&](auto& tuner) {
      return tuner.getCollInfo(context_,
                               question.function,
                               question.bytes,
                               question.operations,
                               table,
                               question.algorithms,
                               question.protocols,
                               question.registered ? 1 : 0,
                               &channels);
    };
    Result result = Result::kSuccess;
    if (version_ == 3) {
      result = v3().getCollInfo(context_,
                                question.function,
                                question.bytes,
                                question.operations,
                                table,
                                question.algorithms,
                                question.protocols,
                                &channels);
    } else if (version_ == 4) {
      result = with_registered(v4());
    } else {
      result = version_ == 5 ? with_registered(v5()) : with_registered(v6());
    }
    CHECK(result == Result::kSuccess);
    CHECK(channels == 0);
  }

  Named name(const Question& question, bool collnet, bool nvls) {
    Named named;
    int channels = 0;
    CHECK(v2().getCollInfo(context_,
                           question.function,
                           question.bytes,
                           collnet ? 1 : 0,
                           nvls ? 1 : 0,
                           question.operations,
                           &named.algorithm,
                           &named.protocol,
                           &channels) == Result::kSuccess);
    CHECK(channels == 0);
    return named;
  }

  size_t chunk(Function function, size_t bytes, int algorithm, int channels, size_t nccl_chunk) {
    size_t chunk = nccl_chunk;
    CHECK(v6().getChunkSize(
              context_, function, bytes, algorithm, nccl_abi::kProtocolSimple, channels, &chunk) ==
          Result::kSuccess);
    return chunk;
  }

  Result end() {
    void* const context = std::exchange(context_, nullptr);
    switch (version_) {
      case 2:
        return v2().destroy(context);
      case 3:
        return v3().destroy(context);
      case 4:
        return v4().destroy(context);
      case 5:
        return v5().finalize(context);
      default:
        return v6().finalize(context);
    }
  }
  [[nodiscard]] bool has_context() const { return context_ != nullptr; }

 private:
  static nccl_abi::v2::Tuner& v2() { return table<nccl_abi::v2::Tuner>("ncclTunerPlugin_v2"); }
  static nccl_abi::v3::Tuner& v3() { return table<nccl_abi::v3::Tuner>("ncclTunerPlugin_v3"); }
  static nccl_abi::v4::Tuner& v4() { return table<nccl_abi::v4::Tuner>("ncclTunerPlugin_v4"); }
  static nccl_abi::v5::Tuner& v5() { return table<nccl_abi::v5::Tuner>("ncclTunerPlugin_v5"); }
  static nccl_abi::v6::Tuner& v6() { return table<nccl_abi::v6::Tuner>("ncclTunerPlugin_v6"); }

  int version_;
  void* context_ = nullptr;
};

}  // namespace ho::plugin::built
