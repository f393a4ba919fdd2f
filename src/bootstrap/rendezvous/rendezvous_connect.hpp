// The first contact: rank 0 listens, the others connect.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"

namespace ho {

// What rank 0 listens on. Nothing to listen on in a world of 1.
struct RendezvousListeners {
  std::vector<Fd> listeners;
  std::string text;            // where it is, for messages
  std::string likely_address;  // numeric, where others are likely to reach this rank
  // Removes the rendezvous file, if it is still ours. Until then no other rank 0 can take it.
  std::function<void()> take_down;
};
// job: of the rank, for the file.
[[nodiscard]] Result<RendezvousListeners> listen_for_rendezvous(const RendezvousEndpoint& endpoint,
                                                                const JobKey& key,
                                                                const std::string& job);

// Any port, on every interface.
struct AnyPort {
  Fd listener;
  std::vector<HostPort> addresses;  // also those that may not be used without a key
  std::string likely_address;       // numeric, of the first that the key allows
};
[[nodiscard]] Result<AnyPort> listen_on_any_port(const JobKey& key);

// The contents of a rendezvous file; kConnection where there is none, or not yet.
[[nodiscard]] Result<std::string> read_rendezvous_file(const std::string& path);
// Whether a rendezvous file is there, or may be made there: not ok for everything else that
// somebody keeps under that name, which is left alone.
[[nodiscard]] Status check_rendezvous_file(const std::string& path);

// Not ok: it belongs to a user who is none of this job's ranks.
[[nodiscard]] Status check_rendezvous_owner(const std::string& path);

// What a look-up of rank 0 finds.
struct FoundRankZero {
  Status not_yet;  // not ok: there is nothing to try yet, and why
  std::vector<SocketAddress> addresses;
  std::shared_ptr<const JobKey> key;  // to be proven there
};
struct RankZeroLookup {
  std::string text;  // what is looked at, for messages
  // What is found may be left over from another job. So without a key, strangers at its addresses
  // do not end the search, a peer with a key only where nothing else is found for a while.
  bool may_be_old = false;
  // Before each try, in the calling thread. An error ends the search.
  std::function<Result<FoundRankZero>()> find;
};
// job: of the rank. `endpoint` must outlive the result.
[[nodiscard]] RankZeroLookup lookup_at(const RendezvousEndpoint& endpoint,
                                       std::shared_ptr<const JobKey> key,
                                       const std::string& job);

// Rank 0 lists numeric addresses; the resolver is not asked on behalf of a file or a store.
[[nodiscard]] std::vector<SocketAddress> usable_addresses(const RendezvousFile& listed);

// A connection to rank 0 whose handshake is done.
struct RendezvousConnection {
  Fd fd;
  std::shared_ptr<const JobKey> key;  // that was proven
  // Rank 0 counts this rank's time from the handshake's end at the latest: so much later than this
  // rank it may see the deadline pass.
  std::chrono::nanoseconds rank_0_later{0};
};
// Or an error that says what was tried last and the remedy (Rendezvous's).
[[nodiscard]] Result<RendezvousConnection> connect_rendezvous(const RankZeroLookup& lookup,
                                                              const wire::RankClaim& own,
                                                              const std::string& remedy,
                                                              Deadline deadline);

}  // namespace ho
