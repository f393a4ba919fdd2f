// Two ranks in one thread that send to each other, each behind a relay that cuts and silences what
// goes through it; and what each of them must find of the other.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "catch.hpp"
#include "conformance.hpp"
#include "has.hpp"
#include "relay.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance::cut {

using Sizes = std::vector<size_t>;
inline const std::vector<std::string> kHosts{"127.0.0.1", "127.0.0.2"};

struct Setting {
  std::vector<std::string> hosts = kHosts;
  uint32_t connections_per_link = 1;
  uint32_t max_connections = 256;
  bool believes_kernel = true;  // else only counts say what has arrived
  std::chrono::milliseconds timeout{60000};
  uint64_t copied_bytes = uint64_t{16} << 20;
  std::chrono::milliseconds silence{1000};
  std::chrono::milliseconds answer{200};
  std::chrono::nanoseconds lend = std::chrono::microseconds(100);
};

// One end of a conversation.
class End {
 public:
  // `first`: how its peer counts the first message.
  End(Link& link, uint64_t seed, const Sizes& sizes, size_t first = 0)
      : link_(link), first_(first), released_before_(link.released()) {
    for (size_t k = 0; k < sizes.size(); ++k) {
      payloads_.push_back(pattern(seed + k, sizes[k]));
    }
  }

  // Sends what it can, and spoils what was given back.
  [[nodiscard]] Status send() {
    for (; sent_ < payloads_.size(); ++sent_) {
      const ConstBytes part(payloads_[sent_]);
      const Frame frame = frame_of(static_cast<uint32_t>(first_ + sent_), part.size());
      HORING_ASSIGN(const bool accepted, link_.try_send(frame, std::span(&part, 1)));
      if (!accepted) {
        break;
      }
    }
    HORING_TRY(link_.went_wrong());
    const uint64_t released = link_.released() - released_before_;
    if (released > sent_) {
      return {StatusCode::kInternal, "more is released than was sent"};
    }
    for (; spoilt_ < released; ++spoilt_) {
      std::ranges::fill(payloads_[spoilt_], std::byte{0xEE});
    }
    return {};
  }
  // Of the other end, which has that seed and counts its first message so.
  [[nodiscard]] Status receive(uint64_t seed, const Sizes& sizes, size_t first = 0) {
    while (received_ < sizes.size()) {
      const Frame frame = frame_of(static_cast<uint32_t>(first + received_), sizes[received_]);
      into_.resize(sizes[received_]);
      const Bytes part(into_);
      HORING_ASSIGN(const bool came, link_.try_recv(frame, std::span(&part, 1)));
      if (!came) {
        return {};
      }
      HORING_TRY(check_pattern(seed + received_, into_));
      ++received_;
      into_.clear();
    }
    return {};
  }
  [[nodiscard]] bool through() const { return spoilt_ == payloads_.size(); }
  [[nodiscard]] size_t received() const { return received_; }
  [[nodiscard]] Link& link() const { return link_; }

 private:
  Link& link_;
  size_t first_;
  uint64_t released_before_;
  std::vector<std::vector<std::byte>> payloads_;
  size_t sent_ = 0;
  size_t spoilt_ = 0;
  size_t received_ = 0;
  std::vector<std::byte> into_;
};

