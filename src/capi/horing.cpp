// The communicator's part of horing.h. Checks what C callers can get wrong before C++ sees it: null
// pointers, enumerators out of range, struct sizes of other versions, handles of another process.
#include "horing.h"

#include "base/escaped.hpp"
#include "capi/guard.hpp"
#include "capi/handles.hpp"
#include "comm/configuration.hpp"

namespace ho::capi {
namespace {

thread_local std::string last_message;

// The caller's callbacks.
class CallbackStore final : public Store {
 public:
  explicit CallbackStore(const ho_store& store) : store_(store) {}

  [[nodiscard]] Status set(const std::string& key, const std::string& value) override {
    last_message.clear();
    return outcome(store_.set(store_.context, key.c_str(), value.data(), value.size()));
  }
  [[nodiscard]] Status wait(const std::string& key, std::chrono::milliseconds timeout) override {
    last_message.clear();
    return outcome(
        store_.wait(store_.context, key.c_str(), static_cast<uint64_t>(timeout.count())));
  }
  [[nodiscard]] Result<std::string> get(const std::string& key, size_t max_bytes) override {
    std::string value(max_bytes, '\0');
    size_t bytes = 0;
    last_message.clear();
    HORING_TRY(
        outcome(store_.get(store_.context, key.c_str(), value.data(), value.size(), &bytes)));
    if (bytes > max_bytes) {
      return Status(StatusCode::kProtocol,
                    fmt::format("a value of {} bytes, rank 0's has at most {}", bytes, max_bytes));
    }
    value.resize(bytes);
    return value;
  }

 private:
  // With what the callback has said of it.
  static Status outcome(int status) {
    if (status == HO_OK) {
      return {};
    }
    if (status < HO_OK || status > HO_INTERNAL) {
      return {StatusCode::kInternal,
              fmt::format("it returned {}, which is no error of ho_status", status)};
    }
    const auto code = static_cast<StatusCode>(status);
    return {code, last_message.empty() ? std::string(to_string(code)) : last_message};
  }

  const ho_store store_;
};

Status add_store(const ho_store* store, ConfigurationInput& input) {
  if (store == nullptr) {
    return {};
  }
  HORING_ASSIGN(const ho_store callbacks, read_options(store, ho_store(HO_STORE_INIT), "ho_store"));
  if (callbacks.set == nullptr || callbacks.wait == nullptr || callbacks.get == nullptr) {
    return invalid("ho_store: a null callback; it needs set, wait and get");
  }
  input.store = std::make_shared<CallbackStore>(callbacks);
  input.store_name = callbacks.name == nullptr ? "horing" : callbacks.name;
  return {};
}

// Its numbers are checked with the rest of the configuration.
Result<JobPart> part_of_job(const ho_comm_options& options) {
  JobPart part{.job = options.job,
               .world_size = static_cast<uint32_t>(std::max(options.job_size, 0))};
  const size_t count =
      options.job == 0 || options.job_ranks == nullptr ? 0 : options.job_rank_count;
  if (count > JobPart::kMaxRanks) {
    return invalid(fmt::format("ho_comm_options.job_rank_count is {}; a job has at most {} ranks",
                               count,
                               JobPart::kMaxRanks));
  }
  for (size_t i = 0; i < count; ++i) {
    if (options.job_ranks[i] < 0) {
      return invalid(fmt::format("ho_comm_options.job_ranks[{}] is {}", i, options.job_ranks[i]));
    }
    part.ranks.emplace_back(static_cast<uint32_t>(options.job_ranks[i]));
  }
  return part;
}

Result<CommunicatorConfig> configuration(const ho_comm_options& options) {
  ConfigurationInput input;
  if (options.rank >= 0) {
    input.rank = static_cast<uint32_t>(options.rank);
    input.world_size = static_cast<uint32_t>(std::max(options.world_size, 0));
  }
  if (options.local_rank >= 0) {
    input.local_rank = static_cast<uint32_t>(options.local_rank);
  }
  const auto text = [](const char* value) {
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  if (options.device < HO_DEVICE_LOCAL_RANK) {
    return invalid(
        fmt::format("ho_comm_options.device is {}; it takes a device's number, "
                    "HO_DEVICE_LOCAL_RANK or HO_DEVICE_NONE",
                    options.device));
  }
  if (options.device != HO_DEVICE_NONE) {
    input.device = options.device;
  }
  input.rendezvous = text(options.rendezvous);
  input.job_key = text(options.job_key);
  input.host_id = text(options.host_id);
  input.rank_name = text(options.rank_name);
  if (options.timeout_ms > 0) {
    input.timeout = std::chrono::milliseconds(std::min(options.timeout_ms, kLongestMs));
  }
  if (options.rendezvous_timeout_ms > 0) {
    input.rendezvous_timeout =
        std::chrono::milliseconds(std::min(options.rendezvous_timeout_ms, kLongestMs));
  }
  HORING_ASSIGN(input.part, part_of_job(options));
  HORING_TRY(add_store(options.store, input));
  return configure(input);
}

static_assert(static_cast<int>(StatusCode::kInternal) == HO_INTERNAL);

const GroupMap* map_of(const ho_comm* comm) {
  return comm == nullptr ? nullptr : &comm->communicator->map();
}

bool has_rank(const GroupMap* map, int32_t rank) {
  return map != nullptr && rank >= 0 && static_cast<uint32_t>(rank) < map->world_size();
}

}  // namespace

ho_status keep(const Status& status) {
  last_message = status.ok() ? "" : message_text(status.to_string());
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
  if (status == HO_IN_PROGRESS) {
    return "in progress";
  }
  // The names are string literals, hence terminated.
  return to_string(static_cast<StatusCode>(status)).data();
}

const char* ho_last_error_message(void) {
  return last_message.c_str();
}

void ho_set_last_error_message(const char* message) {
  try {
    last_message = message == nullptr ? "" : message;
  } catch (const std::bad_alloc&) {
    last_message.clear();
  }
}

size_t ho_dtype_bytes(ho_dtype dtype) {
  return check_enums(dtype, 0).ok() ? size_bytes(static_cast<DType>(dtype)) : 0;
}

ho_status ho_comm_register(ho_comm* comm, void* memory, size_t bytes) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_register"));
    if (memory == nullptr || bytes == 0) {
      return invalid("ho_comm_register: null memory, or no bytes");
    }
    return comm->communicator->call_device().register_memory(memory, bytes);
  });
}

