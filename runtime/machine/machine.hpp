// GPUs and machines with them, by name: what their vendors say. Pure.
//
// Rates are dense ones (no structured sparsity) and of one direction. What collectives and kernels
// reach of them is another matter: src/cost has the former, efficiency() the latter.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"

namespace paro {

// What matrices are multiplied in.
enum class Precision : uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8 };
inline constexpr std::array kPrecisionNames{std::string_view("fp32"),
                                            std::string_view("tf32"),
                                            std::string_view("fp16"),
                                            std::string_view("bf16"),
                                            std::string_view("fp8")};
[[nodiscard]] constexpr std::string_view to_string(Precision precision) {
  return kPrecisionNames.at(static_cast<size_t>(precision));
}

enum class GpuLink : uint8_t { kNvlink, kInfinityFabric, kPcie };
inline constexpr std::array kGpuLinkNames{
    std::string_view("NVLink"), std::string_view("Infinity Fabric"), std::string_view("PCIe")};
[[nodiscard]] constexpr std::string_view to_string(GpuLink link) {
  return kGpuLinkNames.at(static_cast<size_t>(link));
}

enum class Network : uint8_t { kInfiniBand, kRoce, kEfa, kTcp };
inline constexpr std::array kNetworkNames{std::string_view("InfiniBand"),
                                          std::string_view("RoCE"),
                                          std::string_view("EFA"),
                                          std::string_view("TCP")};
[[nodiscard]] constexpr std::string_view to_string(Network network) {
  return kNetworkNames.at(static_cast<size_t>(network));
}

struct Source {
  std::string_view page;
  std::string_view read;  // when the figures were last held against it or a copy; "-": not yet
};

struct Gpu {
  std::string_view name;
  double memory_gb;  // of 10^9 bytes
  // 10^12 operations a second by precision, in the order of the names; 0: it has none.
  std::array<double, kPrecisionNames.size()> tflops;
  GpuLink link;
  double link_gbytes;  // 10^9 bytes a second to and as many from the GPUs of its machine
  Source source;
};

struct Instance {
  std::string_view name;
  std::string_view gpu;
  uint32_t gpus;
  uint32_t nics;
  double nic_gbit;
  Network network;
  Source source;
};

[[nodiscard]] std::span<const Gpu> known_gpus();
[[nodiscard]] std::span<const Instance> known_instances();

// A name, or the beginning of one up to a dash: h100 is the first that begins so, h100-sxm. An
// error names those that are near.
[[nodiscard]] ho::Result<Gpu> find_gpu(std::string_view name, const ho::OptionNames& named = {});
[[nodiscard]] ho::Result<Instance> find_instance(std::string_view name,
                                                 const ho::OptionNames& named = {});

// The GPUs that a name may mean: that one, or all that begin so.
[[nodiscard]] std::vector<std::string_view> gpus_called(std::string_view name);

// Operations a second, or what the GPU can do instead.
[[nodiscard]] ho::Result<double> peak_flops(const Gpu& gpu,
                                            Precision precision,
                                            const ho::OptionNames& named = {});

// The share of the peak that kernels of large transformers execute while nothing is communicated,
// where none is given. With full recomputation memory is there for larger micro-batches.
[[nodiscard]] double efficiency(const Gpu& gpu, Precision precision, bool full_recompute);

}  // namespace paro
