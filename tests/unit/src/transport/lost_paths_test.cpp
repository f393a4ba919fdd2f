#include "transport/tcp/lost_paths.hpp"

#include "catch.hpp"

namespace ho::tcp {
namespace {

TEST_CASE("a path is lost from a loss until messages pass over it, or half a minute") {
  LostPaths paths;
  const LostPaths::Ends first{"10.1.0.1", "10.1.0.2"};
  const LostPaths::Ends second{"10.1.0.1", "10.2.0.2"};
  constexpr int64_t kNow = 5'000'000'000;
  CHECK_FALSE(paths.lost(first, kNow));
  paths.note_lost(first, kNow);
  CHECK(paths.lost(first, kNow));
  CHECK_FALSE(paths.lost(second, kNow));
  CHECK(paths.lost(first, kNow + LostPaths::kBelievedNs - 1));
  CHECK_FALSE(paths.lost(first, kNow + LostPaths::kBelievedNs));
  paths.note_lost(second, kNow + 1);
  paths.note_well(first);
  CHECK_FALSE(paths.lost(first, kNow + 2));
  CHECK(paths.lost(second, kNow + 2));
}

}  // namespace
}  // namespace ho::tcp
