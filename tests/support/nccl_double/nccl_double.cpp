// What tests ask of the double and tell it.
#include "nccl_double.hpp"

#include <algorithm>

#include "state.hpp"

namespace ho::nccl_double {
namespace {

thread_local int own_version = 0;  // 0: the configured one

const char* error_text(nccl::ResultCode result) {
  switch (result) {
    case nccl::kSuccess:
      return "no error";
    case nccl::kUnhandledCudaError:
      return "unhandled cuda error";
    case nccl::kSystemError:
      return "unhandled system error";
    case nccl::kInvalidArgument:
      return "invalid argument";
    case nccl::kInvalidUsage:
      return "invalid usage";
    case nccl::kRemoteError:
      return "remote process exited or there was a network error";
    case nccl::kInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

const char* last_error(nccl::CommHandle /*comm*/) {
  return "";
}

nccl::ResultCode get_version(int* version) {
  const Call call("ncclGetVersion");
  *version = own_version == 0 ? state().config.version : own_version;
  return call.refused();
}

}  // namespace

State& state() {
  static State the_state;
  return the_state;
}

Call::Call(const char* name) : state_(nccl_double::state()), lock_(state_.mutex), name_(name) {
  ++state_.counts[name];
  for (Fault& fault : state_.faults) {
    if (fault.left > 0 && fault.name == name && --fault.left == 0) {
      refused_ = fault.result;
    }
  }
}

Communicator* Call::find(nccl::CommHandle handle) {
  const auto found = state_.communicators.find(handle);
  if (found != state_.communicators.end()) {
    return &found->second;
  }
  const auto ended = state_.ended.find(handle);
  static_cast<void>(violation(ended == state_.ended.end()
                                  ? std::string("is called with what is no communicator")
                                  : "uses a communicator that " + ended->second + " has ended"));
  return nullptr;
}

nccl::ResultCode Call::violation(const std::string& text) {
  state_.violations.push_back(std::string(name_) + " " + text);
  return nccl::kInvalidArgument;
}

std::string rank_text(const Communicator& comm) {
  return "rank " + std::to_string(comm.rank) + " of communicator " +
         std::to_string(comm.set->number);
}

const nccl::Nccl& nccl() {
  static const nccl::Nccl kTable = [] {
    nccl::Nccl table;
    table.get_version = get_version;
    table.error_text = error_text;
    table.last_error = last_error;
    fill_communicator_calls(table);
    fill_collective_calls(table);
    return table;
  }();
  return kTable;
}

void reset(const Config& config) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.config = config;
  all.sets.clear();
  all.communicators.clear();
  all.ended.clear();
  all.counts.clear();
  all.moved.clear();
  all.faults.clear();
  all.violations.clear();
  all.set_numbers = 0;
}

std::vector<std::string> violations() {
  const std::lock_guard lock(state().mutex);
  return state().violations;
}

std::vector<std::string> take_violations() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().violations, {});
}

uint64_t calls(std::string_view name) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().counts.find(name);
  return found == state().counts.end() ? 0 : found->second;
}

MovedBytes take_moved_bytes() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().moved, {});
}

size_t live_communicators() {
  const std::lock_guard lock(state().mutex);
  return state().communicators.size();
}

void fail_call(std::string_view name, uint64_t k, nccl::ResultCode result) {
  const std::lock_guard lock(state().mutex);
  state().faults.push_back({std::string(name), k, result});
}

void report_async_error(int device, nccl::ResultCode result) {
  const std::lock_guard lock(state().mutex);
  for (auto& [handle, comm] : state().communicators) {
    if (comm.device == device) {
      comm.async_error = result;
    }
  }
}

void use_version(int version) {
  own_version = version;
}

void hold(int device) {
  cuda_double::hold_joint_work(device, true);
}

void let_go(int device) {
  cuda_double::hold_joint_work(device, false);
}

void let_ends_return() {
  const std::lock_guard lock(state().mutex);
  state().config.ends_return = true;
}

}  // namespace ho::nccl_double
