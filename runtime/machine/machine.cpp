#include "machine/machine.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/near_names.hpp"

namespace paro {
namespace {

constexpr Source kGcpRead{"cloud.google.com/compute/docs/gpus/gpu-network-bandwidth", "2026-11-27"};
constexpr Source kGcp{kGcpRead.page, "-"};
constexpr Source kEc2{"docs.aws.amazon.com/ec2/latest/instancetypes/ac.html", "-"};
constexpr Source kEfaRead{"docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
                          "2026-11-27"};
constexpr Source kEfa{kEfaRead.page, "-"};
constexpr Source kAzure{"learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated", "-"};
constexpr Source kAzureRead{kAzure.page, "2026-11-27"};
constexpr Source kOci{"docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm", "-"};
constexpr Source kDgx{"docs.nvidia.com/dgx-systems", "-"};
constexpr Source kHopper{"nvidia.com/en-us/data-center/h100", "2026-11-27"};
constexpr Source kBlackwell{"nvidia.com/en-us/data-center/gb200-nvl72", "2026-11-27"};

// fp32, tf32, fp16, bf16, fp8.
constexpr std::array kGpus{
    Gpu{"v100-32",
        32,
        {15.7, 0, 125, 0, 0},
        GpuLink::kNvlink,
        150,
        {"nvidia.com/en-us/data-center/v100 (SXM2)", "2026-11-27"}},
    Gpu{"v100-16",
        16,
        {15.7, 0, 125, 0, 0},
        GpuLink::kNvlink,
        150,
        {"nvidia.com/en-us/data-center/v100 (SXM2)", "2026-11-27"}},
    Gpu{"a100-80",
        80,
        {19.5, 156, 312, 312, 0},
        GpuLink::kNvlink,
        300,
        {"nvidia.com/en-us/data-center/a100 (SXM4)", "2026-11-27"}},
    Gpu{"a100-40",
        40,
        {19.5, 156, 312, 312, 0},
        GpuLink::kNvlink,
        300,
        {"nvidia.com/en-us/data-center/a100 (SXM4)", "2026-11-27"}},
    Gpu{"a800-80",
        80,
        {19.5, 156, 312, 312, 0},
        GpuLink::kNvlink,
        200,
        {"as the A100; NVLink of 400 GB/s, arXiv 2311.00257", "2026-11-27"}},
    Gpu{"h100-sxm", 80, {67, 494.7, 989.4, 989.4, 1978.9}, GpuLink::kNvlink, 450, kHopper},
    Gpu{"h100-pcie", 80, {51, 378, 756, 756, 1513}, GpuLink::kPcie, 64, kHopper},
    Gpu{"h100-nvl", 94, {60, 417.5, 835.5, 835.5, 1670.5}, GpuLink::kPcie, 64, kHopper},
    Gpu{"h800-sxm",
        80,
        {67, 494.7, 989.4, 989.4, 1978.9},
        GpuLink::kNvlink,
        200,
        {"as the H100; NVLink of 400 GB/s, arXiv 2412.19437", "2026-11-27"}},
    Gpu{"h200",
        141,
        {67, 494.7, 989.4, 989.4, 1978.9},
        GpuLink::kNvlink,
        450,
        {"nvidia.com/en-us/data-center/h200", "2026-11-27"}},
    Gpu{"b200",
        180,
        {75, 1125, 2250, 2250, 4500},
        GpuLink::kNvlink,
        900,
        {"nvidia.com/en-us/data-center/dgx-b200", "2026-11-27"}},
    Gpu{"gb200", 186, {80, 1250, 2500, 2500, 5000}, GpuLink::kNvlink, 900, kBlackwell},
    Gpu{"mi300x",
        192,
        {163.4, 653.7, 1307.4, 1307.4, 2614.9},
        GpuLink::kInfinityFabric,
        448,
        {"amd.com/en/products/accelerators/instinct/mi300/mi300x", "2026-11-27"}},
    Gpu{"l40s",
        48,
        {91.6, 183, 362, 362, 733},
        GpuLink::kPcie,
        32,
        {"nvidia.com/en-us/data-center/l40s", "2026-11-27"}},
    Gpu{"a10g",
        24,
        {35, 35, 70, 70, 0},
        GpuLink::kPcie,
        32,
        {"aws.amazon.com/ec2/instance-types/g5", "2026-11-27"}},
    Gpu{"l4",
        24,
        {30.3, 60, 121, 121, 242},
        GpuLink::kPcie,
        32,
        {"nvidia.com/en-us/data-center/l4", "2026-11-27"}},
};

constexpr std::array kInstances{
    Instance{"p3dn.24xlarge", "v100-32", 8, 1, 100, Network::kEfa, kEc2},
    Instance{"p4d.24xlarge", "a100-40", 8, 4, 100, Network::kEfa, kEfa},
    Instance{"p4de.24xlarge", "a100-80", 8, 4, 100, Network::kEfa, kEfa},
    Instance{"p5.48xlarge", "h100-sxm", 8, 32, 100, Network::kEfa, kEfaRead},
    Instance{"p5e.48xlarge", "h200", 8, 32, 100, Network::kEfa, kEfaRead},
    Instance{"p5en.48xlarge", "h200", 8, 16, 200, Network::kEfa, kEfaRead},
    Instance{"p6-b200.48xlarge", "b200", 8, 8, 400, Network::kEfa, kEfa},
    Instance{"g5.48xlarge", "a10g", 8, 1, 100, Network::kEfa, kEc2},
    Instance{"g6.48xlarge", "l4", 8, 1, 100, Network::kEfa, kEc2},
    Instance{"g6e.48xlarge", "l40s", 8, 4, 100, Network::kEfa, kEc2},
    Instance{"a2-highgpu-8g", "a100-40", 8, 1, 100, Network::kTcp, kGcpRead},
    Instance{"a2-ultragpu-8g", "a100-80", 8, 1, 100, Network::kTcp, kGcpRead},
    Instance{"a2-megagpu-16g", "a100-40", 16, 1, 100, Network::kTcp, kGcpRead},
    Instance{"a3-highgpu-8g", "h100-sxm", 8, 4, 200, Network::kTcp, kGcp},
    Instance{"a3-megagpu-8g", "h100-sxm", 8, 8, 200, Network::kTcp, kGcp},
    Instance{"a3-ultragpu-8g", "h200", 8, 8, 400, Network::kRoce, kGcpRead},
    Instance{"a4-highgpu-8g", "b200", 8, 8, 400, Network::kRoce, kGcpRead},
    Instance{"nd96asr_v4", "a100-40", 8, 8, 200, Network::kInfiniBand, kAzureRead},
    Instance{"nd96amsr_a100_v4", "a100-80", 8, 8, 200, Network::kInfiniBand, kAzureRead},
    Instance{"nd96isr_h100_v5", "h100-sxm", 8, 8, 400, Network::kInfiniBand, kAzureRead},
    Instance{"nd96isr_h200_v5", "h200", 8, 8, 400, Network::kInfiniBand, kAzure},
    Instance{"nd96isr_mi300x_v5", "mi300x", 8, 8, 400, Network::kInfiniBand, kAzure},
    Instance{"bm.gpu4.8", "a100-40", 8, 16, 100, Network::kRoce, kOci},
    Instance{"bm.gpu.a100-v2.8", "a100-80", 8, 16, 100, Network::kRoce, kOci},
    Instance{"bm.gpu.h100.8", "h100-sxm", 8, 16, 200, Network::kRoce, kOci},
    Instance{"dgx-a100", "a100-80", 8, 8, 200, Network::kInfiniBand, kDgx},
    Instance{"dgx-h100", "h100-sxm", 8, 8, 400, Network::kInfiniBand, kDgx},
    Instance{"dgx-h200", "h200", 8, 8, 400, Network::kInfiniBand, kDgx},
    Instance{"dgx-b200", "b200", 8, 8, 400, Network::kInfiniBand, kDgx},
    Instance{"gb200-nvl72", "gb200", 72, 72, 400, Network::kInfiniBand, kBlackwell},
};

enum class Match : uint8_t { kNone, kBegins, kWhole };

// By the whole name, or by its beginning up to a separator.
Match match(std::string_view name, std::string_view known) {
  const std::string_view rest = known.substr(std::min(name.size(), known.size()));
  if (name.empty() || ho::edit_distance(known.substr(0, name.size()), name) != 0) {
    return Match::kNone;
  }
  return rest.empty()                                 ? Match::kWhole
         : rest.front() == '-' || rest.front() == '.' ? Match::kBegins
                                                      : Match::kNone;
}

template <typename Row, size_t kCount>
ho::Result<Row> find(std::string_view what,
                     std::string_view name,
                     const std::array<Row, kCount>& rows) {
  const Row* first = nullptr;
  std::vector<std::string_view> names;
  for (const Row& row : rows) {
    const Match found = match(name, row.name);
    if (found == Match::kWhole) {
      return row;
    }
    if (found == Match::kBegins && first == nullptr) {
      first = &row;
    }
    names.push_back(row.name);
  }
  if (first != nullptr) {
    return *first;
  }
  return ho::invalid(
      fmt::format("{} {}: is not known{}", what, name, ho::near_names_text(name, names)));
}

bool begins(std::string_view name, std::initializer_list<std::string_view> with) {
  for (const std::string_view each : with) {
    if (name.starts_with(each)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::span<const Gpu> known_gpus() {
  return kGpus;
}

std::span<const Instance> known_instances() {
  return kInstances;
}

ho::Result<Gpu> find_gpu(std::string_view name, const ho::OptionNames& named) {
  return find(named("gpu"), name, kGpus);
}

ho::Result<Instance> find_instance(std::string_view name, const ho::OptionNames& named) {
  return find(named("instance"), name, kInstances);
}

std::vector<std::string_view> gpus_called(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Gpu& gpu : kGpus) {
    const Match found = match(name, gpu.name);
    if (found == Match::kWhole) {
      return {gpu.name};
    }
    if (found == Match::kBegins) {
      names.push_back(gpu.name);
    }
  }
  return names;
}

ho::Result<double> peak_flops(const Gpu& gpu, Precision precision, const ho::OptionNames& named) {
  constexpr double kTera = 1e12;
  const double tflops = gpu.tflops.at(static_cast<size_t>(precision));
  if (tflops > 0) {
    return tflops * kTera;
  }
  std::vector<std::string_view> others;
  for (size_t at = 0; at < gpu.tflops.size(); ++at) {
    if (gpu.tflops.at(at) > 0) {
      others.push_back(kPrecisionNames.at(at));
    }
  }
  return ho::invalid(fmt::format("{} {}: GPU {} has none; takes {}",
                                 named("precision"),
                                 to_string(precision),
                                 gpu.name,
                                 fmt::join(others, ", ")));
}

// From tables where nothing or little is communicated, attention counted as its kernels compute it.
// What the planner has to be given for their steps, of which jitter and hidden communication leave
// less. A100: MPT 1B and 3B on 8 GPUs 0.57 and 0.60. H100: MPT 1B, 3B, 7B and 13B on 8 and 16 GPUs
// 0.43, 0.46, 0.51 and 0.52, Llama 8B of torchtitan on 8, compiled, 0.40, of which the middle one;
// with full recomputation MPT 13B, 30B and 70B 0.61, 0.62 and 0.64, for 13B a sixth more. In fp8
// MPT 1B and 3B and that Llama reach 0.55 to 0.67 of their share in bf16. Those of others are what
// is usual for a first guess.
double efficiency(const Gpu& gpu, Precision precision, bool full_recompute) {
  if (precision == Precision::kFp32 || precision == Precision::kTf32) {
    return 0.5;
  }
  if (begins(gpu.name, {"v100", "mi300x"})) {
    return 0.35;
  }
  if (begins(gpu.name, {"a100", "a800"})) {
    return 0.58;
  }
  if (begins(gpu.name, {"h100", "h200", "h800", "b200", "gb200"})) {
    const double share = full_recompute ? 0.54 : 0.46;
    return precision == Precision::kFp8 ? share * 0.65 : share;
  }
  return precision == Precision::kFp8 ? 0.35 : 0.5;
}

}  // namespace paro
