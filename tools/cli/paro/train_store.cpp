#include "cli/paro/train_store.hpp"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/load.hpp"
#include "checkpoint/store.hpp"
#include "cli/paro/job/must.hpp"
#include "run/agreement.hpp"

namespace paro::tool {
namespace {

constexpr const char* kSamples = "samples_per_step";
constexpr uint64_t kSaveTimeoutMs = 10ULL * 60 * 1000;

// 0 where this program did not save it.
uint64_t saved_samples(const checkpoint::Manifest& manifest) {
  const auto state = nlohmann::json::parse(manifest.job_state, nullptr, false);
  const auto found = state.is_object() ? state.find(kSamples) : state.end();
  return found != state.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

OwnedComm communicator_for(const SaveSettings& plan, StepRunner& runner) {
  return plan.folder.empty() ? OwnedComm() : must(runner.between_steps().new_communicator("save"));
}

}  // namespace

TrainStore::TrainStore(horing::Communicator& job,
                       const SaveSettings& plan,
                       const toy::Training& training,
                       const std::unique_ptr<StepRunner>& runner)
    : job_(job),
      plan_(plan),
      training_(training),
      runner_(runner),
      saver_(communicator_for(plan, *runner)) {}

uint64_t TrainStore::samples_per_step() const {
  return uint64_t{training_.samples} * training_.runner.micro_batches *
         static_cast<uint64_t>(job_.world_size());
}

// The runner reports this rank's own failure to the others.
TrainStore::Start TrainStore::restore() {
  Start start;
  const auto mine = [&]() -> ho::Result<Snapshot> {
    HORING_ASSIGN(const auto folder, checkpoint::find_checkpoint(plan_.folder));
    HORING_ASSIGN(const auto reader, checkpoint::Reader::open(folder));
    start.step = reader.manifest().called_steps;
    start.same_batches = saved_samples(reader.manifest()) == samples_per_step();
    if (start.step >= training_.steps) {
      return ho::invalid(folder.string() + " has " + std::to_string(start.step) +
                         " steps behind it: --steps counts from the beginning, take more");
    }
    return checkpoint::load(reader, *runner_, {});
  };
  must(runner_->between_steps().restore(mine()).with_context("--resume"));
  if (job_.rank() == 0) {
    std::fprintf(stderr,
                 "paro train: goes on after step %llu of %s%s\n",
                 static_cast<unsigned long long>(start.step),
                 plan_.folder.c_str(),
                 start.same_batches ? ""
                                    : "; its steps had batches of another size, so that the loss "
                                      "is not compared with one rank's");
  }
  return start;
}

TrainStore::Start TrainStore::begin() {
  if (plan_.folder.empty()) {
    return {};
  }
  const Start start = plan_.resume ? restore() : Start();
  ho::Result<ho::Fd> claim = ho::Fd();
  if (job_.rank() == 0) {
    claim = checkpoint::claim_folder(plan_.folder, training_.steps, plan_.resume);
  }
  must(all_ok(job_.get(), claim.status().with_context("--save")));
  claim_ = std::move(claim).value();
  return start;
}

void TrainStore::after_step(uint64_t steps) {
  const bool due = steps == training_.steps || (plan_.every > 0 && steps % plan_.every == 0);
  if (plan_.folder.empty() || !due) {
    return;
  }
  must(saver_.wait().with_context("--save"));
  auto request = checkpoint::request_of(
      *runner_, std::filesystem::absolute(plan_.folder), checkpoint::SaveFrom::kCopy);
  if (request.ok()) {
    request->manifest.job_state = nlohmann::json{{kSamples, samples_per_step()}}.dump();
  }
  must(saver_.start(std::move(request), {kSaveTimeoutMs, true}).with_context("--save"));
}

void TrainStore::finish() {
  must(saver_.wait().with_context("--save"));
}

}  // namespace paro::tool
