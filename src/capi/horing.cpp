// horing.h over comm. Checks what C callers can get wrong before C++ sees it: null pointers,
// enumerators out of range, struct sizes of other versions.
#include "horing.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "capi/guard.hpp"
#include "comm/communicator.hpp"
#include "comm/configuration.hpp"

struct ho_comm {
  std::shared_ptr<ho::Communicator> communicator;
};

struct ho_request {
  std::shared_ptr<ho::Communicator> communicator;
  std::shared_ptr<ho::Operation> operation;  // null: there was nothing to do
  ho_op_report* report;
};

namespace ho::capi {
namespace {

// Longer than any job, short enough to be added to any time.
constexpr uint64_t kLongestMs = uint64_t{1} << 40;

thread_local std::string last_message;

Status invalid(std::string what) {
  return {StatusCode::kInvalidArgument, std::move(what)};
}

// Copies what both the caller's and this version of an option struct have. The caller's `size` says
// how much of it there is.
template <typename Options>
Result<Options> read_options(const Options* given, const Options& defaults, const char* name) {
  Options options = defaults;
  if (given == nullptr) {
    return options;
  }
  if (given->size < sizeof(given->size) || given->size > 4096) {
    return invalid(fmt::format(
        "{}.size is {}; set it to sizeof({}) or use its _INIT macro", name, given->size, name));
  }
  std::memcpy(&options, given, std::min(given->size, sizeof(Options)));
  return options;
}

template <typename Report>
void write_report(Report* target, const Report& report) {
  if (target == nullptr || target->size < sizeof(target->size)) {
    return;
  }
  const size_t size = target->size;
  std::memcpy(target, &report, std::min(size, sizeof(Report)));
  target->size = size;
}

Result<CallOptions> call_options(const ho_call_options* given) {
  HORING_ASSIGN(const ho_call_options options,
                read_options(given, ho_call_options(HO_CALL_OPTIONS_INIT), "ho_call_options"));
  CallOptions result;
  if (options.algorithm != HO_ALGORITHM_AUTO) {
    if (options.algorithm < 0 || options.algorithm >= kAlgorithmCount) {
      return invalid(fmt::format("algorithm {} does not exist; see ho_algorithm",
                                 static_cast<int>(options.algorithm)));
    }
    result.algorithm = static_cast<Algorithm>(options.algorithm);
  }
  if (options.timeout_ms > 0) {
    result.timeout = std::chrono::milliseconds(std::min(options.timeout_ms, kLongestMs));
  }
  result.fp32_sums = options.fp32_sums != 0;
  return result;
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

ho_op_report to_c(const OpReport& report) {
  ho_op_report c = HO_OP_REPORT_INIT;
  c.algorithm = static_cast<ho_algorithm>(report.algorithm);
  c.intra_sent_bytes = report.intra_sent_bytes;
  c.intra_received_bytes = report.intra_received_bytes;
  c.inter_sent_bytes = report.inter_sent_bytes;
  c.inter_received_bytes = report.inter_received_bytes;
  c.total_ns = report.total_ns;
  c.inter_ns = report.inter_ns;
  c.intra_ns = report.intra_ns;
  c.overlap_ns = report.overlap_ns;
  c.wait_ns = report.wait_ns;
  return c;
}

void report_end(const std::shared_ptr<Operation>& operation, ho_op_report* report) {
  write_report(report,
               operation == nullptr ? ho_op_report(HO_OP_REPORT_INIT) : to_c(operation->report()));
}

// Starts the call; blocks when there is no place for a request.
template <typename AnyCall>
Status run_call(ho_comm* comm, const AnyCall& call, ho_op_report* report, ho_request** request) {
  auto& communicator = comm->communicator;
  HORING_ASSIGN(auto operation, communicator->start(call, request != nullptr));
  if (request != nullptr) {
    *request = std::make_unique<ho_request>(ho_request{communicator, std::move(operation), report})
                   .release();
    return {};
  }
  Status status = communicator->finish(operation);
  report_end(operation, report);
  return status;
}

struct CollectiveArguments {
  Collective collective;
  ho_comm* comm;
  const void* send;
  void* recv;
  size_t count;
  const size_t* counts;
  bool by_counts;
  int dtype;
  int op;
  int32_t root;
  const ho_call_options* options;
  ho_op_report* report;
  ho_request** request;
};

ho_status collective(const CollectiveArguments& given) {
  return guarded([&]() -> Status {
    if (given.request != nullptr) {
      *given.request = nullptr;
    }
    if (given.comm == nullptr || (given.by_counts && given.counts == nullptr)) {
      return invalid("a null communicator or counts array");
    }
    HORING_TRY(check_enums(given.dtype, given.op));
    CollectiveCall call;
    HORING_ASSIGN(call.options, call_options(given.options));
    call.collective = given.collective;
    call.send = given.send;
    call.recv = given.recv;
    call.count = given.count;
    if (given.by_counts) {
      call.counts = {given.counts, given.comm->communicator->map().world_size()};
    }
    call.dtype = static_cast<DType>(given.dtype);
    call.op = static_cast<ReduceOp>(given.op);
    if (given.root < 0) {
      return invalid(fmt::format("root {} is negative", given.root));
    }
    call.root = GlobalRank(given.root);
    return run_call(given.comm, call, given.report, given.request);
  });
}

ho_status point_to_point(PointToPointCall call,
                         ho_comm* comm,
                         int dtype,
                         int32_t peer,
                         const ho_call_options* options,
                         ho_request** request) {
  return guarded([&]() -> Status {
    if (request != nullptr) {
      *request = nullptr;
    }
    if (comm == nullptr || peer < 0) {
      return invalid("a null communicator or a negative peer");
    }
    HORING_TRY(check_enums(dtype, 0));
    HORING_ASSIGN(call.options, call_options(options));
    call.dtype = static_cast<DType>(dtype);
    call.peer = GlobalRank(peer);
    return run_call(comm, call, nullptr, request);
  });
}

Result<CommunicatorConfig> configuration(const ho_comm_options& options) {
  GivenConfiguration given;
  if (options.rank >= 0) {
    given.rank = static_cast<uint32_t>(options.rank);
    given.world_size = static_cast<uint32_t>(std::max(options.world_size, 0));
  }
  if (options.local_rank >= 0) {
    given.local_rank = static_cast<uint32_t>(options.local_rank);
  }
  const auto text = [](const char* value) {
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  given.rendezvous = text(options.rendezvous);
  given.job_key = text(options.job_key);
  given.host_id = text(options.host_id);
  if (options.timeout_ms > 0) {
    given.timeout = std::chrono::milliseconds(std::min(options.timeout_ms, kLongestMs));
  }
  return configure(given);
}

const GroupMap* map_of(const ho_comm* comm) {
  return comm == nullptr ? nullptr : &comm->communicator->map();
}

bool has_rank(const GroupMap* map, int32_t rank) {
  return map != nullptr && rank >= 0 && static_cast<uint32_t>(rank) < map->world_size();
}

}  // namespace

ho_status keep(const Status& status) {
  last_message = status.ok() ? "" : status.to_string();
  return static_cast<ho_status>(status.code());
}

}  // namespace ho::capi

using namespace ho;
using namespace ho::capi;

extern "C" {

const char* ho_version(void) {
  return HORING_VERSION;
}

const char* ho_status_name(ho_status status) {
  // The names are string literals, hence terminated.
  return to_string(static_cast<StatusCode>(status)).data();
}

const char* ho_last_error_message(void) {
  return last_message.c_str();
}

size_t ho_dtype_bytes(ho_dtype dtype) {
  return check_enums(dtype, 0).ok() ? size_bytes(static_cast<DType>(dtype)) : 0;
}

ho_status ho_comm_create(const ho_comm_options* options, ho_comm** comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) {
      return invalid("ho_comm_create: comm is null");
    }
    *comm = nullptr;
    HORING_ASSIGN(const ho_comm_options given,
                  read_options(options, ho_comm_options(HO_COMM_OPTIONS_INIT), "ho_comm_options"));
    HORING_ASSIGN(const CommunicatorConfig config, configuration(given));
    HORING_ASSIGN(std::shared_ptr<Communicator> made, Communicator::create(config));
    *comm = std::make_unique<ho_comm>(ho_comm{std::move(made)}).release();
    return {};
  });
}

