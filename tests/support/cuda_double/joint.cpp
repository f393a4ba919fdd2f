// Work that streams of several devices do together.
#include <algorithm>
#include <map>
#include <utility>

#include "calls.hpp"

namespace ho::cuda_double {

// Parts of joint work are one thing here, for no part begins without the others.
std::string Machine::circle_of(const OperationPtr& part) {
  std::map<const Operation*, std::pair<OperationPtr, OperationPtr>> reached_by;
  std::vector<OperationPtr> open = part->joint->enqueued;
  const auto circle_text = [&](OperationPtr last) {
    std::string text;
    while (true) {
      const auto& [waits, from] = reached_by.at(last.get());
      text = *waits->step.what + " waits behind " + *last->step.what +
             (text.empty() ? "" : "; " + text);
      if (from == nullptr) {
        return text;
      }
      last = from;
    }
  };
  std::map<const Operation*, OperationPtr> came_from;  // what led to an operation that is open
  while (!open.empty()) {
    const OperationPtr waits = open.back();
    open.pop_back();
    std::vector<OperationPtr> before = waits->after;
    before.push_back(waits->channel_before);
    before.push_back(waits->part_before);
    for (const OperationPtr& each : before) {
      if (each == nullptr || each->progress == Progress::kDone || reached_by.contains(each.get())) {
        continue;
      }
      const auto from = came_from.find(waits.get());
      reached_by[each.get()] = {waits, from == came_from.end() ? nullptr : from->second};
      if (each->joint == part->joint) {
        return circle_text(each);
      }
      const std::vector<OperationPtr> together =
          each->joint == nullptr ? std::vector{each} : each->joint->enqueued;
      for (const OperationPtr& other : together) {
        if (came_from.emplace(other.get(), each).second) {
          open.push_back(other);
        }
      }
    }
  }
  return "";
}

int current_device() {
  const Machine::Lock lock(machine().mutex);
  const ContextState* const context = machine().current();
  return context == nullptr ? -1 : context->device;
}

JointWork::JointWork(size_t parts,
                     std::function<void(const Translate& translate)> body,
                     int64_t takes_ns)
    : state_(std::make_shared<JointState>()) {
  state_->parts = parts;
  state_->takes_ns = takes_ns;
  state_->body = std::move(body);
}

device::DriverResult JointWork::enqueue(device::StreamHandle handle,
                                        std::string what,
                                        std::vector<TouchedRange> ranges,
                                        std::string& circle) {
  Call call("joint_work", kNeedsContext);
  if (call.refused() != device::kSuccess) {
    return call.refused();
  }
  Machine& machine = call.machine();
  StreamState* const stream = stream_for(call, handle);
  if (stream == nullptr || stream->context != call.context()) {
    return device::kInvalidHandle;
  }
  if (stream->capture) {
    machine.violation(what + " on a stream that is being captured");
    return device::kCaptureUnsupported;
  }
  Request request;
  request.what = std::move(what);
  request.ranges = std::move(ranges);
  request.is_kernel = true;
  request.joint = state_;
  device::DriverResult result = device::kSuccess;
  const OperationPtr part = machine.enqueue(call.lock(), *stream, std::move(request), result);
  if (part != nullptr && part->joint != nullptr && state_->parts > 1) {  // nobody waits for it yet
    circle = Machine::circle_of(part);
  }
  return result;
}

void JointWork::give_up(int device) {
  Machine::Lock lock(machine().mutex);
  const auto parts = state_->enqueued;
  for (const OperationPtr& part : parts) {
    if (part->device == device && part->progress == Progress::kPending) {
      std::erase(state_->enqueued, part);
      part->joint.reset();
      part->part_before.reset();
    }
  }
  machine().run_what_is_ready(lock);
}

bool JointWork::done() const {
  const Machine::Lock lock(machine().mutex);
  return state_->over == state_->parts;
}

void hold_joint_work(int device, bool held) {
  Machine::Lock lock(machine().mutex);
  if (held) {
    machine().held_devices.insert(device);
  } else {
    machine().held_devices.erase(device);
  }
  machine().run_what_is_ready(lock);
}

size_t joint_work(int device) {
  const Machine::Lock lock(machine().mutex);
  return static_cast<size_t>(std::ranges::count_if(
      machine().pending,
      [&](const OperationPtr& part) { return part->device == device && part->joint != nullptr; }));
}

}  // namespace ho::cuda_double
