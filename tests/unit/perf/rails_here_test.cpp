#include "perf/rails_here.hpp"

#include "catch.hpp"

namespace ho::perf {
namespace {

TEST_CASE("the filter has NCCL's syntax") {
  CHECK(passes_filter("eth0", ""));
  CHECK(passes_filter("eth0", "ib,eth"));
  CHECK_FALSE(passes_filter("ens1", "ib,eth"));
  CHECK(passes_filter("eth1", "=eth0,eth1"));
  CHECK_FALSE(passes_filter("eth10", "=eth0,eth1"));
  CHECK_FALSE(passes_filter("docker0", "^docker,lo"));
  CHECK(passes_filter("eth0", "^docker,lo"));
  CHECK_FALSE(passes_filter("eth0", "^=eth0"));
  CHECK(passes_filter("eth01", "^=eth0"));
}

TEST_CASE("names are ordered as people count") {
  CHECK(natural_less("rail2", "rail10"));
  CHECK_FALSE(natural_less("rail10", "rail2"));
  CHECK_FALSE(natural_less("rail2", "rail2"));
  CHECK(natural_less("eth", "eth0"));
  CHECK(natural_less("eth9", "rail0"));
}

TEST_CASE("emulated rails are name=address, and what is no address is left out") {
  const auto rails = parse_emulated("rail0=127.1.0.2,bad,rail1=300.1.1.1,rail2=127.3.0.2");
  REQUIRE(rails.size() == 2);
  CHECK(rails[0].name == "rail0");
  CHECK(rails[1].name == "rail2");
  CHECK(parse_emulated("").empty());
}

}  // namespace
}  // namespace ho::perf
