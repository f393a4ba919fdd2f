// Ranks start in any order, so whoever comes before rank 0 tries again until the deadline. A
// refusal that rank 0 proved ends the search at once; what may pass does not (nobody listens yet).
//
// With a key, nothing else ends it either: whoever holds the port or writes the file could end all
// ranks by a refusal, a wrong proof or another version. What is not proven is warned about, tried
// again, and at the deadline it is the cause.
//
// Without a key nothing can be proven, and what can only be a mistake ends the search: a rank 0
// that has a key, another program. A rendezvous file may be left over from an earlier job, as a
// store's value may, and its port may by now belong to anybody: there a peer with a key ends the
// search only when the same has been found for a while, and a foreign program does not end it.
#include "bootstrap/rendezvous/rendezvous_connect.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/rendezvous/job_identity.hpp"
#include "connect/connector.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kAttemptTime{5};
// Rank 0 answers at once, unless its process is stopped.
constexpr std::chrono::seconds kSilence{1};
// How long what is old may still be replaced by a rank 0 that has the right key.
constexpr std::chrono::milliseconds kMayChange{1000};

// With a key: who takes the connection in rank 0's place, and says nothing or closes it. That is
// told once, after a second: rank 0 may be starting, or have no descriptors for a moment.
class Unanswered {
 public:
  explicit Unanswered(std::string where) : where_(std::move(where)) {}
  void silent_for_a_second(const SocketAddress& address) { tell(address, "says nothing"); }
  void closed(const SocketAddress& address) {
    if (first_closed_ == Deadline::max()) {
      first_closed_ = Clock::now();
    } else if (Clock::now() - first_closed_ >= kSilence) {
      tell(address, "closed it without a word");
    }
  }

 private:
  void tell(const SocketAddress& address, const char* done) {
    if (!std::exchange(logged_, true)) {
      log_warn(
          "{}: {} has taken the connection and {}; nobody there has proven the job key: this rank "
          "tries again until its deadline",
          where_,
          address.to_string(),
          done);
    }
  }

  std::string where_;
  Deadline first_closed_ = Deadline::max();
  bool logged_ = false;
};

// Sleeps until there is something to do for the connector, at most until then.
Status wait_for(const Connector& connector, Deadline until) {
  pollfd entry = connector.waits_for();
  const auto ns =
      std::chrono::nanoseconds(std::min(connector.next_deadline_ns(), ns_of(until)) - now_ns());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(ns).count();
  if (::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000))) < 0 &&
      errno != EINTR) {
    return system_error("poll", errno);
  }
  return {};
}

// One try. At an address that may not be used without a key it only says who would have come, so
// that rank 0 knows that this rank will not, and hears why not. Only what is not proven
// (kUnauthenticated, kProtocol) and proven refusals keep their code; whatever may pass is
// kConnection or kTimeout. Who takes the connection and does not answer is noted.
Result<RendezvousConnection> attempt(const SocketAddress& address,
                                     const std::shared_ptr<const JobKey>& key,
                                     const wire::RankClaim& own,
                                     Deadline deadline,
                                     Unanswered* unanswered) {
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
  Deadline silent_at = Clock::now() + kSilence;
  while (true) {
    if (passed(silent_at)) {
      silent_at = Deadline::max();
      if (unanswered != nullptr && connector.was_taken()) {
        unanswered->silent_for_a_second(address);
      }
    }
    const Result<std::unique_ptr<Socket>> connected = connector.step(now_ns());
    if (!connected.ok()) {
      const bool closed = connected.status().code() == StatusCode::kConnection;
      if (unanswered != nullptr && closed && connector.was_taken()) {
        unanswered->closed(address);
      }
      return connected.status().with_context(address.to_string());
    }
    if (*connected != nullptr) {
      Fd& fd = (*connected)->fd;
      HORING_TRY(set_no_delay(fd.get()));
      HORING_TRY(set_keep_alive(fd.get()));
      return RendezvousConnection{std::move(fd), key, Clock::now() - began};
    }
    HORING_TRY(wait_for(connector, silent_at));
  }
}

bool is_unproven(const Status& status) {
  return status.code() == StatusCode::kUnauthenticated || status.code() == StatusCode::kProtocol;
}

bool has_secret(const FoundRankZero& rank_0) {
  return rank_0.key != nullptr && rank_0.key->authenticated();
}

// Whether another try may end better.
bool may_pass(const Status& status, bool unproven_may) {
  switch (status.code()) {
    case StatusCode::kConnection:
    case StatusCode::kTimeout:
    case StatusCode::kSystem:
      return true;
    default:
      return unproven_may && is_unproven(status);
  }
}

// Another job may have its rendezvous there now, or have left the file: ours comes when that one is
// through.
Status check_same_job(const std::string& path, const RendezvousFile& file, const std::string& job) {
  const JobComparison jobs = compare_jobs(file.job, job);
  return jobs.difference.empty() ? Status()
                                 : Status(StatusCode::kConnection,
                                          path + " is another job's (" + jobs.difference +
                                              "); give each job a file of its own");
}

