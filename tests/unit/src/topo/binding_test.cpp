#include "topo/binding.hpp"

#include "base/quantity.hpp"
#include "catch.hpp"

using Cpus = std::vector<uint32_t>;

namespace {

std::vector<ho::NumaNode> two_nodes() {
  return {{0, 0, {0, 1, 2, 3}}, {1, 0, {4, 5, 6, 7}}};
}

}  // namespace

TEST_CASE("CPU lists are parsed and printed, what is none is refused") {
  CHECK(*ho::parse_cpu_list("4-7,9") == Cpus{4, 5, 6, 7, 9});
  CHECK(*ho::parse_cpu_list("3,1,2-3") == Cpus{1, 2, 3});
  CHECK(ho::ranges_text(Cpus{4, 5, 6, 7, 9}) == "4-7,9");
  CHECK(ho::ranges_text(Cpus{}).empty());
  for (const char* text :
       {"", ",", "a", "1-", "-1", "3-2", "1,", "1 2", "65536", "99999999999", "0-4294967295"}) {
    INFO(text);
    CHECK_FALSE(ho::parse_cpu_list(text).ok());
  }
}

TEST_CASE("auto takes the allowed CPUs of the NIC's node") {
  const Cpus all{0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(*ho::progress_cpus("auto", two_nodes(), 1, all) == Cpus{4, 5, 6, 7});
  CHECK(*ho::progress_cpus("auto", two_nodes(), 1, Cpus{0, 5}) == Cpus{5});
  CHECK(ho::progress_cpus("auto", two_nodes(), 1, Cpus{0, 1})->empty());
  CHECK(ho::progress_cpus("auto", two_nodes(), -1, all)->empty());
  CHECK(ho::progress_cpus("auto", std::vector{two_nodes()[0]}, 0, all)->empty());
  CHECK(ho::progress_cpus("none", two_nodes(), 1, all)->empty());
}

TEST_CASE("listed CPUs must be allowed") {
  CHECK(*ho::progress_cpus("1,2", two_nodes(), 1, Cpus{0, 1, 2}) == Cpus{1, 2});
  const auto refused = ho::progress_cpus("2-4", two_nodes(), 1, Cpus{0, 1, 2});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("may not use CPU 3-4, only 0-2") != std::string::npos);
  CHECK(ho::progress_cpus("x", two_nodes(), 1, Cpus{0})
            .status()
            .message()
            .find("HORING_PROGRESS_CPU") != std::string::npos);
}
