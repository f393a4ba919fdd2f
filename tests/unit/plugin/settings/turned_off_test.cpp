#include "core/driver/turned_off.hpp"

#include <array>
#include <string>

#include "catch.hpp"
#include "has.hpp"

using ho::plugin::check_not_off;
using ho::plugin::claim_of;
using ho::plugin::kHandleBytes;
using ho::plugin::TurnedOff;

namespace {

using HandleBytes = std::array<std::byte, kHandleBytes>;

HandleBytes handle_of(const TurnedOff& off) {
  HandleBytes handle{};
  handle.fill(std::byte{0xff});
  encode(off, handle);
  return handle;
}

}  // namespace

TEST_CASE("a rank that is turned off says who it is and why, in a handle and in a claim") {
  const TurnedOff off{"RANK 3 on node1", "HORING_TRANSPORT=pigeon: takes tcp or ucx"};
  const std::string words =
      "the plugin of RANK 3 on node1 has turned itself off: HORING_TRANSPORT=pigeon: "
      "takes tcp or ucx; mend";
  CHECK(has(check_not_off(handle_of(off)), words));
  CHECK(has(check_not_off(claim_of(off)), words));
  CHECK(handle_of(off).back() == std::byte{0});  // where the connecting end takes notes
}

TEST_CASE("what is too long is cut, most of all in a handle") {
  const TurnedOff off{std::string(200, 'w'), std::string(300, 'y')};
  const auto handle = check_not_off(handle_of(off));
  CHECK(has(handle,
            std::string(12, 'w') + "..." + std::string(25, 'w') + " has turned itself off: "));
  CHECK(has(handle, std::string(67, 'y') + "...; mend"));
  const auto claim = claim_of(off);
  CHECK(claim.size() == 256);
  CHECK(has(check_not_off(claim), std::string(203, 'y') + "...; mend"));
}

TEST_CASE("bytes of a peer are read with care, and others are none of these") {
  const auto claim = claim_of({"a\nb", "c\x1b[2J"});
  CHECK(has(check_not_off(claim), "a?b has turned itself off: c?[2J"));
  for (size_t size = 0; size < claim.size(); ++size) {
    CHECK(check_not_off(std::span(claim).first(size)).ok() == (size < 10));
  }
  auto lies = claim;
  lies[8] = lies[9] = std::byte{0xff};
  CHECK_FALSE(check_not_off(lies).ok());
  CHECK(check_not_off(HandleBytes{}).ok());
}
