#include "status/folder.hpp"

#include "catch.hpp"

using namespace ho;

TEST_CASE("the name of a rank's socket is read as it was written") {
  const StatusSocketName name{0xc0ffee1234U, 17, 4711, 0xb001};
  CHECK(to_string(name) == "000000c0ffee1234-17-4711-0000b001");
  CHECK(parse_status_socket_name(to_string(name)) == name);
  CHECK(job_name(name.job) == "000000c0ffee1234");
}

TEST_CASE("other files of the folder are no sockets of ranks") {
  for (const char* text : {"",
                           "-",
                           "000000c0ffee1234",
                           "000000c0ffee1234-17",
                           "000000c0ffee1234-17-",
                           "000000c0ffee1234-17-4711",
                           "000000c0ffee1234-17-4711-",
                           "000000c0ffee1234-17-4711-b001",
                           "000000c0ffee1234-17-4711-0000b00x",
                           "000000c0ffee1234-17-0-0000b001",
                           "000000c0ffee1234-17--5-0000b001",
                           "000000c0ffee1234-17-4711-0000b001.new",
                           "000000c0ffee1234-x-4711-0000b001",
                           "c0ffee1234-17-4711-0000b001",
                           "000000c0ffee123x-17-4711-0000b001",
                           "000000c0ffee1234-99999999999-4711-0000b001"}) {
    INFO(text);
    CHECK_FALSE(parse_status_socket_name(text).has_value());
  }
}
