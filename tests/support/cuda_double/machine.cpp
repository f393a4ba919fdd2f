#include "machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <utility>

namespace ho::cuda_double {
namespace {

std::string number_text(uint64_t number) {
  return "operation " + std::to_string(number);
}

}  // namespace

Machine& machine() {
  static Machine the_machine;
  static const bool kStarted = (the_machine.start({}), true);
  static_cast<void>(kStarted);
  return the_machine;
}

Machine::~Machine() {
  stop();
}

void Machine::stop() {
  {
    const Lock lock(mutex);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread* const thread : {&worker_, &host_worker_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
  stopping_ = false;
}

void Machine::start(const Config& wanted) {
  stop();
  const Lock lock(mutex);
  config = wanted;
  static uint64_t generations = 0;
  generation = ++generations;
  call_number = 0;
  initialized = false;
  lost = device::kSuccess;
  counts.clear();
  written_bytes.clear();
  synchronizing = 0;
  allocations_while_pending = 0;
  faults.clear();
  violations.clear();
  drop_wait_in = 0;
  dropped_sites.clear();
  dropped_waits = 0;
  wait_sites.clear();
  streams.clear();
  default_streams.clear();
  events.clear();
  modules.clear();
  functions.clear();
  last_on_channel_.clear();
  last_part_.clear();
  held_devices.clear();
  bus_in_use_.clear();
  under_way_.clear();
  queued_.clear();
  host_ns.clear();
  now_ns = 0;
  for (const OperationPtr& operation : pending) {
    operation->after.clear();
    operation->channel_before.reset();
    operation->part_before.reset();
    operation->joint.reset();
  }
  pending.clear();
  regions.clear();
  contexts.clear();
  retained.clear();
  hosts_.clear();
  threads_ = 0;
  operations_ = 0;
  stream_ids_ = 0;
  random_.seed(config.seed);
  for (int i = 0; i < config.devices; ++i) {
    contexts.push_back(std::make_unique<ContextState>());
    contexts.back()->handle = std::bit_cast<device::ContextHandle>(next_handle());
    contexts.back()->device = i;
  }
}

ThreadState& Machine::thread() {
  thread_local ThreadState state;
  if (state.generation != generation) {
    state = {};
    state.generation = generation;
    ++threads_;
    // Clocks travel between processes, so that no two may use one number.
    state.component = (static_cast<uint64_t>(::getpid()) << 32U) + ++components_;
    state.steps = 1;
    state.clock.set(state.component, state.steps);
  }
  return state;
}

ContextState* Machine::context_of(device::ContextHandle handle) {
  const auto found =
      std::ranges::find_if(contexts, [&](const auto& each) { return each->handle == handle; });
  return found == contexts.end() ? nullptr : found->get();
}

ContextState* Machine::current() {
  ThreadState& state = thread();
  return state.contexts.empty() ? nullptr : state.contexts.back();
}

StreamState* Machine::add_stream(ContextState* context, bool blocking, bool is_default) {
  auto stream = std::make_unique<StreamState>();
  stream->id = is_default ? 0 : ++stream_ids_;
  stream->context = context;
  stream->blocking = blocking;
  stream->component = (static_cast<uint64_t>(::getpid()) << 32U) + ++components_;
  StreamState* const added = stream.get();
  if (is_default) {
    default_streams[context] = std::move(stream);
  } else {
    stream->handle = std::bit_cast<device::StreamHandle>(next_handle());
    streams[stream->handle] = std::move(stream);
  }
  return added;
}

StreamState* Machine::stream_of(device::StreamHandle handle) {
  if (handle != nullptr) {
    const auto found = streams.find(handle);
    return found == streams.end() ? nullptr : found->second.get();
  }
  ContextState* const context = current();
  if (context == nullptr) {
    return nullptr;
  }
  const auto found = default_streams.find(context);
  return found != default_streams.end() ? found->second.get() : add_stream(context, true, true);
}

StreamState* Machine::captured_with_default(const ContextState* context) {
  const auto found = std::ranges::find_if(streams, [&](const auto& each) {
    return each.second->blocking && each.second->capture && each.second->context == context;
  });
  return found == streams.end() ? nullptr : found->second.get();
}

bool Machine::spoils_a_capture() {
  const ThreadState& state = thread();
  bool refused = false;
  for (const auto& [handle, stream] : streams) {
    std::optional<Capture>& capture = stream->capture;
    if (!capture || state.capture_mode == device::kCaptureModeRelaxed) {
      continue;
    }
    const bool own = capture->thread == state.component;
    const bool others_count = state.capture_mode == device::kCaptureModeGlobal &&
                              capture->mode == device::kCaptureModeGlobal;
    if (own ? capture->mode != device::kCaptureModeRelaxed : others_count) {
      capture->spoiled = true;
      refused = true;
    }
  }
  return refused;
}

void Machine::violation(std::string text) {
  text += " (in call " + std::to_string(call_number) + ")";
  if (config.print) {
    std::fprintf(stderr, "CUDA double: %s\n", text.c_str());
  }
  violations.push_back(std::move(text));
}

// --- Order -----------------------------------------------------------------------------------

void Machine::join_host() {
  ThreadState& state = thread();
  if (state.in_work != nullptr || is_one_thread()) {
    return;
  }
  const ContextState* const context = current();
  const int host = state.host >= 0 ? state.host : (context == nullptr ? -1 : -2 - context->device);
  state.clock.join(hosts_[host]);
}

// A step ends here: what the thread does from now on is not known to those who join this.
void Machine::publish_to_host() {
  ThreadState& state = thread();
  if (state.in_work != nullptr) {
    return;
  }
  if (!is_one_thread()) {
    const ContextState* const context = current();
    const int host =
        state.host >= 0 ? state.host : (context == nullptr ? -1 : -2 - context->device);
    hosts_[host].join(state.clock);
  }
  state.clock.set(state.component, ++state.steps);
}

Step Machine::host_step(std::string what) {
  ThreadState& state = thread();
  const auto text = std::make_shared<const std::string>(std::move(what));
  if (state.in_work != nullptr) {
    return {state.in_work->component, state.in_work->number, state.in_work->clock, text};
  }
  return {state.component, state.steps, state.clock, text};
}

std::shared_ptr<Region> Machine::region_of(const void* begin,
                                           size_t bytes,
                                           const std::string& what,
                                           bool& found) {
  const auto address = std::bit_cast<uintptr_t>(begin);
  auto region = regions.find(address);
  found = region != nullptr;
  if (region == nullptr) {
    return nullptr;
  }
  if (region->ended()) {
    violation(what + " touches memory that call " + std::to_string(region->freed_by) + " freed");
    return nullptr;
  }
  if (region->exporter_freed()) {
    violation(what + " touches memory that its exporter has freed");
    return nullptr;
  }
  if (address - region->begin + bytes > region->bytes) {
    violation(what + " touches bytes " + std::to_string(address - region->begin) + " to " +
              std::to_string(address - region->begin + bytes) + " of memory of " +
              std::to_string(region->bytes) + " bytes");
    return nullptr;
  }
  return region;
}

void Machine::host_access(const void* memory, size_t bytes, bool writes, const char* what) {
  bool found = false;
  const Step step = host_step(std::string(what) + " after call " + std::to_string(call_number));
  const auto region = region_of(memory, bytes, *step.what, found);
  if (region == nullptr) {
    return;
  }
  const size_t begin = std::bit_cast<uintptr_t>(memory) - region->begin;
  const auto conflict = region->history.add(step, begin, begin + bytes, writes);
  if (conflict) {
    violation(*step.what + " is not ordered after " + *conflict);
  }
}

bool Machine::items_are_apart(const Request& request) {
  for (const TouchedRange& written : request.ranges) {
    const auto* const begin = static_cast<const std::byte*>(written.begin);
    for (const TouchedRange& other : request.ranges) {
      const auto* const other_begin = static_cast<const std::byte*>(other.begin);
      if (written.writes && written.item != other.item && begin < other_begin + other.bytes &&
          other_begin < begin + written.bytes) {
        violation(request.what + ": what range " + std::to_string(written.item) +
                  " writes, range " + std::to_string(other.item) + " touches at the same time");
        return false;
      }
    }
  }
  return true;
}

bool Machine::touch(Operation& operation,
                    const StreamState& stream,
                    const TouchedRange& range,
                    bool is_kernel) {
  if (range.bytes == 0) {
    return true;
  }
  const std::string& what = *operation.step.what;
  bool found = false;
  const auto region = region_of(range.begin, range.bytes, what, found);
  if (region == nullptr) {
    if (!found && (is_kernel || !config.allow_pageable)) {
      violation(what + " touches pageable memory");
      return false;
    }
    return !found;
  }
  if (is_kernel && region->kind == MemoryKind::kDevice &&
      region->device != stream.context->device && !stream.context->peers.contains(region->device)) {
    violation(what + " touches memory of device " + std::to_string(region->device) +
              ", which was not made accessible");
    return false;
  }
  const size_t begin = std::bit_cast<uintptr_t>(range.begin) - region->begin;
  const auto conflict =
      region->history.add(operation.step, begin, begin + range.bytes, range.writes);
  if (conflict) {
    violation(what + (range.writes ? ", which writes," : ", which reads,") +
              " is not ordered after " + *conflict);
    return false;
  }
  operation.regions.push_back(region);
  return true;
}

// --- Work ------------------------------------------------------------------------------------

OperationPtr Machine::enqueue(Lock& lock,
                              StreamState& stream,
                              Request request,
                              device::DriverResult& result) {
  while (config.queue_depth > 0 && pending.size() >= config.queue_depth) {
    const OperationPtr oldest = pending.front();
    wait_for(lock, oldest);
  }
  auto operation = std::make_shared<Operation>();
  operation->number = ++operations_;
  operation->device = stream.context->device;
  operation->on_host = request.on_host;
  operation->after = std::move(request.also_after);
  if (stream.last != nullptr) {
    operation->after.push_back(stream.last);
  }
  // The default stream and streams that were not made apart from it wait for each other.
  const bool is_default = stream.handle == nullptr;
  for (const auto& [handle, other] : streams) {
    if (is_default && other->blocking && other->context == stream.context &&
        other->last != nullptr) {
      operation->after.push_back(other->last);
    }
  }
  const auto fallback = default_streams.find(stream.context);
  if (!is_default && stream.blocking && fallback != default_streams.end() &&
      fallback->second->last != nullptr) {
    operation->after.push_back(fallback->second->last);
  }
  Clock clock = stream.clock;
  clock.join(thread().clock);
  for (const OperationPtr& before : operation->after) {
    clock.join(before->step.clock);
  }
  clock.set(stream.component, ++stream.steps);
  operation->step = {
      stream.component,
      stream.steps,
      clock,
      std::make_shared<const std::string>(
          request.what + " (" + number_text(operation->number) + ", " +
          (is_default ? std::string("default stream") : "stream " + std::to_string(stream.id)) +
          " of device " + std::to_string(operation->device) + ")")};
  if (!request.ranges.empty()) {
    for (const uint64_t site : std::exchange(stream.waited_at, {})) {
      wait_sites[site].orders_work = true;
    }
  }
  if (!items_are_apart(request)) {
    result = device::kInvalidValue;
    return nullptr;
  }
  for (const TouchedRange& range : request.ranges) {
    if (!touch(*operation, stream, range, request.is_kernel)) {
      result = device::kInvalidValue;
      return nullptr;
    }
  }
  operation->body = std::move(request.body);
  stream.clock = clock;
  stream.last = operation;
  if (config.channels > 0) {
    OperationPtr& last = last_on_channel_[static_cast<int>(stream.id) % config.channels];
    if (last != nullptr && last->progress != Progress::kDone) {
      operation->channel_before = last;
    }
    last = operation;
  }
  if (request.joint != nullptr) {
    operation->joint = std::move(request.joint);
    operation->joint->enqueued.push_back(operation);
  }
  if (operation->joint != nullptr && operation->joint->parts > 1) {
    OperationPtr& last = last_part_[operation->device];
    if (last != nullptr && last->progress != Progress::kDone) {
      operation->part_before = last;
    }
    last = operation;
  }
  std::erase_if(operation->after,
                [](const OperationPtr& each) { return each->progress == Progress::kDone; });
  pending.push_back(operation);
  if (operation->joint != nullptr &&
      std::ranges::any_of(operation->joint->enqueued,
                          [](const OperationPtr& each) { return each->wanted; })) {
    want(operation);
  }
  if (config.mode == Mode::kTimed) {
    queue_timed(lock, operation, request.ranges);
    return operation;
  }
  if (!worker_.joinable()) {
    worker_ = std::thread([this] { work(false); });
    host_worker_ = std::thread([this] { work(true); });
  }
  run_what_is_ready(lock);
  return operation;
}

void Machine::run_what_is_ready(Lock& lock) {
  if (config.mode == Mode::kEager) {
    run_at_once(lock);
  }
  changed_.notify_all();
}

bool Machine::is_next(const Operation& operation) const {
  const auto done = [](const OperationPtr& each) { return each->progress == Progress::kDone; };
  const auto done_or_none = [&](const OperationPtr& each) { return each == nullptr || done(each); };
  return operation.progress == Progress::kPending && std::ranges::all_of(operation.after, done) &&
         done_or_none(operation.channel_before) &&
         (done_or_none(operation.part_before) || operation.part_before->ends_ns) &&
         (operation.joint == nullptr || !held_devices.contains(operation.device));
}

bool Machine::is_ready(const Operation& operation) const {
  if (operation.joint == nullptr) {
    return is_next(operation);
  }
  const JointState& joint = *operation.joint;
  return joint.enqueued.size() == joint.parts &&
         std::ranges::all_of(joint.enqueued,
                             [this](const OperationPtr& each) { return is_next(*each); });
}

void Machine::run(Lock& lock, const OperationPtr& operation) {
  const std::shared_ptr<JointState> joint = operation->joint;
  const std::vector<OperationPtr> together =
      joint == nullptr ? std::vector{operation} : joint->enqueued;
  for (const OperationPtr& each : together) {
    each->progress = Progress::kRunning;
  }
  ThreadState& state = thread();
  const Step* const before =
      std::exchange(state.in_work, operation->on_host ? &operation->step : state.in_work);
  ++running_;
  lock.unlock();
  if (joint != nullptr) {
    joint->body(alias_of);
  } else if (operation->body) {
    operation->body();
  }
  operation->body = nullptr;
  lock.lock();
  --running_;
  state.in_work = before;
  for (const OperationPtr& each : together) {
    end(each);
  }
  changed_.notify_all();
}

void Machine::end(const OperationPtr& operation) {
  if (operation->joint != nullptr) {
    ++operation->joint->over;
    std::erase(operation->joint->enqueued, operation);
    operation->joint.reset();
  }
  for (const auto& region : operation->regions) {
    if (region->exporter_freed()) {
      violation(*operation->step.what + " used memory that its exporter has freed");
    }
  }
  operation->progress = Progress::kDone;
  operation->after.clear();
  operation->channel_before.reset();
  operation->part_before.reset();
  operation->regions.clear();
  std::erase(pending, operation);
}

void Machine::run_at_once(Lock& lock) {
  for (;;) {
    const auto found = std::ranges::find_if(
        pending, [this](const OperationPtr& each) { return !each->on_host && is_ready(*each); });
    if (found == pending.end()) {
      return;
    }
    const OperationPtr operation = *found;
    run(lock, operation);
  }
}

OperationPtr Machine::choose(bool on_host) {
  std::vector<OperationPtr> ready;
  for (const OperationPtr& each : pending) {
    if (each->on_host == on_host && is_ready(*each) &&
        (config.mode != Mode::kLazy || each->wanted)) {
      ready.push_back(each);
    }
  }
  if (ready.empty()) {
    return nullptr;
  }
  return config.mode == Mode::kRandom ? ready[random_() % ready.size()] : ready.front();
}

void Machine::want_something() {
  const auto found =
      std::ranges::find_if(pending, [](const OperationPtr& each) { return each->on_host; });
  want(found != pending.end() ? *found : pending.front());
}

void Machine::work(bool on_host) {
  Lock lock(mutex);
  uint64_t calls_before = call_number;
  while (!stopping_) {
    const OperationPtr operation = choose(on_host);
    if (operation != nullptr) {
      if (config.mode == Mode::kRandom && random_() % 4 == 0) {
        const auto pause = std::chrono::microseconds(random_() % 50);
        lock.unlock();
        std::this_thread::sleep_for(pause);
        lock.lock();
        continue;  // what is ready may be more by now
      }
      run(lock, operation);
    } else if (config.mode == Mode::kLazy && !on_host && !pending.empty()) {
      changed_.wait_for(lock, std::chrono::milliseconds(config.idle_ms));
      if (calls_before == call_number && !pending.empty() && choose(false) == nullptr) {
        want_something();
      }
      calls_before = call_number;
    } else {
      changed_.wait(lock);
      calls_before = call_number;
    }
  }
}

void Machine::want(const OperationPtr& operation) {
  std::vector<OperationPtr> open{operation};
  while (!open.empty()) {
    const OperationPtr each = open.back();
    open.pop_back();
    if (each->wanted || each->progress == Progress::kDone) {
      continue;
    }
    each->wanted = true;
    open.insert(open.end(), each->after.begin(), each->after.end());
    for (const OperationPtr& before : {each->channel_before, each->part_before}) {
      if (before != nullptr) {
        open.push_back(before);
      }
    }
    if (each->joint != nullptr) {
      open.insert(open.end(), each->joint->enqueued.begin(), each->joint->enqueued.end());
    }
  }
  changed_.notify_all();
}

void Machine::wait_for(Lock& lock, const OperationPtr& operation) {
  while (config.mode == Mode::kTimed && operation->progress != Progress::kDone) {
    if (!pass_event_if_any(lock)) {
      changed_.wait(lock);  // for what another thread runs, or has yet to enqueue
    }
  }
  want(operation);
  changed_.wait(lock, [&] { return operation->progress == Progress::kDone; });
}

void Machine::drain(Lock& lock, int device) {
  std::vector<OperationPtr> waited;
  for (const OperationPtr& each : pending) {
    if (each->device == device) {
      waited.push_back(each);
    }
  }
  for (const OperationPtr& each : waited) {
    wait_for(lock, each);
  }
}

bool Machine::is_pending(int device) const {
  return std::ranges::any_of(pending,
                             [&](const OperationPtr& each) { return each->device == device; });
}

}  // namespace ho::cuda_double
