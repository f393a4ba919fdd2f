#include <array>
#include <cstring>
#include <new>
#include <set>
#include <string>

#include "catch.hpp"
#include "has.hpp"
#include "nccl/loader.hpp"

namespace ho::nccl {
namespace {

std::string fake(const std::string& name) {
  return std::string(HORING_FAKE_NCCLS) + "/fake_nccl_" + name + ".so";
}

}  // namespace

TEST_CASE("An NCCL that has every call fills the whole table") {
  const auto loaded = load(fake("whole"));
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  const Nccl& table = loaded.value()->table;
  CHECK(loaded.value()->version == 22809);
  // The table is function pointers and nothing else: none may be null.
  const auto* const first = reinterpret_cast<const char*>(&table);
  for (size_t slot = 0; slot < sizeof table; slot += sizeof(void*)) {
    void* address = nullptr;
    std::memcpy(&address, first + slot, sizeof address);
    INFO("slot " << slot / sizeof(void*));
    CHECK(address != nullptr);
  }
  CHECK(nccl_calls().size() == sizeof table / sizeof(void*));
}

TEST_CASE("No byte of a configuration is left as the memory had it") {
  alignas(Config) std::array<char, sizeof(Config)> memory{};
  memory.fill('\xa5');
  ::new (static_cast<void*>(memory.data())) Config;
  int last = 0;  // trafficClass since 2.26
  std::memcpy(&last, memory.data() + 44, sizeof last);
  CHECK(last == kUndefined);
}

TEST_CASE("No call of NCCL is listed twice") {
  std::set<std::string> symbols;
  for (const NcclCall& call : nccl_calls()) {
    CHECK(symbols.insert(call.symbol).second);
  }
}

TEST_CASE("An NCCL that is too old is named with the least version") {
  const Status status = load(fake("too_old")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "NCCL 2.25.5 of "));
  CHECK(has(status, "fake_nccl_too_old.so is too old: its collectives take 2.26.2 or newer"));
  CHECK(has(status, "; install NCCL 2.26.2 or newer, name its file in PARO_NCCL_LIBRARY"));
}

TEST_CASE("A call that an NCCL lacks is named") {
  const Status status = load(fake("lacks_a_call")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "fake_nccl_lacks_a_call.so has no call ncclCommFinalize; install"));
}

TEST_CASE("Without an NCCL the error says what to do in one line") {
  const Status status = load(fake("that_is_not_there")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "no NCCL: "));
  CHECK(has(status, "or keep states on the host"));
  CHECK(status.message().find('\n') == std::string::npos);
}

TEST_CASE("A library that is no NCCL is told from one") {
  for (const std::string& file : {std::string("libm.so.6"), fake("says_no_version")}) {
    const Status status = load(file).status();
    CHECK(status.code() == StatusCode::kUnsupported);
    CHECK(has(status, file + " is no NCCL"));
  }
}

// Where the loader finds libnccl.so.2, it has every call of the table.
TEST_CASE("The installed NCCL is loaded once or refused each time") {
  const auto first = installed();
  const auto second = installed();
  REQUIRE(first.ok() == second.ok());
  if (first.ok()) {
    CHECK(*first == *second);
    int version = 0;
    CHECK((*first)->get_version(&version) == kSuccess);
    CHECK(version >= kMinVersion);
    CHECK(std::string((*first)->error_text(kInvalidUsage)).size() > 1);
  } else {
    CHECK(first.status().code() == StatusCode::kUnsupported);
    CHECK(first.status().message() == second.status().message());
  }
}

TEST_CASE("Versions of NCCL are written as its releases are") {
  CHECK(version_text(22005) == "2.20.5");
  CHECK(version_text(23203) == "2.32.3");
  CHECK(version_text(2804) == "2.8.4");
}

TEST_CASE("A result of NCCL becomes a status that says what to do next") {
  Nccl table;
  table.error_text = [](ResultCode) -> const char* { return "remote process exited"; };
  table.last_error = [](CommHandle) -> const char* { return "socket closed"; };
  const Status remote = error(table, "ncclAllReduce", kRemoteError, nullptr);
  CHECK(remote.code() == StatusCode::kPeerLost);
  CHECK(remote.message() ==
        "ncclAllReduce: remote process exited (last error here: socket closed); another rank has "
        "failed or its network is down: look at its log first");
  const Nccl silent;
  CHECK(error(silent, "ncclAllReduce", kSuccess, nullptr).ok());
  CHECK(error(silent, "ncclAllGather", kInvalidUsage, nullptr).code() ==
        StatusCode::kInvalidArgument);
  CHECK(error(silent, "ncclAllGather", kInternalError, nullptr).message() ==
        "ncclAllGather: NCCL error 3");
}

}  // namespace ho::nccl