Result<std::vector<SocketAddress>> addresses_of(const RendezvousEndpoint& endpoint,
                                                const JobKey& key,
                                                const std::string& job) {
  if (endpoint.path.empty()) {
    return resolve(endpoint.tcp.host, endpoint.tcp.port);
  }
  HORING_TRY(key.authenticated() ? check_rendezvous_owner(endpoint.path) : Status());
  const auto contents = read_rendezvous_file(endpoint.path);
  const auto listed =
      contents.ok() ? parse_rendezvous_file(*contents) : Result<RendezvousFile>(contents.status());
  if (!listed.ok()) {
    HORING_TRY(check_rendezvous_file(endpoint.path));
    return Status(StatusCode::kConnection,
                  (contents.ok() ? endpoint.path + ": " : "") + listed.status().message());
  }
  HORING_TRY(check_same_job(endpoint.path, *listed, job));
  std::vector<SocketAddress> addresses = usable_addresses(*listed);
  if (addresses.empty()) {
    return Status(StatusCode::kConnection, endpoint.path + " lists no usable address");
  }
  return addresses;
}

// Tries each address once, those that may not be used without a key only to be refused there.
Result<RendezvousConnection> try_all(const FoundRankZero& rank_0,
                                     const wire::RankClaim& own,
                                     Deadline deadline,
                                     bool unproven_may_pass,
                                     Unanswered* unanswered) {
  if (!rank_0.not_yet.ok()) {
    return rank_0.not_yet;
  }
  Status last(StatusCode::kConnection, "no address to try");
  for (const bool allowed : {true, false}) {
    for (const SocketAddress& address : rank_0.addresses) {
      if (rank_0.key->allows_address(address.host()).ok() != allowed) {
        continue;
      }
      auto found = attempt(address, rank_0.key, own, deadline, unanswered);
      if (found.ok() || !may_pass(found.status(), unproven_may_pass)) {
        return found;
      }
      // That the keys differ says more than that nobody listens at another address.
      last = is_unproven(last) ? last : found.status();
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

// Without a key: whether it is certain that rank 0 has one.
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

void note_key_trouble(const FoundRankZero& rank_0, const Status& found, KeyTrouble& trouble) {
  const Status barred = rank_0.not_yet.ok() ? permitted(rank_0.addresses, *rank_0.key) : Status();
  const bool refused = found.code() == StatusCode::kUnauthenticated;
  trouble.note(barred.ok() || refused ? found : barred, list_of(rank_0.addresses));
}

std::string to_string(const RendezvousEndpoint& endpoint) {
  return endpoint.path.empty() ? "tcp://" + endpoint.tcp.to_string() : "file://" + endpoint.path;
}

constexpr const char* kUsualRemedy =
    "see whether rank 0 is running (its output), and whether HORING_RENDEZVOUS (or MASTER_ADDR and "
    "MASTER_PORT) is right on this host";

Status not_found(const std::string& where,
                 const Status& first_unproven,
                 const Status& last,
                 const std::string& remedy) {
  const Status& cause = first_unproven.ok() ? last : first_unproven;
  const bool same = cause.message() == last.message();
  return {is_unproven(cause) ? cause.code() : StatusCode::kTimeout,
          where + ": rank 0 was not found before the deadline; " +
              (same ? "" : "first: " + cause.message() + "; ") + "last: " + last.message() + "; " +
              (remedy.empty() ? std::string(kUsualRemedy) : remedy)};
}

// With a key: what was found first in the place of rank 0. That is told once, at once.
void note_unproven(const std::string& where, const Status& found, Status& first) {
  if (first.ok() && is_unproven(found)) {
    first = found;
    log_warn(
        "{}: {}; nobody there has proven the job key: this rank tries again until its deadline",
        where,
        found.message());
  }
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

RankZeroLookup lookup_at(const RendezvousEndpoint& endpoint,
                         std::shared_ptr<const JobKey> key,
                         const std::string& job) {
  return {to_string(endpoint),
          !endpoint.path.empty(),
          [&endpoint, job, key = std::move(key)]() -> Result<FoundRankZero> {
            auto addresses = addresses_of(endpoint, *key, job);
            if (addresses.ok()) {
              return FoundRankZero{{}, *std::move(addresses), key};
            }
            if (may_pass(addresses.status(), !endpoint.path.empty())) {
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
  Status first_unproven;
  Unanswered unanswered(where);
  std::chrono::milliseconds pause(5);
  constexpr std::chrono::milliseconds kLongestPause(200);
  while (true) {
    const auto rank_0 = lookup.find();
    if (!rank_0.ok()) {
      return rank_0.status().with_context(where);
    }
    const bool unproven_may_pass = lookup.may_be_old || has_secret(*rank_0);
    auto found = try_all(
        *rank_0, own, deadline, unproven_may_pass, has_secret(*rank_0) ? &unanswered : nullptr);
    if (found.ok()) {
      return found;
    }
    if (!may_pass(found.status(), unproven_may_pass)) {
      return found.status().with_context(where);
    }
    if (has_secret(*rank_0)) {
      note_unproven(where, found.status(), first_unproven);
    } else {
      note_key_trouble(*rank_0, found.status(), key_trouble);
    }
    if (const Status certain = key_trouble.certain(); !certain.ok()) {
      return certain.with_context(where);
    }
    if (deadline <= Clock::now() + pause) {
      return not_found(where, first_unproven, found.status(), remedy);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace ho
