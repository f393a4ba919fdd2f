// When work runs, and on which thread.
#include <future>
#include <mutex>
#include <set>

#include "on_double.hpp"

namespace ho::test {
namespace {

using cuda_double::live;

// Host functions that write down who they are, and one that waits.
struct Diary {
  std::mutex mutex;
  std::string text;
  void add(char letter) {
    const std::lock_guard lock(mutex);
    text += letter;
  }
};
struct Entry {
  Diary* diary;
  char letter;
};
void write_entry(void* argument) {
  const auto* const entry = static_cast<Entry*>(argument);
  entry->diary->add(entry->letter);
}
struct Gate {
  std::promise<void> reached;
  std::promise<void> open;
};
void wait_at_gate(void* argument) {
  auto* const gate = static_cast<Gate*>(argument);
  gate->reached.set_value();
  gate->open.get_future().wait();
}

// In which order six streams' host functions ran that were all ready at once.
std::string order_of_six(const cuda_double::Config& config) {
  const OnDouble on(config);
  const auto held = on.stream();
  std::vector<device::Stream> streams;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(on.stream());
  }
  Gate gate;
  Diary diary;
  std::vector<Entry> entries;
  for (int i = 0; i < 6; ++i) {
    entries.push_back({&diary, static_cast<char>('a' + i)});
  }
  must(held.call_on_host(wait_at_gate, &gate));
  gate.reached.get_future().wait();
  for (size_t i = 0; i < 6; ++i) {
    must(streams[i].call_on_host(write_entry, &entries[i]));
  }
  gate.open.set_value();
  for (const auto& stream : streams) {
    finish(on, stream);
  }
  finish(on, held);
  return diary.text;
}

}  // namespace

TEST_CASE("Eager work is done when the call returns") {
  const OnDouble on;
  const auto stream = on.stream();
  const auto event = on.event();
  const auto from = on.pinned(16);
  const auto memory = on.memory(16);
  CHECK(must(event.passed()));  // nothing was recorded yet
  must(stream.copy(memory.pointer(), from.bytes().data(), 16));
  must(event.record(stream.handle()));
  CHECK(live().pending == 0);
  CHECK(must(event.passed()));
}

TEST_CASE("Lazy work waits for somebody who asks and runs no more than that takes") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.idle_ms = 3'600'000;
  const OnDouble on(config);
  const auto requested = on.stream();
  const auto other = on.stream();
  const auto event = on.event();
  const auto from = on.pinned(32);
  const auto memory = on.memory(32);
  must(other.copy(memory.pointer(), from.bytes().data(), 16));
  must(requested.copy(device::pointer_to(memory.address() + 16), from.bytes().data() + 16, 16));
  must(event.record(requested.handle()));
  CHECK(live().pending == 3);
  wait_until_passed(event);
  CHECK(live().pending == 1);
  finish(on, other);
  CHECK(live().pending == 0);
}

TEST_CASE("Lazy work runs for a host function when nobody calls") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.idle_ms = 1;
  const OnDouble on(config);
  const auto stream = on.stream();
  std::promise<std::thread::id> ran;
  must(stream.call_on_host(
      [](void* argument) {
        static_cast<std::promise<std::thread::id>*>(argument)->set_value(
            std::this_thread::get_id());
      },
      &ran));
  CHECK(ran.get_future().get() != std::this_thread::get_id());
}

TEST_CASE("A host function runs after what its stream had before in every mode") {
  for (const auto& config : every_mode()) {
    INFO(to_string(config));
    const OnDouble on(config);
    const auto stream = on.stream();
    const auto from = on.pinned(8);
    const auto to = on.pinned(8);
    const auto memory = on.memory(8);
    from.bytes()[0] = std::byte{42};
    struct Seen {
      const std::byte* at;
      std::byte value;
    } seen{to.bytes().data(), {}};
    must(stream.copy(memory.pointer(), from.bytes().data(), 8));
    must(stream.copy(to.bytes().data(), memory.pointer(), 8));
    must(stream.call_on_host(
        [](void* argument) {
          auto* const all = static_cast<Seen*>(argument);
          cuda_double::host_reads(all->at, 1);
          all->value = *all->at;
        },
        &seen));
    finish(on, stream);
    CHECK(seen.value == std::byte{42});
    CHECK(nothing_violated());
  }
}

TEST_CASE("A host function that calls the driver is a violation") {
  const OnDouble on;
  const auto stream = on.stream();
  must(stream.call_on_host(
      [](void*) {
        int count = 0;
        static_cast<void>(cuda_double::driver().device_count(&count));
      },
      nullptr));
  while (live().pending > 0) {
    std::this_thread::yield();
  }
  CHECK(violated({"device_count is called in a host function"}));
}

TEST_CASE("Other seeds run independent streams in another order") {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_double::Config config;
    config.mode = cuda_double::Mode::kRandom;
    config.seed = seed;
    orders.insert(order_of_six(config));
  }
  CHECK(orders.size() > 2);
}

TEST_CASE("One channel keeps the order in which work was enqueued") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_double::Config config;
    config.mode = cuda_double::Mode::kRandom;
    config.seed = seed;
    config.channels = 1;
    CHECK(order_of_six(config) == "abcdef");
  }
}

TEST_CASE("One channel orders nothing for the caller, who still needs events") {
  cuda_double::Config config;
  config.channels = 1;
  const OnDouble on(config);
  const auto first = on.stream();
  const auto second = on.stream();
  const auto memory = on.memory(16);
  const auto from = on.pinned(16);
  must(first.copy(memory.pointer(), from.bytes().data(), 16));
  CHECK(!second.copy(memory.pointer(), from.bytes().data(), 16).ok());
  CHECK(violated({"is not ordered after"}));
  finish(on, first);
}

TEST_CASE("A full queue blocks who enqueues and loses nothing") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.idle_ms = 3'600'000;
  config.queue_depth = 3;
  const OnDouble on(config);
  const auto stream = on.stream();
  Diary diary;
  Entry entry{&diary, 'x'};
  for (int i = 0; i < 10; ++i) {
    must(stream.call_on_host(write_entry, &entry));
    CHECK(live().pending <= 3);
  }
  finish(on, stream);
  CHECK(diary.text == "xxxxxxxxxx");
}

TEST_CASE("Allocating waits for what is pending and is counted") {
  cuda_double::Config config;
  config.mode = cuda_double::Mode::kLazy;
  config.idle_ms = 3'600'000;
  const OnDouble on(config);
  const auto stream = on.stream();
  const auto from = on.pinned(16);
  const auto memory = on.memory(16);
  cuda_double::forget_counts();
  must(stream.copy(memory.pointer(), from.bytes().data(), 16));
  CHECK(cuda_double::synchronizing_calls() == 0);
  const auto more = on.memory(16);
  CHECK(live().pending == 0);
  CHECK(cuda_double::synchronizing_calls() == 1);
  CHECK(cuda_double::allocations_while_pending() == 1);
  const auto still_more = on.memory(16);
  CHECK(cuda_double::allocations_while_pending() == 1);
  finish(on, stream);
}

}  // namespace ho::test
