// Ranks start in any order, so whoever comes before rank 0 tries again until the deadline. What can
// only be a mistake ends the search at once (another key, a refusal that rank 0 signed); what may
// pass does not (nobody listens yet). A rendezvous file may be left over from an earlier job, as a
// store's value may, and its port may by now belong to anybody: there a peer of another key ends
// the search only when the same has been found for a while, and a foreign program does not end it.
#include "bootstrap/rendezvous_connect.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "bootstrap/job_identity.hpp"
#include "connect/connector.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kAttemptTime{5};
// How long what is old may still be replaced by a rank 0 that has the right key.
constexpr std::chrono::milliseconds kMayChange{1000};

// Sleeps until there is something to do for the connector.
Status wait_for(const Connector& connector) {
  pollfd entry = connector.waits_for();
  const auto ns = std::chrono::nanoseconds(connector.next_deadline_ns() - now_ns());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(ns).count();
  if (::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000))) < 0 &&
      errno != EINTR) {
    return system_error("poll", errno);
  }
  return {};
}

// One try. At an address that may not be used without a key it only says who would have come, so
// that rank 0 knows that this rank will not, and hears why not. Only errors of the key and signed
// refusals keep their code; whatever may pass is kConnection or kTimeout.
Result<RendezvousConnection> attempt(const SocketAddress& address,
                                     const std::shared_ptr<const JobKey>& key,
                                     const wire::RankClaim& own,
                                     Deadline deadline) {
  Deadline began;
  Connector::Options options;
  options.name = "rendezvous";
  options.to = address;
  options.purpose = "control";
  options.key = key;
  options.claim = [&] {
    began = Clock::now();
    wire::RankClaim claim = own;
    claim.timeout_ms = static_cast<uint32_t>(std::min<int64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline)).count(), UINT32_MAX));
    return wire::encode(claim);
  };
  options.deadline_ns = ns_of(std::min(deadline, Clock::now() + kAttemptTime));
  options.once = true;
  options.asks_where_barred = true;
  Connector connector(std::move(options));
  while (true) {
    const Result<std::unique_ptr<Socket>> connected = connector.step(now_ns());
    if (!connected.ok()) {
      return connected.status().with_context(address.to_string());
    }
    if (*connected != nullptr) {
      Fd& fd = (*connected)->fd;
      HORING_TRY(set_no_delay(fd.get()));
      HORING_TRY(set_keep_alive(fd.get()));
      return RendezvousConnection{std::move(fd), key, Clock::now() - began};
    }
    HORING_TRY(wait_for(connector));
  }
}

// Whether another try may end better.
bool may_pass(const Status& status, bool may_be_old) {
  switch (status.code()) {
    case StatusCode::kConnection:
    case StatusCode::kTimeout:
    case StatusCode::kSystem:
      return true;
    case StatusCode::kUnauthenticated:
    case StatusCode::kProtocol:
      return may_be_old;
    default:
      return false;
  }
}

// Another job may meet there now, or have left the file: ours comes when that one is through.
Status check_same_job(const std::string& path, const RendezvousFile& file, const std::string& job) {
  const JobComparison jobs = compare_jobs(file.job, job);
  return jobs.difference.empty() ? Status()
                                 : Status(StatusCode::kConnection,
                                          path + " is another job's (" + jobs.difference +
                                              "); give each job a file of its own");
}

Result<std::vector<SocketAddress>> addresses_of(const RendezvousEndpoint& place,
                                                const std::string& job) {
  if (place.path.empty()) {
    return resolve(place.tcp.host, place.tcp.port);
  }
  const auto contents = read_rendezvous_file(place.path);
  const auto listed =
      contents.ok() ? parse_rendezvous_file(*contents) : Result<RendezvousFile>(contents.status());
  if (!listed.ok()) {
    HORING_TRY(check_rendezvous_file(place.path));
    return Status(StatusCode::kConnection,
                  (contents.ok() ? place.path + ": " : "") + listed.status().message());
  }
  HORING_TRY(check_same_job(place.path, *listed, job));
  std::vector<SocketAddress> addresses = usable_addresses(*listed);
  if (addresses.empty()) {
    return Status(StatusCode::kConnection, place.path + " lists no usable address");
  }
  return addresses;
}

// Tries each address once, those that may not be used without a key only to be refused there.
Result<RendezvousConnection> try_all(const FoundRankZero& rank_0,
                                     const wire::RankClaim& own,
                                     Deadline deadline,
                                     bool may_be_old) {
  if (!rank_0.not_yet.ok()) {
    return rank_0.not_yet;
  }
  Status last(StatusCode::kConnection, "no address to try");
  for (const bool allowed : {true, false}) {
    for (const SocketAddress& address : rank_0.addresses) {
      if (rank_0.key->allows_address(address.host()).ok() != allowed) {
        continue;
      }
      auto found = attempt(address, rank_0.key, own, deadline);
      if (found.ok() || !may_pass(found.status(), may_be_old)) {
        return found;
      }
      // That the keys differ says more than that nobody listens at another address.
      last = last.code() == StatusCode::kUnauthenticated ? last : found.status();
    }
  }
  return last;
}