void ho_comm_destroy(ho_comm* comm) {
  (void)guarded([&]() -> Status {
    const std::unique_ptr<ho_comm> owned(comm);
    return {};
  });
}

ho_status ho_comm_split(ho_comm* comm, int32_t color, int32_t key, ho_comm** split) {
  return guarded([&]() -> Status {
    if (comm == nullptr || split == nullptr) {
      return invalid("ho_comm_split: a null communicator or result");
    }
    *split = nullptr;
    HORING_ASSIGN(std::shared_ptr<Communicator> made, comm->communicator->split(color, key));
    if (made != nullptr) {
      *split = std::make_unique<ho_comm>(ho_comm{std::move(made)}).release();
    }
    return {};
  });
}

ho_status ho_comm_abort(ho_comm* comm, const char* reason) {
  return guarded([&]() -> Status {
    if (comm == nullptr) {
      return invalid("ho_comm_abort: comm is null");
    }
    return comm->communicator->abort(reason == nullptr ? "" : reason);
  });
}

int32_t ho_comm_rank(const ho_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int32_t>(comm->communicator->rank().value());
}

int32_t ho_comm_world_size(const ho_comm* comm) {
  const GroupMap* map = map_of(comm);
  return map == nullptr ? -1 : static_cast<int32_t>(map->world_size());
}

