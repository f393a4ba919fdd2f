#include "core/tuner/tuning_file.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "catch.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

using namespace std::string_literals;

// A file of its own for each test process.
class ScratchFile {
 public:
  ScratchFile()
      : path_(std::filesystem::temp_directory_path() /
              ("horing_tuning_" + std::to_string(::getpid()) + ".csv")) {}
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  void write(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TuningFile parsed(std::string_view text) {
  auto file = TuningFile::parse(text, "t.csv");
  INFO(file.status().message());
  REQUIRE(file.ok());
  return std::move(file).value();
}

}  // namespace

TEST_CASE("rules are read with and without wildcards") {
  const TuningFile file = parsed(
      "# all of it\r\n"
      "all_reduce,256K,*,4,8,collnet_chain # large\r\n"
      "\n"
      "  all_gather ,\t-1 , 32k, -1,* , pat\n"
      "*,0,1T,*,*,default");
  REQUIRE(file.rules().size() == 3);
  const TuningRule& first = file.rules()[0];
  CHECK(first.collective == TunedCollective::kAllReduce);
  CHECK(first.min_bytes == 256 * kKiB);
  CHECK(first.max_bytes == UINT64_MAX);
  CHECK(first.nodes == 4);
  CHECK(first.ranks_per_node == 8);
  CHECK(first.choice == Choice::kCollNetChain);
  CHECK(first.line == 2);
  const TuningRule& second = file.rules()[1];
  CHECK(second.collective == TunedCollective::kAllGather);
  CHECK(second.min_bytes == 0);
  CHECK(second.max_bytes == 32 * kKiB);
  CHECK_FALSE(second.nodes.has_value());
  CHECK_FALSE(second.ranks_per_node.has_value());
  CHECK(second.choice == Choice::kPat);
  CHECK(second.line == 4);
  CHECK_FALSE(file.rules()[2].collective.has_value());
  CHECK(file.rules()[2].line == 5);
}

TEST_CASE("every choice has its word") {
  for (const char* word : {"default",
                           "own",
                           "ring",
                           "tree",
                           "collnet_direct",
                           "collnet_chain",
                           "nvls",
                           "nvls_tree",
                           "pat"}) {
    const TuningFile file = parsed("*,*,*,*,*,"s + word);
    CHECK(to_string(file.rules().front().choice) == word);
  }
}

TEST_CASE("a byte order mark is no part of the first rule") {
  CHECK(parsed("\xef\xbb\xbf*,*,*,*,*,ring").rules().size() == 1);
  CHECK(parsed("\xef\xbb\xbf").rules().empty());
}

TEST_CASE("nothing is a file without rules") {
  for (const char* text : {"", "\n", "\n\n# only this", " \t\r\n", "#"}) {
    CHECK(parsed(text).rules().empty());
    CHECK(parsed(text).digest() == 0);
  }
}

TEST_CASE("the first rule that matches decides") {
  const TuningFile file = parsed(
      "all_reduce,1K,2K,*,*,tree\n"
      "all_reduce,2K,4K,4,4,ring\n"
      "*,*,*,4,2,nvls\n"
      "*,*,3K,*,*,pat\n");
  const auto line = [&](const CommonInputs& inputs, TunedCollective collective, uint64_t bytes) {
    const TuningRule* const rule = file.find(inputs, collective, bytes);
    return rule == nullptr ? 0 : rule->line;
  };
  const CommonInputs square = shape(4, 4);
  CHECK(line(square, TunedCollective::kAllReduce, 1023) == 4);
  CHECK(line(square, TunedCollective::kAllReduce, 1024) == 1);
  CHECK(line(square, TunedCollective::kAllReduce, 2048) == 1);
  CHECK(line(square, TunedCollective::kAllReduce, 2049) == 2);
  CHECK(line(square, TunedCollective::kAllReduce, 4096) == 2);
  CHECK(line(square, TunedCollective::kAllReduce, 4097) == 0);
  CHECK(line(square, TunedCollective::kAllGather, 3072) == 4);
  CHECK(line(shape(4, 2), TunedCollective::kAllGather, kGiB) == 3);
  CHECK(line(shape(2, 4), TunedCollective::kAllReduce, 2049) == 4);
  CommonInputs unequal = shape(4, 4);
  unequal.least_local_ranks = 1;
  CHECK(line(unequal, TunedCollective::kAllReduce, 2049) == 4);
}

TEST_CASE("bad files are refused with where and what") {
  struct Row {
    std::string text;
    const char* message;
  };
  const std::vector<Row> rows{
      {"all_reduce,1,2,3,4", "t.csv:1:18: 5 fields of 6; write collective,min_bytes,max_bytes"},
      {"ring", "t.csv:1:1: 1 field of 6; write"},
      {"\n\n*,*,*,*,*,ring,", "t.csv:3:15: more than 6 fields; write"},
      {"# x\n*,*,*,*,*,ring\nall,1,2,3,4,ring", "t.csv:3:1: collective 'all': takes all_reduce"},
      {"broadcast,*,*,*,*,ring", "t.csv:1:1: collective 'broadcast': takes"},
      {",*,*,*,*,ring", "t.csv:1:1: collective '': takes"},
      {"*,1.5K,*,*,*,ring", "t.csv:1:3: min_bytes '1.5K': takes a whole number"},
      {"*,,*,*,*,ring", "t.csv:1:3: min_bytes '': takes"},
      {"*,*,-2,*,*,ring", "t.csv:1:5: max_bytes '-2': takes"},
      {"*,*,99999999999999999999,*,*,ring", "t.csv:1:5: max_bytes '99999999999999999999'"},
      {"*,1K,1023,*,*,ring", "t.csv:1:6: max_bytes '1023': is less than min_bytes"},
      {"*,*,*,0,*,ring", "t.csv:1:7: nodes '0': takes a whole number from 1, or * for any"},
      {"*,*,*,4294967296,*,ring", "t.csv:1:7: nodes '4294967296': takes"},
      {"*,*,*,2K,*,ring", "t.csv:1:7: nodes '2K': takes"},
      {"*,*,*,*, x ,ring", "t.csv:1:10: ranks_per_node 'x': takes"},
      {"*,*,*,*,*,", "t.csv:1:11: choice '': takes default, own, ring"},
      {"*,*,*,*,*,Ring", "t.csv:1:11: choice 'Ring': takes default, own, ring, tree"},
      {"*,*,*,*,*,horing", "t.csv:1:11: choice 'horing': takes"},
      {"all_gather,*,*,*,*,tree",
       "t.csv:1:20: choice 'tree': NCCL has no such algorithm for all_gather"},
      {"reduce_scatter,*,*,*,*,collnet_chain", "t.csv:1:24: choice 'collnet_chain': NCCL has no"},
      {"all_gather,*,*,*,*,nvls_tree", "t.csv:1:20: choice 'nvls_tree': NCCL has no"},
      {"*,*,*,*,*,pat\nall_reduce,*,*,*,*,pat", "t.csv:2:20: choice 'pat': NCCL has no"},
      {"*,*,*,*,*,ri\x1b[2Jng", "t.csv:1:11: choice 'ri?[2Jng': takes"},
      {"*,*,*,*,*,ring\n*,*\0,*,*,*,ring"s, "t.csv:2:4: a NUL byte"},
      {"# \0"s, "t.csv:1:3: a NUL byte"},
      {"*,*,*,*,*,ring\n\xef\xbb\xbf*,*,*,*,*,ring", "t.csv:2:1: collective '???*': takes"},
      {"# x\ncollective, min_bytes,max_bytes,nodes,ranks_per_node,choice\n",
       "t.csv:2:1: the names of the fields, which is no rule; put # before them"},
      {"\"*\",*,*,*,*,ring", "t.csv:1:1: collective '\"*\"': takes"},
      {"*;*;*;*;*;ring", "t.csv:1:1: 1 field of 6"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto file = TuningFile::parse(row.text, "t.csv");
    REQUIRE_FALSE(file.ok());
    INFO(file.status().message());
    CHECK(file.status().code() == StatusCode::kInvalidArgument);
    CHECK(file.status().message().find(row.message) == 0);
  }
}

TEST_CASE("a file has bounds of rules, bytes and repeated text") {
  std::string many;
  for (size_t i = 0; i < TuningFile::kMaxRules; ++i) {
    many += "*,*,*,*,*,ring\n";
  }
  CHECK(parsed(many).rules().size() == TuningFile::kMaxRules);
  const auto one_more = TuningFile::parse(many + "*,*,*,*,*,ring", "t.csv");
  REQUIRE_FALSE(one_more.ok());
  CHECK(one_more.status().message().find("t.csv:1025:1: more than 1024 rules") == 0);
  CHECK(TuningFile::parse(std::string(TuningFile::kMaxBytes, '\n'), "t.csv").ok());
  CHECK_FALSE(TuningFile::parse(std::string(TuningFile::kMaxBytes + 1, '\n'), "t.csv").ok());
  // A long field is not repeated in full.
  const auto long_field = TuningFile::parse(std::string(100'000, 'x') + ",*,*,*,*,ring", "t.csv");
  CHECK(long_field.status().message().size() < 200);
}

TEST_CASE("files are read from disk up to a limit") {
  const ScratchFile scratch;
  scratch.write("*,*,*,*,*,tree\n");
  const auto file = TuningFile::load(scratch.path());
  REQUIRE(file.ok());
  CHECK(file->rules().front().choice == Choice::kTree);
  scratch.write("*,*,*,*,*,tree\nx\n");
  CHECK(TuningFile::load(scratch.path()).status().message().find(scratch.path() + ":2:1: ") == 0);
  // A gigabyte, sparse: no more than a mebibyte of it is read.
  std::filesystem::resize_file(scratch.path(), kGiB);
  CHECK(TuningFile::load(scratch.path()).status().message().find("larger than 1024 KiB") !=
        std::string::npos);
  for (const char* odd : {"/nonexistent/tuning.csv", "/", "/dev/zero", ""}) {
    CAPTURE(odd);
    const auto refused = TuningFile::load(odd);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().message().find("tuning file "s + odd + ": ") == 0);
  }
}

TEST_CASE("the file that the environment names is read") {
  const std::string name(env::kTuningFile.name);
  ::unsetenv(name.c_str());
  REQUIRE(tuning_file_from_environment().ok());
  CHECK(tuning_file_from_environment()->rules().empty());
  const ScratchFile scratch;
  scratch.write("*,*,*,*,*,nvls\n");
  ::setenv(name.c_str(), scratch.path().c_str(), 1);
  CHECK(tuning_file_from_environment()->rules().size() == 1);
  scratch.write("nonsense");
  CHECK_FALSE(tuning_file_from_environment().ok());
  ::unsetenv(name.c_str());
}

TEST_CASE("the digest is of what a file says") {
  const uint64_t plain = parsed("*,1K,2K,*,4,tree\n").digest();
  CHECK(plain != 0);
  CHECK(parsed("# x\n\n * , 1024,2k ,-1,4, tree # y").digest() == plain);
  for (const char* other : {"all_reduce,1K,2K,*,4,tree",
                            "*,1,2K,*,4,tree",
                            "*,1K,3K,*,4,tree",
                            "*,1K,2K,4,*,tree",
                            "*,1K,2K,*,5,tree",
                            "*,1K,2K,*,4,ring",
                            "*,1K,2K,*,4,tree\n*,1K,2K,*,4,tree"}) {
    CAPTURE(other);
    CHECK(parsed(other).digest() != plain);
  }
}

}  // namespace ho::plugin
