// Checkpoints and changes of strategy, as paro.h has them.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "capi/arguments.hpp"
#include "capi/boundary.hpp"
#include "capi/options.hpp"
#include "checkpoint/load.hpp"
#include "checkpoint/part_file.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/store.hpp"
#include "run/agreement.hpp"
#include "run/change.hpp"

struct paro_checkpoint {
  paro::checkpoint::Reader reader;
};

namespace paro::capi {
namespace {

using checkpoint::NamedTensor;
using checkpoint::Saver;
using checkpoint::SaveRequest;

constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxDimensions = 64;
constexpr uint64_t kTimeoutMs = 30ULL * 60 * 1000;

ho::Result<std::vector<NamedTensor>> tensors_of(const paro_tensor* input,
                                                uint64_t count,
                                                const std::string& where) {
  if (count > kMaxTensors || (input == nullptr && count > 0)) {
    return ho::invalid(where + ": a null array of " + std::to_string(count) +
                       " tensors, or too many");
  }
  std::vector<NamedTensor> tensors;
  for (uint64_t i = 0; i < count; ++i) {
    const paro_tensor& one = input[i];
    if (one.name == nullptr || one.dimension_count > kMaxDimensions ||
        (one.shape == nullptr && one.dimension_count > 0)) {
      return ho::invalid(where + ".tensors[" + std::to_string(i) +
                         "]: a null name or shape, or too many dimensions");
    }
    tensors.push_back({one.name,
                       one.unit,
                       one.frozen != 0,
                       one.first_element,
                       {one.shape, one.shape + one.dimension_count}});
  }
  return tensors;
}

ho::Result<SaveRequest> request_of(const paro_runner& runner,
                                   const char* folder,
                                   const paro_save_options& options) {
  if (folder == nullptr || *folder == '\0') {
    return ho::invalid("paro_runner_save: no folder");
  }
  if (options.rank_state_bytes > checkpoint::kMaxRankStateBytes ||
      (options.rank_state == nullptr && options.rank_state_bytes > 0)) {
    return ho::invalid("paro_save_options: a null rank_state of " +
                       std::to_string(options.rank_state_bytes) + " bytes, or more than 64 MiB");
  }
  // The folder's whole path, wherever the process goes meanwhile.
  HORING_ASSIGN(SaveRequest request,
                checkpoint::request_of(*runner.runner,
                                       std::filesystem::absolute(folder),
                                       options.in_background != 0 ? checkpoint::SaveFrom::kCopy
                                                                  : checkpoint::SaveFrom::kRunner));
  request.keep = options.keep;
  request.manifest.job_state = options.job_state == nullptr ? "" : options.job_state;
  HORING_ASSIGN(request.manifest.tensors,
                tensors_of(options.tensors, options.tensor_count, "paro_save_options"));
  for (const ho::Status& status :
       {checkpoint::check(request.manifest), checkpoint::check_names(request.manifest)}) {
    if (!status.ok()) {
      return ho::invalid("paro_runner_save: " + status.message());
    }
  }
  const auto* const bytes = static_cast<const std::byte*>(options.rank_state);
  request.rank_state.assign(bytes, bytes + options.rank_state_bytes);
  return request;
}

ho::Result<SaveRequest> request_or_say(const paro_runner& runner,
                                       const char* folder,
                                       const paro_save_options& options) {
  try {
    return request_of(runner, folder, options);
  } catch (const std::bad_alloc&) {
    return ho::Status(ho::StatusCode::kOutOfMemory, "no memory for a copy of this rank's states");
  } catch (const std::exception& error) {  // a working directory that is gone
    return ho::invalid(std::string("paro_runner_save: ") + error.what());
  }
}

ho::Status save(paro_runner& runner, const char* folder, const paro_save_options* input) {
  if (runner.saver == nullptr) {
    HORING_ASSIGN(OwnedComm comm, runner.runner->between_steps().new_communicator("save"));
    runner.saver = std::make_unique<Saver>(std::move(comm));
  }
  HORING_TRY(runner.saver->wait());
  auto options =
      read_options(input, paro_save_options(PARO_SAVE_OPTIONS_INIT), "paro_save_options");
  auto request = options.ok() ? request_or_say(runner, folder, *options)
                              : ho::Result<SaveRequest>(options.status());
  const uint64_t timeout =
      options.ok() && options->timeout_ms != 0 ? options->timeout_ms : kTimeoutMs;
  const bool in_background = options.ok() && options->in_background != 0;
  return runner.saver->start(std::move(request), {timeout, in_background});
}

ho::Status copy_letters(const Strategy& strategy, char* buffer, size_t capacity) {
  const std::string text = letters(strategy);
  if (buffer == nullptr || capacity <= text.size()) {
    return ho::invalid("paro_runner_strategy: room for " + std::to_string(text.size() + 1) +
                       " bytes is needed");
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return {};
}

}  // namespace
}  // namespace paro::capi

using namespace paro;
using namespace paro::capi;

extern "C" {

ho_status paro_runner_change_strategy(paro_runner* runner,
                                      const char* strategy,
                                      uint64_t budget_bytes) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_change_strategy"));
    const auto wanted = [&]() -> ho::Result<NewStrategy> {
      if (strategy == nullptr) {  // a default would change what the caller did not mean to
        return ho::invalid("paro_runner_change_strategy: a null strategy");
      }
      HORING_ASSIGN(const Strategy input, strategy_of(strategy));
      const Scope frozen =
          runner->frozen_as_parameters ? input.parameters : runner->runner->config().frozen;
      return NewStrategy{input, frozen, budget_bytes};
    };
    ho::Status changed = change_strategy(runner->runner, wanted());
    if (runner->runner == nullptr) {
      runner->lost = changed;
    }
    return changed;
  });
}

