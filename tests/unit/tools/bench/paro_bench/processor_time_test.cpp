// What the system tells of its processors' time.
#include "bench/paro_bench/processor_time.hpp"

#include "catch.hpp"

namespace paro::bench {

TEST_CASE("time of processors: what is neither idle nor waiting for a disk is busy") {
  const auto time =
      parse_processor_time("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  REQUIRE(time.has_value());
  CHECK(time->busy == 10 + 20 + 30 + 6 + 7 + 8);
  CHECK(time->all == time->busy + 450);
}

TEST_CASE("time of processors: what cannot be read is not known") {
  for (const char* text : {"",
                           "cpu",
                           "cpu ",
                           "cpu0 1 2 3 4 5 6 7 8",
                           "cpu  1 2 3 4 5 6 7",
                           "cpu  1 2 x 4 5 6 7 8",
                           "cpu  -1 2 3 4 5 6 7 8",
                           "cpu  99999999999999999999999 2 3 4 5 6 7 8"}) {
    INFO(text);
    CHECK_FALSE(parse_processor_time(text).has_value());
  }
}

TEST_CASE("the busy share is of the time between two readings") {
  CHECK(busy_share(ProcessorTime{10, 100}, ProcessorTime{40, 200}) == 0.3);
  CHECK(busy_share(ProcessorTime{10, 100}, ProcessorTime{15, 120}) == 0.25);
  CHECK_FALSE(busy_share(ProcessorTime{10, 100}, ProcessorTime{15, 119}).has_value());
  CHECK_FALSE(busy_share(ProcessorTime{10, 100}, ProcessorTime{10, 50}).has_value());
  CHECK_FALSE(busy_share(ProcessorTime{10, 100}, ProcessorTime{5, 200}).has_value());
  CHECK_FALSE(busy_share(std::nullopt, ProcessorTime{40, 200}).has_value());
}

TEST_CASE("this machine tells its processors' time") {
  const auto now = processor_time();
  REQUIRE(now.has_value());
  CHECK(now->busy <= now->all);
}

}  // namespace paro::bench
