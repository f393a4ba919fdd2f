// A rail that goes down while a connection is open, as the kernel would tell it.
#include <array>

#include "catch.hpp"
#include "conformance.hpp"
#include "has.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance {
namespace {

TEST_CASE("tcp: a link whose data the peer's kernel leaves unanswered fails, and says so") {
  std::array<std::unique_ptr<TcpTransport>, 2> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    TcpOptions options = options_of({}, GlobalRank(rank), 2);
    if (rank == 0) {
      options.look = [](int) {
        tcp_info details{};
        details.tcpi_retransmits = 5;
        details.tcpi_last_ack_recv = 11'000;
        return std::optional(details);
      };
    }
    auto transport = TcpTransport::listen(options);
    REQUIRE(transport.ok());
    ranks.at(rank) = *std::move(transport);
  }
  std::array<Link*, 2> links{};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.at(rank)->set_peers({ranks[0]->endpoint(), ranks[1]->endpoint()});
    const auto link = ranks.at(rank)->link({GlobalRank(1 - rank), RailIndex(0), 0, 0});
    REQUIRE(link.ok());
    links.at(rank) = *link;
  }
  std::vector<std::byte> bytes(8);
  const Bytes part(bytes);
  Status failed;
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  while (failed.ok() && !passed(limit)) {
    REQUIRE(ranks[0]->progress().ok());
    REQUIRE(ranks[1]->progress().ok());
    failed = links[0]->try_recv(frame_of(0, bytes.size()), std::span(&part, 1)).status();
  }
  CHECK(failed.code() == StatusCode::kConnection);
  CHECK(has(failed, "the rail is down: data sent has been unanswered for 11 s"));
  CHECK(has(links[0]->to_string(), "failed"));
}

}  // namespace
}  // namespace ho::conformance