// Not ok: the key, or that there is none, permits none of the addresses.
Status permitted(const std::vector<SocketAddress>& addresses, const JobKey& key) {
  Status all_barred;
  for (const SocketAddress& address : addresses) {
    all_barred = key.allows_address(address.host());
    if (all_barred.ok()) {
      return {};
    }
  }
  return all_barred;
}

std::string list_of(const std::vector<SocketAddress>& addresses) {
  std::string list;
  for (const SocketAddress& address : addresses) {
    list += address.to_string() + ' ';
  }
  return list;
}

// Whether it is certain that rank 0 has another key, or none, or wants one.
class KeyTrouble {
 public:
  // What came of one more look that found these addresses (nothing: there are none now).
  void note(const Status& status, const std::string& addresses) {
    const bool refused = status.code() == StatusCode::kUnauthenticated;
    if (!addresses.empty() && addresses != addresses_) {
      why_ = Status();
      addresses_ = addresses;
    }
    if (refused && why_.ok()) {
      why_ = status;
      certain_at_ = deadline_after(kMayChange);
    }
  }
  // Stays so when rank 0 gives up, which removes its file.
  [[nodiscard]] Status certain() const {
    return !why_.ok() && passed(certain_at_) ? why_ : Status();
  }

 private:
  std::string addresses_;
  Status why_;
  Deadline certain_at_;
};

std::string text_of(const RendezvousEndpoint& place) {
  return place.path.empty() ? "tcp://" + place.tcp.to_string() : "file://" + place.path;
}

constexpr const char* kUsualRemedy =
    "see whether rank 0 is running (its output), and whether HORING_RENDEZVOUS (or MASTER_ADDR and "
    "MASTER_PORT) is right on this host";

Status not_found(const std::string& where, const Status& last, const std::string& remedy) {
  const bool refused = last.code() == StatusCode::kUnauthenticated;
  return {refused ? StatusCode::kUnauthenticated : StatusCode::kTimeout,
          where + ": rank 0 was not found before the deadline; last: " + last.message() + "; " +
              (remedy.empty() ? std::string(kUsualRemedy) : remedy)};
}

}  // namespace

std::vector<SocketAddress> usable_addresses(const RendezvousFile& listed) {
  std::vector<SocketAddress> addresses;
  for (const HostPort& entry : listed.addresses) {
    if (const auto address = SocketAddress::numeric(entry.host, entry.port); address.ok()) {
      addresses.push_back(*address);
    }
  }
  return addresses;
}

RankZeroLookup lookup_at(const RendezvousEndpoint& place,
                         std::shared_ptr<const JobKey> key,
                         const std::string& job) {
  return {text_of(place),
          !place.path.empty(),
          [&place, job, key = std::move(key)]() -> Result<FoundRankZero> {
            auto addresses = addresses_of(place, job);
            if (addresses.ok()) {
              return FoundRankZero{{}, *std::move(addresses), key};
            }
            if (may_pass(addresses.status(), !place.path.empty())) {
              return FoundRankZero{addresses.status(), {}, key};
            }
            return addresses.status();
          }};
}

Result<RendezvousConnection> connect_rendezvous(const RankZeroLookup& lookup,
                                                const wire::RankClaim& own,
                                                const std::string& remedy,
                                                Deadline deadline) {
  const std::string where = "rank " + std::to_string(own.rank) + " at the rendezvous " +
                            lookup.text + ", whose server is rank 0";
  KeyTrouble key_trouble;
  std::chrono::milliseconds pause(5);
  constexpr std::chrono::milliseconds kLongestPause(200);
  while (true) {
    const auto rank_0 = lookup.find();
    if (!rank_0.ok()) {
      return rank_0.status().with_context(where);
    }
    auto found = try_all(*rank_0, own, deadline, lookup.may_be_old);
    if (found.ok()) {
      return found;
    }
    if (!may_pass(found.status(), lookup.may_be_old)) {
      return found.status().with_context(where);
    }
    const Status barred =
        rank_0->not_yet.ok() ? permitted(rank_0->addresses, *rank_0->key) : Status();
    key_trouble.note(barred.ok() || found.status().code() == StatusCode::kUnauthenticated
                         ? found.status()
                         : barred,
                     list_of(rank_0->addresses));
    if (const Status certain = key_trouble.certain(); !certain.ok()) {
      return certain.with_context(where);
    }
    if (deadline <= Clock::now() + pause) {
      return not_found(where, found.status(), remedy);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace ho