ho_status ho_comm_deregister(ho_comm* comm, void* memory) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_deregister"));
    return comm->communicator->call_device().deregister_memory(memory);
  });
}

ho_status ho_comm_status(ho_comm* comm) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_status"));
    return comm->communicator->engine().status();
  });
}

ho_status ho_comm_left(ho_comm* comm) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_left"));
    return comm->communicator->engine().first_left();
  });
}

ho_status ho_comm_set_name(ho_comm* comm, const char* name, uint64_t id) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_set_name"));
    constexpr size_t kMaxNameBytes = 200;  // errors have it among other things
    if (name == nullptr || name[0] == '\0' || std::strlen(name) > kMaxNameBytes || id == 0) {
      return invalid("ho_comm_set_name: a null or empty name, one of over 200 bytes, or the id 0");
    }
    comm->communicator->set_name(name, id);
    return {};
  });
}

ho_status ho_comm_create(const ho_comm_options* options, ho_comm** comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) {
      return invalid("ho_comm_create: comm is null");
    }
    *comm = nullptr;
    HORING_ASSIGN(const ho_comm_options input,
                  read_options(options, ho_comm_options(HO_COMM_OPTIONS_INIT), "ho_comm_options"));
    HORING_ASSIGN(const CommunicatorConfig config, configuration(input));
    HORING_ASSIGN(std::shared_ptr<Communicator> made, Communicator::create(config));
    *comm = new_comm(std::move(made));
    return {};
  });
}

void ho_comm_destroy(ho_comm* comm) {
  (void)guarded([&]() -> Status {
    // In a forked child everything behind the handle is the parent's, and left alone.
    if (comm == nullptr || !check_process(comm->process).ok()) {
      return {};
    }
    const std::unique_ptr<ho_comm> owned(comm);
    // Now, whatever requests its owner has not ended: while this rank is in the job, its process
    // must not end.
    comm->communicator->close();
    return {};
  });
}

ho_status ho_comm_split(ho_comm* comm, int32_t color, int32_t key, ho_comm** split) {
  return guarded([&]() -> Status {
    if (split == nullptr) {
      return invalid("ho_comm_split: a null result");
    }
    *split = nullptr;
    HORING_TRY(check_comm(comm, "ho_comm_split"));
    HORING_ASSIGN(std::shared_ptr<Communicator> made, comm->communicator->split(color, key));
    if (made != nullptr) {
      *split = new_comm(std::move(made));
    }
    return {};
  });
}

ho_status ho_comm_abort(ho_comm* comm, const char* reason) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_abort"));
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

int32_t ho_comm_device(const ho_comm* comm) {
  const auto device =
      comm == nullptr ? std::optional<int>() : comm->communicator->call_device().ordinal();
  return device.value_or(HO_DEVICE_NONE);
}

uint64_t ho_comm_memory_bytes(const ho_comm* comm) {
  const bool usable = comm != nullptr && check_process(comm->process).ok();
  return usable ? comm->communicator->engine().memory_bytes() : 0;
}

ho_status ho_comm_measure_links(ho_comm* comm) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_measure_links"));
    HORING_ASSIGN(comm->link_rates, measure_links(*comm->communicator));
    return {};
  });
}

ho_status ho_comm_link_rates(const ho_comm* comm,
                             ho_link_rate* rates,
                             size_t capacity,
                             size_t* count) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_comm_link_rates"));
    if (count == nullptr || (rates == nullptr && capacity > 0)) {
      return invalid("ho_comm_link_rates: a null array or count");
    }
    const auto& known = comm->link_rates;
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

}  // extern "C"
