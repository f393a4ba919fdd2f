// How ranks find each other through a store, and how that ends where the store, or rank 0, lets
// them down. Deadlines are far away except where a test is about them.
#include "bootstrap/control/store_rendezvous.hpp"

#include <sys/resource.h>

#include <functional>

#include "bootstrap/rendezvous/store_value.hpp"
#include "memory_store.hpp"
#include "planes.hpp"

using namespace ho;
using namespace ho::test;

namespace {

const std::string kKey = "ranks/rank0";

// One rank's way to the store; each call can be made to fail.
class Reached final : public Store {
 public:
  explicit Reached(MemoryStore& store) : store_(store) {}
  Status set_fails, wait_fails, get_fails;

  [[nodiscard]] Status set(const std::string& key, const std::string& value) override {
    if (set_fails.ok()) {
      store_.set(key, value);
    }
    return set_fails;
  }
  [[nodiscard]] Status wait(const std::string& key, std::chrono::milliseconds timeout) override {
    if (!wait_fails.ok()) {
      return wait_fails;
    }
    return store_.wait(key, timeout) ? Status() : Status(StatusCode::kTimeout, "nobody set it");
  }
  [[nodiscard]] Result<std::string> get(const std::string& key, size_t /*max_bytes*/) override {
    if (!get_fails.ok()) {
      return get_fails;
    }
    return store_.get(key).value();
  }

 private:
  MemoryStore& store_;
};

using Joined = Result<KeyedPlane>;

Joined join_job(MemoryStore& store,
                uint32_t rank,
                uint32_t world_size,
                std::chrono::milliseconds time = kFar,
                const std::string& key = kKey) {
  Reached reached(store);
  return join_through_store(reached, key, at("", rank, world_size), deadline_after(time));
}

std::future<Joined> begin(MemoryStore& store,
                          uint32_t rank,
                          uint32_t world_size,
                          std::chrono::milliseconds time = kFar,
                          const std::string& key = kKey) {
  return std::async(std::launch::async, [&store, rank, world_size, time, key] {
    return join_job(store, rank, world_size, time, key);
  });
}

std::vector<Joined> join_all(MemoryStore& store,
                             uint32_t world_size,
                             const std::string& key = kKey) {
  std::vector<std::future<Joined>> pending;
  for (uint32_t rank = world_size; rank > 0; --rank) {
    pending.push_back(begin(store, rank - 1, world_size, kFar, key));
  }
  std::vector<Joined> joined;
  joined.reserve(pending.size());
  for (auto& one : pending) {
    joined.push_back(one.get());
  }
  return joined;
}

bool all_joined(const std::vector<Joined>& joined) {
  return std::all_of(joined.begin(), joined.end(), [&](const Joined& one) {
    UNSCOPED_INFO(one.status().message());
    return one.ok() && (*one).key->authenticated() &&
           (*one).plane->job_id() == (*joined.front()).plane->job_id();
  });
}

Status ended(std::future<Joined>& rank) {
  return rank.get().status();
}

}  // namespace

TEST_CASE("ranks find each other through a store, and the job key does not stay in it") {
  for (const uint32_t world_size : {2U, 5U}) {
    MemoryStore store;
    REQUIRE(all_joined(join_all(store, world_size)));
    CHECK(store.size() == 1);
    CHECK(store.get(kKey) == store_value_text(StoreOver{}));
  }
}

TEST_CASE("two jobs of different names meet at the same time in one store") {
  MemoryStore store;
  auto other =
      std::async(std::launch::async, [&store] { return join_all(store, 3, "others/rank0"); });
  const auto ones = join_all(store, 3);
  const auto others = other.get();
  REQUIRE(all_joined(ones));
  REQUIRE(all_joined(others));
  CHECK((*ones.front()).plane->job_id() != (*others.front()).plane->job_id());
}

TEST_CASE("a name that an earlier job has used is waited at until rank 0 comes again") {
  MemoryStore store;
  REQUIRE(all_joined(join_all(store, 2)));
  auto early = begin(store, 1, 2);
  std::this_thread::sleep_for(50ms);
  CHECK(join_job(store, 0, 2).ok());
  CHECK(ended(early).ok());

  const Status alone = join_job(store, 1, 2, 100ms).status();
  CHECK(alone.code() == StatusCode::kTimeout);
  CHECK(has(alone, "rank 1 at the rendezvous key \"ranks/rank0\" of the store"));
  CHECK(has(alone, "give each communicator a name of its own"));
}