int32_t ho_comm_group_count(const ho_comm* comm) {
  const GroupMap* map = map_of(comm);
  return map == nullptr ? -1 : static_cast<int32_t>(map->group_count());
}

int32_t ho_comm_rail_count(const ho_comm* comm) {
  const GroupMap* map = map_of(comm);
  return map == nullptr ? -1 : static_cast<int32_t>(map->rail_count());
}

int32_t ho_comm_group_of(const ho_comm* comm, int32_t rank) {
  const GroupMap* map = map_of(comm);
  return has_rank(map, rank) ? static_cast<int32_t>(map->group_of(GlobalRank(rank)).value()) : -1;
}

int32_t ho_comm_group_rank_of(const ho_comm* comm, int32_t rank) {
  const GroupMap* map = map_of(comm);
  return has_rank(map, rank) ? static_cast<int32_t>(map->group_rank_of(GlobalRank(rank)).value())
                             : -1;
}

int32_t ho_comm_group_size(const ho_comm* comm, int32_t group) {
  const GroupMap* map = map_of(comm);
  const bool known =
      map != nullptr && group >= 0 && static_cast<uint32_t>(group) < map->group_count();
  return known ? static_cast<int32_t>(map->group_size(GroupIndex(group))) : -1;
}

int32_t ho_comm_rail_of(const ho_comm* comm, int32_t rank) {
  const GroupMap* map = map_of(comm);
  const auto rail =
      has_rank(map, rank) ? map->rail_of(GlobalRank(rank)) : std::optional<RailIndex>();
  return rail ? static_cast<int32_t>(rail->value()) : -1;
}

uint64_t ho_comm_memory_bytes(const ho_comm* comm) {
  return comm == nullptr ? 0 : comm->communicator->memory_bytes();
}

ho_status ho_comm_measure_links(ho_comm* comm) {
  return guarded([&]() -> Status {
    return comm == nullptr ? invalid("ho_comm_measure_links: comm is null")
                           : comm->communicator->measure_links();
  });
}