ho_status paro_runner_strategy(const paro_runner* runner, char* letters, size_t capacity) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_strategy"));
    return copy_letters(runner->runner->config().strategy, letters, capacity);
  });
}

ho_status paro_runner_save(paro_runner* runner,
                           const char* folder,
                           const paro_save_options* options) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_save"));
    return save(*runner, folder, options);
  });
}

ho_status paro_runner_wait_save(paro_runner* runner) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_wait_save"));
    const ho::Status before = std::exchange(runner->lost_save, ho::Status());
    return runner->saver == nullptr || !before.ok() ? before : runner->saver->wait();
  });
}

ho_status paro_checkpoint_open(const char* path, paro_checkpoint** opened) {
  return guarded([&]() -> ho::Status {
    if (path == nullptr || opened == nullptr) {
      return ho::invalid("paro_checkpoint_open: a null path or place for the checkpoint");
    }
    *opened = nullptr;
    HORING_ASSIGN(const checkpoint::Path folder, checkpoint::find_checkpoint(path));
    HORING_ASSIGN(checkpoint::Reader reader, checkpoint::Reader::open(folder));
    *opened = std::make_unique<paro_checkpoint>(paro_checkpoint{std::move(reader)}).release();
    return {};
  });
}

void paro_checkpoint_close(paro_checkpoint* checkpoint) {
  const std::unique_ptr<paro_checkpoint> owned(checkpoint);
}

uint64_t paro_checkpoint_step(const paro_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : checkpoint->reader.manifest().step;
}

uint32_t paro_checkpoint_world_size(const paro_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0
                               : static_cast<uint32_t>(checkpoint->reader.manifest().files.size());
}

const char* paro_checkpoint_job_state(const paro_checkpoint* checkpoint) {
  return checkpoint == nullptr ? "" : checkpoint->reader.manifest().job_state.c_str();
}

ho_status paro_checkpoint_rank_state(const paro_checkpoint* checkpoint,
                                     uint32_t rank,
                                     void* state,
                                     uint64_t capacity,
                                     uint64_t* bytes) {
  return guarded([&]() -> ho::Status {
    if (checkpoint == nullptr || bytes == nullptr) {
      return ho::invalid("paro_checkpoint_rank_state: a null checkpoint or place for the size");
    }
    HORING_ASSIGN(const std::vector<std::byte> found, checkpoint->reader.rank_state(rank));
    *bytes = found.size();
    if (state != nullptr && capacity >= found.size() && !found.empty()) {
      std::memcpy(state, found.data(), found.size());
    }
    return {};
  });
}

ho_status paro_runner_restore(paro_runner* runner,
                              const paro_checkpoint* checkpoint,
                              const paro_load_options* options) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_restore"));
    // This rank's own errors are sent to the others, which would wait otherwise.
    const auto mine = [&]() -> ho::Result<Snapshot> {
      if (checkpoint == nullptr) {
        return ho::invalid("paro_runner_restore: a null checkpoint");
      }
      HORING_ASSIGN(
          const paro_load_options input,
          read_options(options, paro_load_options(PARO_LOAD_OPTIONS_INIT), "paro_load_options"));
      HORING_TRY(check_reserved(input.reserved, "paro_load_options.reserved"));
      try {
        HORING_ASSIGN(std::vector<NamedTensor> tensors,
                      tensors_of(input.tensors, input.tensor_count, "paro_load_options"));
        return checkpoint::load(
            checkpoint->reader, *runner->runner, {input.reset_optimizer != 0, std::move(tensors)});
      } catch (const std::bad_alloc&) {
        return ho::Status(ho::StatusCode::kOutOfMemory,
                          "no memory for this rank's share of states");
      }
    };
    return runner->runner->between_steps().restore(mine());
  });
}

}  // extern "C"
