#include "collectives/nccl_ranks.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "nccl/nccl.hpp"

namespace paro {
namespace {

std::string rank_text(const NcclRankFacts& facts) {
  return "rank " + std::to_string(facts.rank);
}

ho::Status differ(std::string what) {
  return {ho::StatusCode::kMismatch, std::move(what)};
}

}  // namespace

std::array<uint64_t, NcclRankFacts::kNameWords> NcclRankFacts::pack(const std::string& name) {
  std::array<uint64_t, kNameWords> words{};
  std::memcpy(words.data(), name.data(), std::min(name.size(), sizeof words));
  return words;
}

// Of a peer: not more than there is.
std::string NcclRankFacts::model() const {
  std::string text(sizeof name, '\0');
  std::memcpy(text.data(), name.data(), sizeof name);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

ho::Status check_equal(std::span<const NcclRankFacts> ranks) {
  const auto version_text = [](uint64_t version) {
    return ho::nccl::version_text(static_cast<int>(version));
  };
  std::map<std::pair<uint64_t, uint64_t>, const NcclRankFacts*> devices;
  for (const NcclRankFacts& each : ranks) {
    const NcclRankFacts& first = ranks.front();
    if (each.version != first.version) {
      return differ(rank_text(each) + " has NCCL " + version_text(each.version) + ", and " +
                    rank_text(first) + " has " + version_text(first.version) +
                    ": install one version on all hosts, or name its file in PARO_NCCL_LIBRARY");
    }
    if (each.name != first.name || each.memory_bytes != first.memory_bytes) {
      const auto device = [](const NcclRankFacts& facts) {
        return facts.model() + " with " + std::to_string(facts.memory_bytes >> 20U) + " MiB";
      };
      return differ(rank_text(each) + " runs on " + device(each) + ", and " + rank_text(first) +
                    " runs on " + device(first) +
                    ": take ranks with equal GPUs, or keep states on the host");
    }
    const auto [other, is_new] = devices.emplace(std::pair(each.device, each.host), &each);
    if (!is_new && each.shares_device == 0) {
      return ho::invalid(
          rank_text(*other->second) + " and " + rank_text(each) +
          " have the same GPU, which NCCL refuses: give each rank its own (CUDA_VISIBLE_DEVICES, "
          "HO_DEVICE_LOCAL_RANK); for tests on one GPU, an NCCL_HOSTID of its own, or from NCCL "
          "2.30.3 on NCCL_MULTI_RANK_GPU_ENABLE=1");
    }
  }
  return {};
}

}  // namespace paro
