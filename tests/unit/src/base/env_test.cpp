#include "base/env.hpp"

#include <csignal>
#include <cstdlib>
#include <string>

#include "catch.hpp"
#include "scoped_variable.hpp"

namespace ho::env {
namespace {

bool accepts(const Variable& variable, const std::string& value) {
  const test::ScopedVariable set(variable.name, value);
  return check_numbers().ok();
}

TEST_CASE("the defaults are in range") {
  const Status status = check_numbers();
  INFO(status.message());
  CHECK(status.ok());
}

TEST_CASE("a number has a lowest and a highest value") {
  for (const Variable& variable : all()) {
    if (!variable.range) {
      continue;
    }
    const Range& range = *variable.range;
    INFO(std::string(variable.name) << " takes " << takes(variable));
    CHECK(accepts(variable, std::to_string(range.least)));
    CHECK(accepts(variable, std::to_string(range.most)));
    CHECK_FALSE(accepts(variable, std::to_string(range.most + 1)));
    CHECK(accepts(variable, "0") == (range.least == 0 || range.or_zero));
    for (const char* odd : {"-1", "1.5", "16K", "many", " 1", "99999999999999999999999"}) {
      CHECK_FALSE(accepts(variable, odd));
    }
    if (range.least > 1) {
      CHECK_FALSE(accepts(variable, std::to_string(range.least - 1)));
    }
  }
}

TEST_CASE("words and switches have their values, and names that are not ours are found") {
  const auto takes_value = [](const Variable& variable, const char* value) {
    const test::ScopedVariable set(variable.name, value);
    return check_value(variable).ok();
  };
  for (const Variable& variable : all()) {
    CHECK(check_value(variable).ok());
  }
  CHECK(takes_value(kShmSingleCopy, "auto"));
  CHECK(takes_value(kShmSingleCopy, "0"));
  CHECK_FALSE(takes_value(kShmSingleCopy, "banana"));
  CHECK(takes_value(kDeviceSums, "host"));
  CHECK_FALSE(takes_value(kDeviceSums, "cpu"));
  CHECK_FALSE(takes_value(kDeviceSharing, "auto"));
  CHECK(takes_value(kAlgorithm, "ho_ring"));
  CHECK_FALSE(takes_value(kAlgorithm, "ho"));
  CHECK_FALSE(takes_value(kRails, "abc"));
  const test::ScopedVariable wrong(kShmSingleCopy.name, "banana");
  CHECK(check_value(kShmSingleCopy).message().find("takes 0, 1 or auto") != std::string::npos);
  constexpr Variable kMisspelt{"HORING_RIALS", "", "", false};
  const test::ScopedVariable misspelt(kMisspelt.name, "2");
  CHECK(unknown_names("HORING_RIALS") == std::vector<std::string>{"HORING_RIALS"});
  CHECK(unknown_names("HORING_SHM").empty());
}

TEST_CASE("a name that is nearly a variable's is told from those of others") {
  CHECK(misspelt_names().empty());
  const test::ScopedVariable others("HORING_PROGRAM", "x");
  const test::ScopedVariable far("HORING_TEST_SEEDS", "7");
  const test::ScopedVariable short_one("HORING_RIALS", "2");
  const test::ScopedVariable cut_off("HORING_FAILOVER_WAIT", "7");
  const std::vector<Misspelt> found = misspelt_names();
  REQUIRE(found.size() == 2);
  CHECK((found[0].name == "HORING_FAILOVER_WAIT" && found[0].near == kFailoverWaitMs.name));
  CHECK((found[1].name == "HORING_RIALS" && found[1].near == kRails.name));
}

TEST_CASE("the signal for records is one that a program leaves to others") {
  CHECK_FALSE(record_signal()->has_value());
  for (const int good : {SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMAX}) {
    CHECK(accepts(kRecordSignal, std::to_string(good)));
  }
  for (const int bad : {0,
                        SIGSEGV,
                        SIGBUS,
                        SIGFPE,
                        SIGILL,
                        SIGTRAP,
                        SIGABRT,
                        SIGKILL,
                        SIGSTOP,
                        SIGINT,
                        SIGTERM,
                        SIGQUIT,
                        SIGHUP,
                        SIGPIPE,
                        SIGCHLD,
                        SIGTSTP,
                        65}) {
    CHECK_FALSE(accepts(kRecordSignal, std::to_string(bad)));
  }
  const test::ScopedVariable set(kRecordSignal.name, std::to_string(SIGSEGV));
  const std::string why = check_value(kRecordSignal).message();
  CHECK(why.find("HORING_RECORD_SIGNAL=11: takes 10 (SIGUSR1), 12 (SIGUSR2), or ") == 0);
  CHECK_FALSE(record_signal().ok());
}

TEST_CASE("values that mean the same are the same where ranks compare them") {
  const auto compared = [](const Variable& variable, const char* value) {
    const test::ScopedVariable set(variable.name, value);
    return compared_text(variable);
  };
  for (const char* yes : {"1", "yes", "true", "on", "ON", "True"}) {
    CHECK(compared(kFailover, yes) == "1");
  }
  CHECK(compared(kFailover, "on") == compared_text(kFailover));
  CHECK(compared(kFailover, "OFF") == "0");
  CHECK(compared(kFailover, "Maybe") == "Maybe");
  CHECK(compared(kRails, "04") == "4");
  CHECK(compared(kAlgorithm, "ring") == "ring");
}

TEST_CASE("powers of two, multiples and words are checked where a variable takes them") {
  CHECK_FALSE(accepts(kShmRingBytes, "100000"));
  CHECK(accepts(kShmRingBytes, "65536"));
  CHECK_FALSE(accepts(kPieceBytes, "4095"));
  CHECK(accepts(kPieceBytes, "4096"));
  CHECK(accepts(kSpinUs, "auto"));
  CHECK_FALSE(accepts(kTimeoutMs, "auto"));
}

TEST_CASE("a variable that is set to nothing counts as not set, whatever it holds") {
  for (const Variable& variable : all()) {
    INFO(std::string(variable.name));
    const test::ScopedVariable set(variable.name, "");
    CHECK(check_value(variable).ok());
    CHECK(text(variable) == variable.default_value);
    CHECK_FALSE(text_if_set(variable).has_value());
    CHECK(is_set_to_nothing(variable));
  }
}

TEST_CASE("the error names variable, value and what it takes") {
  const test::ScopedVariable set(kPieceBytes.name, "7");
  const Status status = check_numbers();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() ==
        "HORING_PIECE_BYTES=7: takes 0, or 1024 to 67108864, a multiple of 8; change or unset the "
        "variable");
  CHECK_FALSE(number(kPieceBytes).ok());
}

}  // namespace
}  // namespace ho::env
