#include "machine/machine.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"

namespace paro {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("GPUs are found by name, by its beginning and in either case") {
  CHECK(find_gpu("a100-40")->memory_gb == 40);
  CHECK(find_gpu("A100")->name == "a100-80");
  CHECK(find_gpu("h100")->name == "h100-sxm");
  CHECK(find_gpu("h100-pcie")->link == GpuLink::kPcie);
  CHECK(find_instance("p5")->name == "p5.48xlarge");
  CHECK(find_instance("p6-b200")->nics == 8);
  CHECK(find_instance("ND96isr_H100_v5")->gpu == "h100-sxm");
}

TEST_CASE("a name that several GPUs begin with means all of them") {
  using Names = std::vector<std::string_view>;
  CHECK(gpus_called("A100") == Names{"a100-80", "a100-40"});
  CHECK(gpus_called("h100") == Names{"h100-sxm", "h100-pcie", "h100-nvl"});
  CHECK(gpus_called("h100-sxm") == Names{"h100-sxm"});
  CHECK(gpus_called("b200") == Names{"b200"});
  CHECK(gpus_called("b300").empty());
}

TEST_CASE("a name that is not known is answered with those near it") {
  CHECK(has(find_gpu("h10").status().message(), "--gpu h10: is not known; near it: h100-sxm"));
  CHECK(has(find_gpu("mi300").status().message(), "near it: mi300x"));
  CHECK(has(find_gpu("").status().message(), "is not known; takes v100-32"));
  CHECK(has(find_gpu("abacus").status().message(), "takes v100-32, v100-16, a100-80"));
  CHECK(has(find_gpu(std::string(100000, 'h')).status().message(), "is not known; takes"));
  CHECK(has(find_instance("p4").status().message(), "near it: p4d.24xlarge, p4de.24xlarge"));
  CHECK(find_gpu("h100-").status().code() == ho::StatusCode::kInvalidArgument);
}

TEST_CASE("every machine has a known GPU, and every row a source") {
  for (const Instance& instance : known_instances()) {
    INFO(instance.name);
    REQUIRE(find_gpu(instance.gpu).ok());
    CHECK(find_gpu(instance.gpu)->name == instance.gpu);
    CHECK(find_instance(instance.name)->name == instance.name);
    CHECK(instance.gpus * instance.nics * instance.nic_gbit > 0);
    CHECK_FALSE(instance.source.page.empty());
  }
  for (const Gpu& gpu : known_gpus()) {
    INFO(gpu.name);
    CHECK(find_gpu(gpu.name)->name == gpu.name);
    CHECK(gpu.memory_gb * gpu.link_gbytes > 0);
    CHECK_FALSE(gpu.source.page.empty());
    CHECK(efficiency(gpu, Precision::kBf16, false) <= efficiency(gpu, Precision::kBf16, true));
  }
}

TEST_CASE("a precision that a GPU has not is refused with those that it has") {
  CHECK(*peak_flops(*find_gpu("h100"), Precision::kBf16) == Approx(989.4e12));
  CHECK(*peak_flops(*find_gpu("h100"), Precision::kFp8) == Approx(1978.9e12));
  CHECK(peak_flops(*find_gpu("a100"), Precision::kFp8).status().message() ==
        "--precision fp8: GPU a100-80 has none; takes fp32, tf32, fp16, bf16");
  CHECK(
      has(peak_flops(*find_gpu("v100"), Precision::kBf16).status().message(), "takes fp32, fp16"));
}

}  // namespace paro