TEST_CASE("a rank that comes after rank 0 has given up hears why at once") {
  MemoryStore store;
  auto second = begin(store, 1, 3, 300ms);
  const Status first = join_job(store, 0, 3, 300ms).status();
  CHECK(first.code() == StatusCode::kTimeout);
  CHECK(ended(second).code() == StatusCode::kTimeout);
  const Status late = join_job(store, 2, 3).status();
  CHECK(late.code() == first.code());
  CHECK(has(late, "rank 2 at the rendezvous key \"ranks/rank0\" of the store"));
  CHECK(has(late, "rank 0 has failed: "));
  CHECK(has(late, first.message()));
}

TEST_CASE("a rank 0 that cannot listen ends the others at once") {
  MemoryStore store;
  auto waiting = begin(store, 1, 2);
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  rlimit none = files;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const Status first = join_job(store, 0, 2).status();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  CHECK(first.code() == StatusCode::kSystem);
  CHECK(has(first, "Too many open files"));
  const Status second = ended(waiting);
  CHECK(second.code() == StatusCode::kSystem);
  CHECK(has(second, "rank 0 has failed: "));
  CHECK(has(second, first.message()));
}

TEST_CASE("a value that rank 0 has not set is refused with the key's name") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "was not written by HO-Ring"},
      {"10.0.0.1:4711", "was not written by HO-Ring"},
      {"horing store 1", "is cut off"},
      {"horing store 2\nover\n", "another version of HO-Ring (format 2, here 1)"},
      {"horing store 1\nwhat\n", "makes no sense: what"},
      {"horing store 1\nerror none\n", "an error without a status"},
      {"horing store 1\nkey sixteen characters\nhoring rendezvous 2\n", "no list of addresses"},
      {store_value_text(StoreOffer{"sixteen characters", {}}), "no usable address"},
      {store_value_text(StoreOffer{"short", {"", {{"127.0.0.1", 1}}}}), "a job key needs 16"},
      {std::string(kMaxStoreValueBytes + 1, 'x'), "is too long: 12289 bytes"}};
  for (const auto& [value, said] : cases) {
    MemoryStore store;
    store.set(kKey, value);
    const Status status = join_job(store, 1, 2).status();
    CHECK(
        (status.code() == StatusCode::kProtocol || status.code() == StatusCode::kInvalidArgument));
    CHECK(has(status, said));
    CHECK(has(status, "rank 1 at the rendezvous key \"ranks/rank0\" of the store"));
  }
}

TEST_CASE("a rank whose rank 0 never comes says for which key it has waited") {
  MemoryStore store;
  const Status status = join_job(store, 1, 2, 50ms).status();
  CHECK(status.code() == StatusCode::kTimeout);
  CHECK(has(status, "rank 1: rank 0 has not set key \"ranks/rank0\" of the store"));
  CHECK(has(status, "whether all ranks have the same store and name"));
}

TEST_CASE("addresses at which nobody listens are tried until the deadline") {
  MemoryStore store;
  const ReservedPort nobody;
  store.set(
      kKey,
      store_value_text(StoreOffer{"sixteen characters", {"", {{"127.0.0.1", nobody.port()}}}}));
  const Status status = join_job(store, 1, 2, 100ms).status();
  CHECK(status.code() == StatusCode::kTimeout);
  CHECK(has(status, "rank 0 was not found before the deadline"));
  CHECK(has(status, "whether all ranks have the same store and name"));
}

TEST_CASE("a callback of the store that fails is named with its key and rank") {
  const Status why(StatusCode::kConnection, "the store is down");
  MemoryStore store;
  Reached reached(store);
  const auto status_of = [&](uint32_t rank) {
    return join_through_store(reached, kKey, at("", rank, 2), deadline_after(kFar)).status();
  };
  const auto check = [&](const Status& status, const std::string& said) {
    CHECK(status.code() == why.code());
    CHECK(has(status,
              said + " of key \"ranks/rank0\" of the store failed (the store is down); see "));
  };
  reached.set_fails = why;
  check(status_of(0), "rank 0: set");
  reached.wait_fails = why;
  check(status_of(1), "rank 1: wait");
  reached.wait_fails = {};
  reached.get_fails = why;
  store.set(kKey, "anything");
  check(status_of(1), "get");
  CHECK(has(status_of(1), "rank 1 at the rendezvous"));
}

TEST_CASE("ranks of different world sizes all hear both sizes at once") {
  MemoryStore store;
  auto first = begin(store, 0, 3);
  auto second = begin(store, 1, 3);
  const Status other = join_job(store, 2, 4).status();
  for (const Status& status : {other, ended(first), ended(second)}) {
    CHECK(status.code() == StatusCode::kMismatch);
    CHECK(has(status, "a world size of 3"));
    CHECK(has(status, "with 4"));
  }
  CHECK(has(other, "key \"ranks/rank0\" of the store"));
}
