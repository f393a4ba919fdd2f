// The file system is the one thing that this test touches beside memory.
#include "base/text_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "temporary_folder.hpp"

namespace ho {
namespace {

bool refused_for(const std::string& path, const std::string& why) {
  const auto read = read_text_file(path, 4096);
  INFO(read.status().message());
  CHECK(read.status().message().find(why) != std::string::npos);
  return !read.ok() && read.status().code() == StatusCode::kInvalidArgument;
}

}  // namespace

TEST_CASE("a regular file is read to its end") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("file");
  const std::string text(4096, 'x');
  std::ofstream(path) << text;
  REQUIRE(read_text_file(path, 4096).ok());
  CHECK(*read_text_file(path, 4096) == text);
  std::ofstream(path, std::ios::app) << "x";
  CHECK(refused_for(path, "is larger than 4 KiB"));
  std::ofstream(path, std::ios::trunc).flush();
  CHECK(read_text_file(path, 4096)->empty());
}

TEST_CASE("what is no regular file is refused at once") {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR) == 0);
  CHECK(refused_for(pipe, "is not a regular file"));
  CHECK(refused_for("/dev/zero", "is not a regular file"));
  CHECK(refused_for(folder.path(""), "is not a regular file"));
  CHECK(refused_for(folder.path("nothing"), "No such file"));
}

}  // namespace ho