// Rails may share an address.
inline std::vector<std::string> distinct(std::vector<std::string> hosts) {
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

// Two ranks in one thread, each behind a relay.
class Ranks {
 public:
  Ranks(const Setting& setting, const Relay::Script& script) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      TcpCase config;
      config.connections_per_link = setting.connections_per_link;
      config.max_connections = setting.max_connections;
      TcpOptions options = options_of(config, GlobalRank(rank), 2);
      options.rails.clear();
      for (const std::string& host : setting.hosts) {
        options.rails.push_back({"", host});
      }
      options.failover.on = true;
      options.failover.timeout = setting.timeout;
      options.failover.copied_bytes = setting.copied_bytes;
      options.failover.silence = setting.silence;
      options.failover.answer = setting.answer;
      options.failover.lend = setting.lend;
      options.count_unacknowledged =
          [this, believes = setting.believes_kernel](int fd) -> std::optional<uint64_t> {
        return believes ? count(fd) : std::nullopt;
      };
      options.look = [this, rank](int fd) { return look(rank, fd); };
      options.progress = [this](int /*fd*/) { return progress_; };
      options.interface_trouble = [this, rank](const RailInterface& rail) {
        return rank == without_carrier_ && rail.address == kHosts[0] ? "no carrier" : "";
      };
      auto transport = TcpTransport::listen(options);
      REQUIRE(transport.ok());
      transports_.at(rank) = *std::move(transport);
      relays_.at(rank) = std::make_unique<Relay>(
          distinct(setting.hosts), transports_.at(rank)->endpoint().port, script);
    }
    std::vector<TcpEndpoint> peers;
    for (const auto& relay : relays_) {
      peers.push_back({setting.hosts, relay->port()});
    }
    for (const auto& transport : transports_) {
      transport->set_peers(peers);
    }
  }

  [[nodiscard]] TcpTransport& at(uint32_t rank) const { return *transports_.at(rank); }
  void end(uint32_t rank) { transports_.at(rank).reset(); }
  // In front of that rank.
  [[nodiscard]] Relay& relay(uint32_t rank) const { return *relays_.at(rank); }
  [[nodiscard]] Link& link(uint32_t rank, uint32_t rail = 0) const {
    auto made = at(rank).link({GlobalRank(1 - rank), RailIndex(rail), 0, 0});
    REQUIRE(made.ok());
    return **made;
  }
  void turn() const {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      if (transports_.at(rank) != nullptr && rank != computing_) {
        const Status status = transports_.at(rank)->progress();
        if (!status.ok()) {
          FAIL("rank " << rank << ": " << status.message());
        }
      }
      relays_.at(rank)->step();
    }
  }
  void drive_until(const std::function<bool()>& done) const {
    for (const Deadline limit = deadline_after(kHang); !done();) {
      if (passed(limit)) {
        FAIL("it hangs: " << link(0).to_string() << "; " << link(1).to_string());
      }
      turn();
    }
  }

  // What the kernels say of each connection; nothing: they do not.
  void progress(const std::optional<TcpProgress>& progress) { progress_ = progress; }
  // Whose thread is elsewhere from now on.
  void compute(uint32_t rank) { computing_ = rank; }
  // Whose kernel says nothing of a silence.
  void unaware(uint32_t rank) { unaware_ = rank; }
  // Whose kernel says that its first rail is down.
  void without_carrier(uint32_t rank) { without_carrier_ = rank; }
  // Nothing passes over those rails, and the kernels get no answer.
  void silence(const std::vector<std::string>& hosts) const {
    for (const auto& relay : relays_) {
      relay->block(hosts);
    }
  }

 private:
  [[nodiscard]] std::optional<tcp_info> look(uint32_t rank, int fd) const {
    const auto own = local_address(fd);
    tcp_info details{};
    if (own.ok() && relays_[0]->blocks(own->host()) && rank != unaware_) {
      details.tcpi_retransmits = 3;
      details.tcpi_last_ack_recv = 5'000;
    }
    return details;
  }
  [[nodiscard]] std::optional<uint64_t> count(int fd) const {
    for (const auto& relay : relays_) {
      if (relay != nullptr) {
        if (const auto bytes = relay->count_unacknowledged(fd)) {
          return bytes;
        }
      }
    }
    return std::nullopt;
  }

  uint32_t computing_ = 2;
  uint32_t unaware_ = 2;
  uint32_t without_carrier_ = 2;
  std::optional<TcpProgress> progress_;
  std::array<std::unique_ptr<Relay>, 2> relays_;
  std::array<std::unique_ptr<TcpTransport>, 2> transports_;
};

// Both send all of `sizes` to each other, and look for what has come only once in `look_every`
// turns.
inline void converse(const Ranks& ranks,
                     const Sizes& sizes,
                     uint32_t rail = 0,
                     uint32_t look_every = 1) {
  constexpr std::array<uint64_t, 2> kSeeds{1000, 2000};
  std::array<End, 2> ends{End(ranks.link(0, rail), kSeeds[0], sizes),
                          End(ranks.link(1, rail), kSeeds[1], sizes)};
  uint32_t turns = 0;
  const auto step = [&](uint32_t rank) {
    Status status = ends.at(rank).send();
    if (status.ok() && turns % look_every == 0) {
      status = ends.at(rank).receive(kSeeds.at(1 - rank), sizes);
    }
    if (!status.ok()) {
      FAIL("rank " << rank << ": " << status.message());
    }
  };
  ranks.drive_until([&] {
    step(0);
    step(1);
    ++turns;
    return ends[0].received() == sizes.size() && ends[1].received() == sizes.size() &&
           ends[0].through() && ends[1].through();
  });
  for (const End& end : ends) {  // nothing comes twice
    const auto more = end.link().try_peek(false);
    REQUIRE(more.ok());
    CHECK_FALSE(more->has_value());
  }
}

inline Relay::Cut uncut(size_t /*n*/) {
  return {};
}

inline const Sizes kSmall{0, 1, 40, 8, 300};

}  // namespace ho::conformance::cut
