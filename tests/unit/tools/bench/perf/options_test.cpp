#include "bench/perf/options.hpp"

#include "catch.hpp"

namespace ho::perf {
namespace {

Parsed<Options> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "all_gather_perf");
  return parse_options(
      harness::Collective::kAllGather, static_cast<int>(words.size()), words.data());
}

std::vector<uint64_t> sizes_of(const Options& options) {
  std::vector<uint64_t> sizes;
  for (const harness::SizeRun& run : options.sizes()) {
    sizes.push_back(run.size_bytes);
  }
  return sizes;
}

TEST_CASE("-b, -e, -f and -i mean what they mean in nccl-tests") {
  CHECK(sizes_of(parse({"-b", "8", "-e", "64", "-f", "2"}).options) ==
        std::vector<uint64_t>{8, 16, 32, 64});
  CHECK(sizes_of(parse({"-b", "1K", "-e", "3K", "-i", "1K"}).options) ==
        std::vector<uint64_t>{1024, 2048, 3072});
  CHECK(sizes_of(parse({}).options) == std::vector<uint64_t>{32U << 20});
  CHECK(sizes_of(parse({"-b", "64M"}).options) == std::vector<uint64_t>{64U << 20});
}

TEST_CASE("--sizes lists sizes with their own counts") {
  const auto parsed = parse({"--sizes", "64K:100,1M", "-n", "30"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  const auto runs = parsed.options.sizes();
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].size_bytes == 65536);
  CHECK(runs[0].iterations == 100);
  CHECK(runs[1].iterations == 30);
}

TEST_CASE("types, operations and algorithms are given by name, or all") {
  const auto parsed = parse({"-d", "all", "-o", "all", "--algorithm", "ho_ring", "--place", "in"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.dtypes.size() == kDTypeCount);
  CHECK(parsed.options.ops.size() == kReduceOpCount);
  CHECK(parsed.options.algorithm == HO_ALGORITHM_HO_RING);
  CHECK_FALSE(parsed.options.out_of_place);
  CHECK(parsed.options.in_place);
}

TEST_CASE("buffers are of the host unless said otherwise, and mixed ones are not in place") {
  CHECK(parse({}).options.memory == Memory::kHost);
  const auto device = parse({"--memory", "device"});
  REQUIRE_FALSE(device.exit_status.has_value());
  CHECK(device.options.memory == Memory::kDevice);
  CHECK((device.options.out_of_place && device.options.in_place));
  const auto mixed = parse({"--memory", "mixed"});
  REQUIRE_FALSE(mixed.exit_status.has_value());
  CHECK(to_string(mixed.options.memory) == "mixed");
  CHECK((mixed.options.out_of_place && !mixed.options.in_place));
}

TEST_CASE("what cannot work is refused") {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"-b", "2M", "-e", "1M"},
                                             {"-b", "12x"},
                                             {"-i", "0"},
                                             {"-b", "0", "-f", "2"},
                                             {"-d", "float7"},
                                             {"-o", "nand"},
                                             {"-n", "0"},
                                             {"-c", "2"},
                                             {"--algorithm", "fastest"},
                                             {"--sizes", "64K:0"},
                                             {"--sizes", "1M:x"},
                                             {"--memory", "managed"},
                                             {"--memory", "mixed", "--place", "in"},
                                             {"--nonsense"}}) {
    CAPTURE(words.front());
    const auto parsed = parse(words);
    REQUIRE(parsed.exit_status.has_value());
    CHECK(*parsed.exit_status != 0);
  }
  CHECK(parse({"--help"}).exit_status == 0);
}

}  // namespace
}  // namespace ho::perf
