#include "base/copy.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"

TEST_CASE("a payload of any size is copied whole, and nothing beyond it is written") {
  for (const size_t bytes : {0U, 1U, 2047U, 2048U, 2049U, 4096U, 5000U}) {
    INFO(bytes);
    std::vector<std::byte> from(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      from[i] = static_cast<std::byte>((i * 7 + i / 256) & 0xffU);
    }
    std::vector<std::byte> to(bytes + 2, std::byte{0xa5});
    ho::copy_payload(to.data() + 1, from.data(), bytes);
    CHECK(std::equal(from.begin(), from.end(), to.begin() + 1));
    CHECK(to.front() == std::byte{0xa5});
    CHECK(to.back() == std::byte{0xa5});
  }
}