ho_status ho_comm_link_rates(const ho_comm* comm,
                             ho_link_rate* rates,
                             size_t capacity,
                             size_t* count) {
  return guarded([&]() -> Status {
    if (comm == nullptr || count == nullptr || (rates == nullptr && capacity > 0)) {
      return invalid("ho_comm_link_rates: a null communicator, array or count");
    }
    const auto& known = comm->communicator->link_rates();
    *count = known.size();
    for (size_t i = 0; i < std::min(capacity, known.size()); ++i) {
      const LinkRate& rate = known[i];
      rates[i] = {sizeof(ho_link_rate),
                  static_cast<int32_t>(rate.peer.value()),
                  rate.rail ? static_cast<int32_t>(rate.rail->value()) : -1,
                  rate.bytes_per_second,
                  rate.round_trip_ns};
    }
    return {};
  });
}

ho_status ho_all_gather(ho_comm* comm,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  return collective({Collective::kAllGather,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     0,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_all_gather_counts(ho_comm* comm,
                               const void* send,
                               void* recv,
                               const size_t* counts,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request) {
  return collective({Collective::kAllGather,
                     comm,
                     send,
                     recv,
                     0,
                     counts,
                     true,
                     dtype,
                     0,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_reduce_scatter(ho_comm* comm,
                            const void* send,
                            void* recv,
                            size_t count,
                            ho_dtype dtype,
                            ho_op op,
                            const ho_call_options* options,
                            ho_op_report* report,
                            ho_request** request) {
  return collective({Collective::kReduceScatter,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_reduce_scatter_counts(ho_comm* comm,
                                   const void* send,
                                   void* recv,
                                   const size_t* counts,
                                   ho_dtype dtype,
                                   ho_op op,
                                   const ho_call_options* options,
                                   ho_op_report* report,
                                   ho_request** request) {
  return collective({Collective::kReduceScatter,
                     comm,
                     send,
                     recv,
                     0,
                     counts,
                     true,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_all_reduce(ho_comm* comm,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        ho_op op,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  return collective({Collective::kAllReduce,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_broadcast(ho_comm* comm,
                       const void* send,
                       void* recv,
                       size_t count,
                       ho_dtype dtype,
                       int32_t root,
                       const ho_call_options* options,
                       ho_op_report* report,
                       ho_request** request) {
  return collective({Collective::kBroadcast,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     0,
                     root,
                     options,
                     report,
                     request});
}

ho_status ho_barrier(ho_comm* comm, const ho_call_options* options) {
  return guarded([&]() -> Status {
    if (comm == nullptr) {
      return invalid("ho_barrier: comm is null");
    }
    HORING_ASSIGN(const CallOptions given, call_options(options));
    return comm->communicator->barrier(given);
  });
}

ho_status ho_send(ho_comm* comm,
                  const void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  const ho_call_options* options,
                  ho_request** request) {
  PointToPointCall call;
  call.sends = true;
  call.data = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

ho_status ho_recv(ho_comm* comm,
                  void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  const ho_call_options* options,
                  ho_request** request) {
  PointToPointCall call;
  call.into = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

ho_status ho_request_test(ho_request* request, int32_t* done) {
  return guarded([&]() -> Status {
    if (request == nullptr || done == nullptr) {
      return invalid("ho_request_test: a null request or result");
    }
    const bool ended =
        request->operation == nullptr || request->communicator->engine().test(*request->operation);
    *done = ended ? 1 : 0;
    return {};
  });
}

ho_status ho_request_wait(ho_request* request, uint64_t timeout_ms) {
  return guarded([&]() -> Status {
    if (request == nullptr) {
      return invalid("ho_request_wait: request is null");
    }
    Status status;
    if (request->operation != nullptr) {
      const Deadline deadline =
          timeout_ms == 0
              ? Deadline::max()
              : deadline_after(std::chrono::milliseconds(std::min(timeout_ms, kLongestMs)));
      const auto ended = request->communicator->engine().wait(*request->operation, deadline);
      if (!ended) {
        return {StatusCode::kTimeout,
                fmt::format("the request is not over after {} ms; it goes on, wait again or abort "
                            "the communicator",
                            timeout_ms)};
      }
      status = *ended;
    }
    const std::unique_ptr<ho_request> owned(request);
    report_end(owned->operation, owned->report);
    return status;
  });
}

}  // extern "C"
