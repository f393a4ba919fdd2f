// One suite for every network driver: two ends in two threads, real connections, every byte
// checked. Errors come back as text, since Catch's assertions belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "os/clock.hpp"

namespace ho::plugin::conformance {

struct NetUnderTest {
  // A driver with at least one device whose listeners can be reached from this process.
  std::function<std::unique_ptr<NetDriver>()> make;
  uint32_t most_receives = 8;  // of a group
  size_t most_requests = 32;   // of a comm
  bool takes_both = false;     // an end gets further only while the other one makes progress too
  bool reports_too_long = true;
  bool reports_lost_peer = true;
  bool tells_connections = true;  // connections()
};

class End;

// Both ends of a connection. Closed by close() or the destructor.
struct Pair {
  NetDriver* net = nullptr;
  NetDriver::Opening opening;
  int32_t connecting_device = 0;            // the listening one is 0
  int32_t traffic_class = kNoTrafficClass;  // of the connection
  bool takes_both = false;
  void* context = nullptr;
  void* send = nullptr;
  void* receive = nullptr;

  explicit Pair(NetDriver& driver) : net(&driver) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() { close(); }
  [[nodiscard]] Status connect();
  void close();
  // For one thread that drives both.
  [[nodiscard]] End sender() const;
  [[nodiscard]] End receiver() const;
};

struct Part {
  std::byte* data = nullptr;
  size_t bytes = 0;
  int32_t tag = 0;
};

// One end. Each call waits, polling, until its deadline.
class End {
 public:
  // other: the other end, which makes progress while this one waits; it may become null.
  End(NetDriver& net, void* comm, void* const* other = nullptr)
      : net_(&net), comm_(comm), other_(other) {}
  // The request, once the call no longer says "again".
  [[nodiscard]] Result<void*> send(const std::byte* data, size_t bytes, int32_t tag);
  [[nodiscard]] Result<void*> receive(const std::vector<Part>& parts);
  // One call: null for "again".
  [[nodiscard]] Result<void*> try_send(const std::byte* data, size_t bytes, int32_t tag);
  [[nodiscard]] Result<void*> try_receive(const std::vector<Part>& parts);
  // Sizes of a request of `count` messages, once it is done.
  [[nodiscard]] Result<std::vector<size_t>> finish(void* request, size_t count = 1);
  [[nodiscard]] Result<bool> test(void* request);

 private:
  void pause() const;

  NetDriver* net_;
  void* comm_;
  void* const* other_;
};

[[nodiscard]] Status as_status(Reply reply, const char* call);
// "" when both went well.
[[nodiscard]] std::string run_both(const std::function<Status()>& one,
                                   const std::function<Status()>& other);
// Sanitizers take ten times as long.
[[nodiscard]] uint64_t scaled(uint64_t count);

[[nodiscard]] std::vector<std::byte> pattern(uint64_t seed, size_t byte_count);
[[nodiscard]] Status check_pattern(uint64_t seed, const std::byte* data, size_t byte_count);

// The suite; call from a TEST_CASE. Each check is a SECTION.
void run_suite(const NetUnderTest& under_test);

}  // namespace ho::plugin::conformance
