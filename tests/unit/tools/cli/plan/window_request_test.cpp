// `horing plan --plugin-window`: the window that options ask for, and what is refused.
#include "cli/plan/window_request.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace ho;

namespace {

WindowOptions window_options(uint32_t members, const std::string& bytes) {
  WindowOptions options;
  options.plugin_window = true;
  options.members = members;
  options.bytes = bytes;
  return options;
}

std::string window_refusal(const WindowOptions& options, Collective collective) {
  const auto request = window_request(options, collective);
  REQUIRE_FALSE(request.ok());
  CHECK(request.status().code() == StatusCode::kInvalidArgument);
  return request.status().message();
}

// Nothing: the command line is accepted.
std::string window_usage_error(std::vector<std::string> words) {
  CLI::App app;
  std::string text;
  for (const char* const other : {"--algorithm", "--groups", "--rings", "--rails", "--root"}) {
    app.add_option(other, text);
  }
  WindowOptions options;
  declare_window(app, options);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a window is of all blocks, of one member's block, or of an all-reduce") {
  WindowOptions options = window_options(3, "12K");
  auto request = window_request(options, Collective::kAllGather);
  REQUIRE(request.ok());
  CHECK(request->window.block_bytes == 4096);
  CHECK(request->window.byte_count == 12288);
  CHECK(request->window.offset == 0);
  CHECK(request->wanted_piece_bytes == 0);
  request = window_request(options, Collective::kAllReduce);
  REQUIRE(request.ok());
  CHECK(request->window.byte_count == 12288);
  options.owner = 2;
  request = window_request(options, Collective::kReduceScatter);
  REQUIRE(request.ok());
  CHECK(request->window.block_bytes == 12288);
  CHECK(request->window.offset == 24576);
  CHECK(request->window.byte_count == 12288);
}

TEST_CASE("pieces of the longest block are as many as were asked for, or refused") {
  WindowOptions options = window_options(2, "200");
  for (const uint32_t pieces : {1U, 2U, 3U, 4U}) {
    options.pieces = pieces;
    const auto request = window_request(options, Collective::kAllGather);
    REQUIRE(request.ok());
    CHECK(request->wanted_piece_bytes % 8 == 0);
    CHECK(plugin::rail::piece_count(request->window, 100, request->wanted_piece_bytes) == pieces);
  }
  for (const uint32_t pieces : {0U, 6U, 100U}) {
    options.pieces = pieces;
    CHECK(window_refusal(options, Collective::kAllGather)
              .find("--pieces " + std::to_string(pieces) + ": a block of 100 bytes cannot") == 0);
  }
}

TEST_CASE("what is no window is refused with what to do") {
  WindowOptions options = window_options(3, "128K");
  CHECK(window_refusal(options, Collective::kBroadcast).find("use all_gather, reduce_scatter") !=
        std::string::npos);
  CHECK(window_refusal(options, Collective::kAllGather).find("use a multiple of 12, or --owner") !=
        std::string::npos);
  options.owner = 1;
  CHECK(window_refusal(options, Collective::kAllReduce).find("--owner is for all_gather") == 0);
  options.owner = 3;
  CHECK(window_refusal(options, Collective::kAllGather) ==
        "--owner 3: use 0 to 2 with --members 3");
  options.bytes = "16777215T";
  options.owner = 2;
  CHECK(window_refusal(options, Collective::kAllGather).find("are too many") != std::string::npos);
  for (const char* const bytes : {"", "0", "7", "1.5K", "x", "-4"}) {
    CHECK(window_refusal(window_options(2, bytes), Collective::kAllReduce)
              .find("use a multiple of 4 (a float32) above 0") != std::string::npos);
  }
}

TEST_CASE("options of windows need --plugin-window, those of other plans exclude it") {
  CHECK(window_usage_error(
            {"--plugin-window", "--members", "2", "--bytes", "8", "--pieces", "1"}) == "");
  for (const char* const option : {"--members", "--bytes", "--pieces", "--owner"}) {
    CHECK(window_usage_error({option, "2"}) == std::string(option) + " requires --plugin-window");
  }
  for (const char* const option : {"--algorithm", "--groups", "--rings", "--rails", "--root"}) {
    const std::string error = window_usage_error({"--plugin-window", option, "2"});
    CHECK(error.find("excludes") != std::string::npos);
    CHECK(error.find(option) != std::string::npos);
  }
  CHECK(window_usage_error({"--plugin-window", "--members", "257"}).find("1 to 256") !=
        std::string::npos);
}

TEST_CASE("a window is described block by block") {
  WindowOptions options = window_options(3, "28");
  options.pieces = 2;
  auto request = window_request(options, Collective::kAllReduce);
  REQUIRE(request.ok());
  CHECK(to_string(*request) ==
        "window of a rail under NCCL: 28 bytes, 3 members\n"
        "  block 0, of member 0: bytes 0 to 11, in 2 pieces of 8\n"
        "  block 1, of member 1: bytes 12 to 19, in 1 piece\n"
        "  block 2, of member 2: bytes 20 to 27, in 1 piece\n"
        "  fractions below count all blocks, and the pieces of a block, as equal\n");
  request = window_request(window_options(2, "24"), Collective::kAllReduce);
  REQUIRE(request.ok());
  CHECK(to_string(*request) ==
        "window of a rail under NCCL: 24 bytes, 2 members\n"
        "  block 0, sent by each of the two members to the other: bytes 0 to 23, in 1 piece\n");
}
