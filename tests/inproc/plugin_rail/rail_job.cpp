#include "rail_job.hpp"

#include <algorithm>
#include <barrier>
#include <stdexcept>
#include <thread>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"

namespace ho::plugin::rail_test {
namespace {

bool is_in(const std::vector<uint32_t>& list, uint32_t number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

class Job {
 public:
  explicit Job(const RailJobOptions& options)
      : options_(options),
        handles_(options.members),
        unused_listeners_(options.members),
        all_ready_(options.members) {}

  void run_member(uint32_t self, const std::function<void(Member&)>& body) {
    const auto driver =
        options_.make_driver ? options_.make_driver() : conformance::make_builtin({});
    const auto address = SocketAddress::numeric("127.0.0.1", 0);
    auto listener = rail::RailListener::open(0, *address);
    expect(listener.ok() && driver != nullptr, "a member can listen");
    if (is_in(options_.deaf, self)) {
      (*listener)->device = 99;
    }
    void* context = nullptr;
    expect(driver->open({}, &context) == Reply::kSuccess, "the network opens");
    if (!is_in(options_.foreign, self)) {
      handles_[(self + options_.rotate_handles) % options_.members] =
          rail::encode((*listener)->handle);
    }
    all_ready_.arrive_and_wait();
    if (is_in(options_.absent, self) || is_in(options_.foreign, self)) {
      // Its listener stays: another process might open one of its own at the same port.
      unused_listeners_[self] = *std::move(listener);
      return;
    }
    rail::RailMember::Setup setup;
    setup.driver = driver.get();
    setup.context = context;
    setup.job_key = JobKey::none(false);
    setup.timeout = options_.timeout;
    setup.wanted_piece_bytes = options_.wanted_piece_bytes;
    setup.consistency = self < options_.consistency.size() ? options_.consistency[self] : "";
    auto connected = rail::RailMember::connect(setup, handles_, self, **listener);
    Member member{self, options_.members, nullptr, connected.status()};
    std::unique_ptr<CollComm> comm;
    if (connected.ok()) {
      comm = std::make_unique<CollComm>(*std::move(connected), NetDriver::Owner());
      member.comm = comm.get();
      member.close = [&] {
        member.comm = nullptr;
        comm.reset();
      };
    }
    body(member);
  }

 private:
  RailJobOptions options_;
  std::vector<rail::HandleBytes> handles_;
  std::vector<std::unique_ptr<rail::RailListener>> unused_listeners_;
  std::barrier<> all_ready_;
};

}  // namespace

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error("broken promise: " + promise);
  }
}

std::vector<std::string> run_rail(const RailJobOptions& options,
                                  const std::function<void(Member&)>& body) {
  Job job(options);
  std::vector<std::string> errors(options.members);
  std::vector<std::thread> threads;
  for (uint32_t self = 0; self < options.members; ++self) {
    threads.emplace_back([&, self] {
      try {
        job.run_member(self, body);
      } catch (const std::exception& error) {
        errors[self] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

void require_rail(const RailJobOptions& options, const std::function<void(Member&)>& body) {
  const auto errors = run_rail(options, [&](Member& member) {
    expect(member.connected.ok(), member.connected.message());
    body(member);
  });
  for (uint32_t self = 0; self < options.members; ++self) {
    INFO("member " << self << " of " << options.members);
    CHECK(errors[self] == "");
  }
}

}  // namespace ho::plugin::rail_test
