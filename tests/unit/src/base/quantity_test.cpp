#include "base/quantity.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

using Parse = Result<double> (*)(std::string_view, std::string_view);
using Pairs = std::vector<std::pair<const char*, double>>;

void check_values(Parse parse, const Pairs& pairs) {
  for (const auto& [text, value] : pairs) {
    INFO(text);
    const auto parsed = parse("--x", text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == Approx(value));
  }
}

void check_refused(Parse parse, const std::vector<const char*>& texts) {
  for (const char* text : texts) {
    INFO("'" << text << "'");
    const auto parsed = parse("--x", text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().message().find("--x '" + std::string(text) + "': takes ") == 0);
  }
}

}  // namespace

TEST_CASE("sizes are read with their units") {
  check_values(parse_size,
               {{"80GB", 80e9},
                {"64GiB", 64.0 * 1024 * 1024 * 1024},
                {"1.5 TB", 1.5e12},
                {"512MB", 512e6},
                {"7kB", 7e3},
                {"7KiB", 7168},
                {"80G", 80e9},
                {"80e9B", 80e9},
                {"12B", 12},
                {"0", 0}});
  check_refused(
      parse_size,
      {"", "GB", "-1GB", "nan", "inf", "80Gbit", "80Gb", "80XB", "80GBs", "0x10", "1e999", "24"});
  CHECK(parse_size("--memory", "24").status().message() ==
        "--memory '24': takes bytes with their unit, as 80GB or 64GiB, or 80B for bytes alone");
}

TEST_CASE("rates are read with their units") {
  check_values(parse_rate,
               {{"80Gbit", 10e9},
                {"80gbit/s", 10e9},
                {"80Gbps", 10e9},
                {"80Gb/s", 10e9},
                {"10GB", 10e9},
                {"10GB/s", 10e9},
                {"200mbit", 25e6},
                {"1GiB/s", 1024.0 * 1024 * 1024},
                {"8bit", 1}});
  check_refused(parse_rate,
                {"", "80", "80G", "0Gbit", "-80Gbit", "nanGbit", "80Gbits", "80Gbit/h"});
}

TEST_CASE("times are read with their units") {
  check_values(
      parse_time,
      {{"2.5s", 2.5}, {"300ms", 0.3}, {"7us", 7e-6}, {"2min", 120}, {"1h", 3600}, {"0", 0}});
  check_refused(parse_time, {"", "s", "4", "-1s", "nan", "2.5sec", "1d"});
}

TEST_CASE("counts and numbers are read with their words") {
  check_values(parse_count, {{"7e9", 7e9}, {"7B", 7e9}, {"350M", 350e6}, {"12k", 12e3}, {"3", 3}});
  check_refused(parse_count, {"", "0", "-7e9", "7Q", "inf"});
  check_values(parse_number, {{"0.31", 0.31}, {"0", 0}});
  check_refused(parse_number, {"", "1x", "-1"});
  CHECK(*parse_number_up_to("--x", "10", 10) == 10);
  for (const char* text : {"10.1", "nan", "inf", "-1", "1s", "", "1e999"}) {
    INFO(text);
    const auto refused = parse_number_up_to("--x", text, 10);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().message().find("takes a number from 0 to 10") != std::string::npos);
  }
  CHECK(*parse_whole("--x", "8", 1) == 8);
  for (const char* text : {"0", "-1", "1.5", "", "4294967296", "8x"}) {
    INFO(text);
    CHECK_FALSE(parse_whole("--x", text, 1).ok());
  }
}

TEST_CASE("an error repeats the beginning of a long text") {
  const auto refused = parse_size("--x", std::string(100000, 'x'));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().size() < 200);
}

