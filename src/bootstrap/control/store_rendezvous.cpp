#include "bootstrap/control/store_rendezvous.hpp"

#include <sodium.h>

#include <algorithm>

#include "auth/printable.hpp"
#include "base/log.hpp"
#include "bootstrap/control/join_rendezvous.hpp"
#include "bootstrap/rendezvous/store_value.hpp"

namespace ho {
namespace {

constexpr const char* kRemedy =
    "see whether rank 0 is running (its output), and whether all ranks have the same store and "
    "name";

// A text that may hold a job key, wiped at its end.
class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  ~Secret() { sodium_memzero(text_.data(), text_.size()); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string escaped(const std::string& key) {
  return "key \"" + printable(key, 300) + "\" of the store";
}

Status failed(const char* callback, const std::string& key, const Status& why) {
  return {why.code(),
          std::string(callback) + " of " + escaped(key) + " failed (" + why.message() +
              "); see what the store reports, and whether this host reaches it"};
}

Status set(Store& store, const std::string& key, const StoreValue& value) {
  const Secret text(store_value_text(value));
  const Status status = store.set(key, text.text());
  return status.ok() ? status : failed("set", key, status).with_context("rank 0");
}

// For the ranks that come now or later; rank 0's own error is the one that counts.
void set_failure(Store& store, const std::string& key, const Status& why) {
  if (const Status status = set(store, key, StoreFailure{why.code(), why.message()});
      !status.ok()) {
    log_warn("the other ranks are not told that rank 0 has failed: {}", status.message());
  }
}

Result<KeyedPlane> listen(Store& store,
                          const std::string& store_key,
                          const Rendezvous& rendezvous,
                          Deadline deadline) {
  const Secret secret(JobKey::generate_text());
  HORING_ASSIGN(auto key, JobKey::from_text(secret.text()));
  HORING_ASSIGN(AnyPort opened, listen_on_any_port(*key));
  StoreOffer offer{secret.text(), {rendezvous.job, opened.addresses}};
  const Status offered = set(store, store_key, offer);
  sodium_memzero(offer.secret.data(), offer.secret.size());
  HORING_TRY(offered);
  RendezvousListeners listening;
  listening.listeners.push_back(std::move(opened.listener));
  listening.text = rendezvous.address + " (" + opened.addresses.front().to_string() + ")";
  listening.likely_address = opened.likely_address;
  HORING_ASSIGN(auto plane, open_rendezvous(rendezvous, key, deadline, std::move(listening)));
  return KeyedPlane{std::move(plane), std::move(key)};
}

Result<KeyedPlane> join_as_rank_0(Store& store,
                                  const std::string& key,
                                  const Rendezvous& rendezvous,
                                  Deadline deadline) {
  auto joined = listen(store, key, rendezvous, deadline);
  if (!joined.ok()) {
    set_failure(store, key, joined.status());
    return joined;
  }
  if (const Status status = set(store, key, StoreOver{}); !status.ok()) {
    log_warn("the job key stays in the store: {}", status.message());
  }
  return joined;
}

Result<FoundRankZero> find_rank_0(Store& store, const std::string& key) {
  auto got = store.get(key, kMaxStoreValueBytes);
  if (!got.ok()) {
    return failed("get", key, got.status());
  }
  const Secret text(*std::move(got));
  auto value = parse_store_value(text.text());
  if (!value.ok()) {
    return Status(value.status().code(),
                  "the value " + value.status().message() +
                      "; let nothing else set that key, and all ranks use one version of HO-Ring");
  }
  if (const auto* failure = std::get_if<StoreFailure>(&*value)) {
    return Status(failure->code, "rank 0 has failed: " + failure->text);
  }
  if (std::holds_alternative<StoreOver>(*value)) {
    return FoundRankZero{
        {StatusCode::kConnection,
         "the ranks of an earlier communicator have joined there already, and rank 0 has not come "
         "again; give each communicator a name of its own"},
        {},
        {}};
  }
  auto& offer = std::get<StoreOffer>(*value);
  auto job_key = JobKey::from_text(offer.secret);
  sodium_memzero(offer.secret.data(), offer.secret.size());
  HORING_ASSIGN(auto shared_key, std::move(job_key));
  FoundRankZero found{{}, usable_addresses(offer.rank_0), std::move(shared_key)};
  if (found.addresses.empty()) {
    return Status(StatusCode::kProtocol, "rank 0 has set no usable address");
  }
  return found;
}

Result<KeyedPlane> join_as_other(Store& store,
                                 const std::string& key,
                                 const Rendezvous& rendezvous,
                                 Deadline deadline) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(deadline));
  const Status there = store.wait(key, std::max(ms, std::chrono::milliseconds(1)));
  if (!there.ok()) {
    const Status why =
        there.code() == StatusCode::kTimeout
            ? Status(StatusCode::kTimeout,
                     "rank 0 has not set " + escaped(key) +
                         " before the deadline (of the call, or HORING_CONNECT_TIMEOUT_MS), says "
                         "wait (" +
                         there.message() + "); " + kRemedy)
            : failed("wait", key, there);
    return why.with_context("rank " + std::to_string(rendezvous.rank));
  }
  const RankZeroLookup lookup{rendezvous.address, true, [&] { return find_rank_0(store, key); }};
  return join_rendezvous(rendezvous, lookup, deadline);
}

}  // namespace

std::string store_key_of(const std::string& name) {
  return name + "/rank0";
}

Result<KeyedPlane> join_through_store(Store& store,
                                      const std::string& key,
                                      Rendezvous rendezvous,
                                      Deadline deadline) {
  rendezvous.address = escaped(key);
  rendezvous.remedy = kRemedy;
  HORING_TRY(check_rendezvous(rendezvous));
  return rendezvous.rank == 0 ? join_as_rank_0(store, key, rendezvous, deadline)
                              : join_as_other(store, key, rendezvous, deadline);
}

}  // namespace ho
