#include "capi/handles.hpp"

#include <unistd.h>

#include <utility>

namespace ho::capi {

Status check_process(pid_t process) {
  const pid_t here = ::getpid();
  if (process == here) {
    return {};
  }
  return invalid(fmt::format(
      "this communicator was made by process {} and cannot be used in its forked child, "
      "process {}; after fork, call nothing but exec or _exit here",
      process,
      here));
}

Status check_comm(const ho_comm* comm, const char* what) {
  return comm == nullptr ? invalid(fmt::format("{}: a null communicator", what))
                         : check_process(comm->process);
}

ho_comm* new_comm(std::shared_ptr<Communicator> communicator) {
  return std::make_unique<ho_comm>(ho_comm{::getpid(), std::move(communicator)}).release();
}

Status check_enums(int dtype, int op) {
  if (dtype < 0 || dtype >= kDTypeCount) {
    return invalid(fmt::format("dtype {} does not exist; see ho_dtype", dtype));
  }
  if (op < 0 || op >= kReduceOpCount) {
    return invalid(fmt::format("operation {} does not exist; see ho_op", op));
  }
  return {};
}

}  // namespace ho::capi
