#include "cli/run/options.hpp"

#include "catch.hpp"

namespace ho {
namespace {

Parsed<RunOptions> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "run");
  return parse_run_options(static_cast<int>(words.size()), words.data());
}

}  // namespace

TEST_CASE("the command begins at the first word that is no option, or after --") {
  for (const auto& parsed : {parse({"-n", "4x4", "prog", "-n", "3", "--rails"}),
                             parse({"-n", "4x4", "--", "prog", "-n", "3", "--rails"})}) {
    REQUIRE_FALSE(parsed.exit_status.has_value());
    CHECK(parsed.options.job.command == std::vector<std::string>{"prog", "-n", "3", "--rails"});
    CHECK(parsed.options.cluster.sizes->world_size() == 16);
  }
}

TEST_CASE("a second -- belongs to the command") {
  const auto parsed = parse({"-n", "2", "--", "prog", "--", "x"});
  CHECK(parsed.options.job.command == std::vector<std::string>{"prog", "--", "x"});
}

TEST_CASE("by default there is one rail per rank of the smallest node, at most four") {
  struct Row {
    const char* sizes;
    uint32_t rails;
  };
  for (const Row& row :
       {Row{"4x4", 4}, Row{"2x8", 4}, Row{"1+3", 1}, Row{"3+5+2", 2}, Row{"8", 0}}) {
    CAPTURE(row.sizes);
    CHECK(shape_of(parse({"-n", row.sizes, "x"}).options.cluster).rails == row.rails);
  }
  CHECK(shape_of(parse({"-n", "4x4", "--rails", "2", "x"}).options.cluster).rails == 2);
  CHECK(shape_of(parse({"-n", "2x2", "x"}).options.cluster).rail_rate_mbit == 200);
}

TEST_CASE("a command line that cannot work ends with status 2") {
  const std::vector<std::vector<const char*>> wrong{
      {},
      {"-n", "4x4"},
      {"prog"},
      {"-n", "4x", "prog"},
      {"-n", "0", "prog"},
      {"-n", "2x2", "--rail-rate", "fast", "prog"},
      {"-n", "2x2", "--rails", "9999", "prog"},
      {"-n", "2x2", "--emulate", "magic", "prog"},
      {"-n", "2x2", "--unknown", "prog"},
      {"-n", "2x2", "--timeout", "-1", "prog"},
      {"-n", "5000", "prog"},
      {"-n", "251x1", "prog"},
  };
  for (const auto& words : wrong) {
    CAPTURE(words);
    CHECK(parse(words).exit_status == 2);
  }
}

}  // namespace ho