TEST_CASE("whole bytes are read with powers of 1024") {
  constexpr uint64_t kMiB = uint64_t{1} << 20U;
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("64") == 64);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("1K") == 1024);
  CHECK(parse_bytes("3m") == 3 * kMiB);
  CHECK(parse_bytes("2G") == 2 * 1024 * kMiB);
  CHECK(parse_bytes("1T") == 1024 * 1024 * kMiB);
  CHECK(parse_bytes("18446744073709551615") == UINT64_MAX);
  CHECK(parse_bytes("16777215T") == uint64_t{16777215} << 40U);
  for (const char* bad : {"",
                          "K",
                          "-1",
                          "+1",
                          "1.5M",
                          "1 K",
                          "1KB",
                          "4MB",
                          "1KiB",
                          "x",
                          "0x10",
                          "1P",
                          "18446744073709551616",
                          "17179869184G",
                          "16777216T",
                          "99999999999999999999",
                          "99999999999999999999K"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_bytes(bad).has_value());
  }
}

TEST_CASE("rates that links are limited to take units") {
  const auto mbit = [](const char* text) { return parse_rate_limit("--x", text, 1'000'000); };
  CHECK(mbit("200mbit").value() == 200);
  CHECK(mbit("200").value() == 200);
  CHECK(mbit("2gbit").value() == 2000);
  CHECK(mbit("1000gbit").value() == 1'000'000);
  CHECK(mbit("none").value() == 0);
  CHECK(mbit("0").value() == 0);
  CHECK(mbit("0mbit").value() == 0);
  CHECK(mbit("1.5Gbit/s").value() == 1500);
  CHECK(mbit("1.001gbit").value() == 1001);
  CHECK(mbit("1.07gbit").value() == 1070);
  CHECK(mbit("25MB/s").value() == 200);
  for (const char* wrong :
       {"", "mbit", "-1", "1.5", "200kbit", "1001gbit", "99999999gbit", "18446744073709551615"}) {
    CAPTURE(wrong);
    CHECK_FALSE(mbit(wrong).ok());
  }
  CHECK(
      mbit("fast").status().message() ==
      "--x 'fast': takes whole Mbit/s with mbit or gbit (200mbit), up to 1000gbit, or none for no "
      "limit");
}

TEST_CASE("whole numbers are the whole text") {
  CHECK(whole_number<uint16_t>("65535") == 65535);
  CHECK(whole_number<int64_t>("-1") == -1);
  for (const char* wrong : {"", "65536", "-1", "+1", " 1", "1 ", "0x1", "1.0"}) {
    CAPTURE(wrong);
    CHECK_FALSE(whole_number<uint16_t>(wrong).has_value());
  }
}

TEST_CASE("sizes are printed exactly and in powers of 1024") {
  for (const auto& [bytes, text] :
       std::vector<std::pair<uint64_t, std::string>>{{0, "0 B"},
                                                     {8, "8 B"},
                                                     {1000, "1000 B"},
                                                     {1024, "1 KiB"},
                                                     {1280, "1.25 KiB"},
                                                     {1300, "1300 B"},
                                                     {31200000, "31200000 B"},
                                                     {1536 * 1024, "1.5 MiB"},
                                                     {(1U << 20U) + 1, "1048577 B"},
                                                     {uint64_t{1} << 30U, "1 GiB"},
                                                     {uint64_t{1} << 40U, "1 TiB"},
                                                     {uint64_t{1} << 52U, "4096 TiB"}}) {
    CHECK(exact_bytes_text(bytes) == text);
  }
}

TEST_CASE("quantities are printed in units that people read") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(63.38e9) == "63.4 GB");
  CHECK(bytes_text(999.9e6) == "1 GB");
  CHECK(bytes_text(1.04e12) == "1.04 TB");
  CHECK(bytes_text(12'345e12) == "12345 TB");
  CHECK(seconds_text(0) == "0 s");
  CHECK(seconds_text(55.245) == "55.2 s");
  CHECK(seconds_text(1366.996) == "1367 s");
  CHECK(seconds_text(0.0121) == "12.1 ms");
  CHECK(seconds_text(2e-9) == "0.002 us");
  CHECK(count_text(7e9) == "7 billion");
  CHECK(count_text(437.5e6) == "438 million");
  CHECK(count_text(3) == "3");
}

}  // namespace ho
