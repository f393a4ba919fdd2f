// A job that stops and goes on, elsewhere and otherwise, trains as one that never stopped.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;
using ho::test::TemporaryFolder;

namespace {

struct CloseCheckpoint {
  void operator()(paro_checkpoint* checkpoint) const { paro_checkpoint_close(checkpoint); }
};
using OpenedCheckpoint = std::unique_ptr<paro_checkpoint, CloseCheckpoint>;

OpenedCheckpoint opened(const std::string& path) {
  paro_checkpoint* checkpoint = nullptr;
  must(paro_checkpoint_open(path.c_str(), &checkpoint));
  return OpenedCheckpoint(checkpoint);
}

toy::Training training_of(const std::string& triple) {
  toy::Training training = hard_training(parse_strategy(triple).value(), 1);
  training.samples = 4;
  return training;
}

// Part of a training, on some shape and with some strategy.
struct Leg {
  const char* nodes;
  const char* strategy;
  uint32_t world;
};

// The legs' steps one after the other, each job from the checkpoint of the one before.
toy::Outcome train_in_legs(const std::vector<Leg>& legs,
                           uint32_t steps,
                           const std::string& folder) {
  toy::Outcome outcome;
  std::mutex guard;
  for (uint32_t leg = 0; leg < legs.size(); ++leg) {
    toy::Training training = training_of(legs[leg].strategy);
    training.samples = 16 / legs[leg].world;  // the same global batch
    require_job({legs[leg].nodes}, [&](ho_comm* comm) {
      Trainer trainer(comm, training);
      if (leg > 0) {
        const OpenedCheckpoint checkpoint = opened(folder);
        must(paro_runner_restore(trainer.runner(), checkpoint.get(), nullptr));
        must(paro_runner_check_drift(trainer.runner()));
      }
      for (uint32_t i = 0; i < steps; ++i) {
        const toy::StepOutcome step = trainer.step(comm, leg * steps + i);
        if (ho_comm_rank(comm) == 0) {
          const std::scoped_lock lock(guard);
          outcome.steps.push_back(step);
        }
      }
      must(paro_runner_save(trainer.runner(), folder.c_str(), nullptr));
      const auto masters = trainer.masters();
      if (ho_comm_rank(comm) == 0) {
        const std::scoped_lock lock(guard);
        outcome.masters = masters;
      }
    });
  }
  return outcome;
}

toy::Outcome alone_for(uint32_t steps) {
  toy::Training training = training_of("NNN");
  training.steps = steps;
  return train_single_rank(4, training);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

// Saves a few steps of a job of two ranks; the checkpoint's folder.
std::filesystem::path save_small(const TemporaryFolder& folder) {
  toy::Training training = training_of("NIG");
  require_job({"2x1"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    paro_save_options options = PARO_SAVE_OPTIONS_INIT;
    const std::string own = "rank " + std::to_string(ho_comm_rank(comm));
    options.rank_state = own.data();
    options.rank_state_bytes = own.size();
    options.job_state = "{\"text\": \"\xc3\xa4\"}";
    must(paro_runner_save(trainer.runner(), folder.root().c_str(), &options));
  });
  return folder.root() / "step-1";
}

}  // namespace

TEST_CASE("goes on from a checkpoint with other ranks, groups and strategies") {
  const TemporaryFolder folder;
  const std::vector<Leg> legs{{"2x2", "IIG", 4},
                              {"3+1", "GGG", 4},
                              {"2x1", "NNN", 2},
                              {"4x1", "NIG", 4},
                              {"1+1+2", "III", 4},
                              {"1x1", "NNG", 1},
                              {"2x4", "IGG", 8},
                              {"2x2", "NII", 4}};
  constexpr uint32_t kSteps = 5;
  const toy::Outcome trained = train_in_legs(legs, kSteps, folder.path("runs"));
  CHECK(difference(trained, alone_for(kSteps * 8), kFloat32Tolerance).empty());
  // Two stay; of a step that was left out there is none.
  CHECK(files_in(folder.path("runs")).size() == 4);  // with the lock and the name of the latest
  CHECK(std::filesystem::exists(folder.path("runs/step-39/manifest.json")));
}

TEST_CASE("strategies change in a running job") {
  std::vector<std::string> strategies;
  for (const Strategy& strategy : all_strategies()) {
    strategies.push_back(letters(strategy));
  }
  for (const char* nodes : {"2x2", "3+1"}) {
    toy::Training training = training_of("NNN");
    training.steps = 28;
    const toy::Outcome alone = train_single_rank(4, training);
    require_job({nodes}, [&](ho_comm* comm) {
      Trainer trainer(comm, training);
      toy::Outcome outcome;
      for (uint32_t s = 0; s < training.steps; ++s) {
        if (s % 2 == 1) {
          // Near and far ones in turn.
          const std::string& next = strategies[size_t{s / 2} * 5 % strategies.size()];
          must(paro_runner_change_strategy(trainer.runner(), next.c_str(), 0));
          char letters[4] = {};
          must(paro_runner_strategy(trainer.runner(), letters, sizeof letters));
          expect(next == letters, "has the strategy " + next);
        }
        outcome.steps.push_back(trainer.step(comm, s));
      }
      must(paro_runner_check_drift(trainer.runner()));
      outcome.masters = trainer.masters();
      const std::string differs = difference(outcome, alone, kFloat32Tolerance);
      expect(differs.empty(), differs);
    });
  }
}

TEST_CASE("one rank saves, restores and changes its strategy") {
  const TemporaryFolder folder;
  toy::Training training = training_of("NNN");
  training.steps = 6;
  const toy::Outcome alone = train_single_rank(1, training);
  require_job({"1x1"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    toy::Outcome outcome;
    for (uint32_t s = 0; s < training.steps; ++s) {
      must(paro_runner_change_strategy(trainer.runner(), s % 2 == 0 ? "GGG" : "NII", 0));
      must(paro_runner_save(trainer.runner(), folder.root().c_str(), nullptr));
      outcome.steps.push_back(trainer.step(comm, s));
      must(paro_runner_restore(trainer.runner(), opened(folder.root()).get(), nullptr));
      static_cast<void>(trainer.step(comm, s));
    }
    outcome.masters = trainer.masters();
    const std::string differs = difference(outcome, alone, kFloat32Tolerance);
    expect(differs.empty(), differs);
  });
}

TEST_CASE("steps that were left out count on, also after a change and a restore") {
  const TemporaryFolder folder;
  toy::Training training = training_of("IIG");
  require_job({"2x2"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    uint64_t applied = 0;
    paro_step_report report = PARO_STEP_REPORT_INIT;
    for (uint64_t s = 0; s < training.steps; ++s) {  // one of them overflows
      static_cast<void>(trainer.compute(s));
      must(paro_runner_step(trainer.runner(), &report));
      applied += report.applied != 0 ? 1 : 0;
      expect(report.step == s + 1, "counts steps");
      if (s % 10 == 9) {
        must(paro_runner_change_strategy(trainer.runner(), s % 20 == 9 ? "NNG" : "GGG", 0));
        must(paro_runner_save(trainer.runner(), folder.root().c_str(), nullptr));
        must(paro_runner_restore(trainer.runner(), opened(folder.root()).get(), nullptr));
      }
    }
    expect(applied + 1 == training.steps, "one was left out");
    expect(paro_runner_applied_steps(trainer.runner()) == applied, "and does not count");
  });
}

TEST_CASE("a change of strategy that cannot be leaves the job as it was") {
  const toy::Training training = training_of("GGG");
  require_job({"2x2"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    const auto before = trainer.masters();
    uint64_t intra = 0;
    uint64_t inter = 0;
    must(paro_runner_sent_bytes(trainer.runner(), PARO_PHASE_FORWARD, &intra, &inter));
    expect_refusal(paro_runner_change_strategy(trainer.runner(), "NNN", 1000),
                   HO_OUT_OF_MEMORY,
                   "the job goes on with GGG");
    expect_refusal(
        paro_runner_change_strategy(trainer.runner(), "GNN", 0), HO_INVALID_ARGUMENT, "GNN");
    const bool first = ho_comm_rank(comm) == 0;
    expect_refusal(paro_runner_change_strategy(trainer.runner(), first ? nullptr : "NNN", 0),
                   HO_INVALID_ARGUMENT,
                   first ? "a null strategy" : "rank 0 cannot take part: ");
    expect_refusal(paro_runner_change_strategy(trainer.runner(), first ? "NNN" : "III", 0),
                   HO_MISMATCH,
                   "rank 0 changes to NNN (frozen parameters at ");
    expect(trainer.masters() == before, "keeps masters");
    uint64_t intra_after = 0;
    uint64_t inter_after = 0;
    must(paro_runner_sent_bytes(trainer.runner(), PARO_PHASE_FORWARD, &intra_after, &inter_after));
    expect(intra == intra_after && inter == inter_after, "keeps counts of bytes");
    static_cast<void>(trainer.step(comm, 1));
  });
}

TEST_CASE("a checkpoint keeps what the framework gives along") {
  const TemporaryFolder folder;
  const std::filesystem::path saved = save_small(folder);
  for (const std::string& path : {folder.root().string(), saved.string()}) {
    const OpenedCheckpoint checkpoint = opened(path);
    CHECK(paro_checkpoint_step(checkpoint.get()) == 1);
    CHECK(paro_checkpoint_world_size(checkpoint.get()) == 2);
    CHECK(std::string(paro_checkpoint_job_state(checkpoint.get())) == "{\"text\": \"\xc3\xa4\"}");
    char text[16] = {};
    uint64_t bytes = 0;
    must(paro_checkpoint_rank_state(checkpoint.get(), 1, text, sizeof text, &bytes));
    CHECK(std::string(text, bytes) == "rank 1");
    must(paro_checkpoint_rank_state(checkpoint.get(), 2, text, sizeof text, &bytes));
    CHECK(bytes == 0);
    must(paro_checkpoint_rank_state(checkpoint.get(), 0, nullptr, 0, &bytes));
    CHECK(bytes == 6);
  }
}

TEST_CASE("saves in the background, and keeps as many as it is told") {
  const TemporaryFolder folder;
  const toy::Training training = training_of("IIG");
  require_job({"2x2"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    paro_save_options options = PARO_SAVE_OPTIONS_INIT;
    options.in_background = 1;
    options.keep = 3;
    must(paro_runner_wait_save(trainer.runner()));
    for (uint64_t s = 0; s < 6; ++s) {
      static_cast<void>(trainer.step(comm, s));
      must(paro_runner_save(trainer.runner(), folder.root().c_str(), &options));
    }
    // Again the same step: replaces it.
    must(paro_runner_save(trainer.runner(), folder.root().c_str(), &options));
    must(paro_runner_wait_save(trainer.runner()));
  });
  CHECK(files_in(folder.root()).size() == 5);
  CHECK(paro_checkpoint_step(opened(folder.root()).get()) == 6);
}

TEST_CASE("a disk's errors do not end the training") {
  const TemporaryFolder folder;
  write(folder.path("file"), "not a folder");
  const toy::Training training = training_of("GGG");
  require_job({"2x2"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    expect_refusal(paro_runner_save(trainer.runner(), folder.path("file").c_str(), nullptr),
                   HO_SYSTEM,
                   "Not a directory");
    expect_refusal(
        paro_runner_save(trainer.runner(), nullptr, nullptr), HO_INVALID_ARGUMENT, "no folder");
    // One rank's mistake is everybody's outcome.
    paro_save_options options = PARO_SAVE_OPTIONS_INIT;
    const uint64_t shape = 1000000;
    const paro_tensor tensor{"too long", 0, 0, 0, &shape, 1};
    options.tensors = &tensor;
    options.tensor_count = ho_comm_rank(comm) == 2 ? 1 : 0;
    expect_refusal(paro_runner_save(trainer.runner(), folder.path("saved").c_str(), &options),
                   HO_INVALID_ARGUMENT,
                   "ends beyond");
    // In the background too, before anything is copied.
    options.in_background = 1;
    expect_refusal(paro_runner_save(trainer.runner(), folder.path("saved").c_str(), &options),
                   HO_INVALID_ARGUMENT,
                   "ends beyond");
    options.tensor_count = 0;
    must(paro_runner_save(trainer.runner(), folder.path("file").c_str(), &options));
    static_cast<void>(trainer.step(comm, 1));
    expect_refusal(paro_runner_wait_save(trainer.runner()), HO_SYSTEM, "Not a directory");
    must(paro_runner_save(trainer.runner(), folder.path("saved").c_str(), nullptr));
  });
}

TEST_CASE("a checkpoint of something else is refused on all ranks") {
  const TemporaryFolder folder;
  save_small(folder);
  toy::Training other = training_of("GGG");
  other.runner.rule = Sgd{0.1, 0.9, 0};
  require_job({"2x2"}, [&](ho_comm* comm) {
    const OpenedCheckpoint checkpoint = opened(folder.root());
    Trainer trainer(comm, other);
    const auto before = trainer.masters();
    expect_refusal(paro_runner_restore(trainer.runner(), checkpoint.get(), nullptr),
                   HO_INVALID_ARGUMENT,
                   "exp_avg");
    expect_refusal(
        paro_runner_restore(
            trainer.runner(), ho_comm_rank(comm) == 1 ? nullptr : checkpoint.get(), nullptr),
        HO_INVALID_ARGUMENT,
        "");
    paro_load_options options = PARO_LOAD_OPTIONS_INIT;
    options.reserved = 7;
    expect_refusal(paro_runner_restore(trainer.runner(), checkpoint.get(), &options),
                   HO_INVALID_ARGUMENT,
                   "paro_load_options.reserved is 7; it must be 0");
    expect(trainer.masters() == before, "changes nothing");
    options = PARO_LOAD_OPTIONS_INIT;
    options.reset_optimizer = 1;
    must(paro_runner_restore(trainer.runner(), checkpoint.get(), &options));
    expect(trainer.masters() != before, "loads masters");
    expect(paro_runner_applied_steps(trainer.runner()) == 1, "and steps");
    static_cast<void>(trainer.step(comm, 1));
  });
  // An optimizer that begins anew is at its first step: Adam's first update is the rate itself.
  toy::Training anew = training_of("GGG");
  anew.runner.rule = AdamW{0.01, 0.9, 0.999, 1e-12, 0};
  require_job({"2x1"}, [&](ho_comm* comm) {
    const OpenedCheckpoint checkpoint = opened(folder.root());
    Trainer trainer(comm, anew);
    paro_load_options options = PARO_LOAD_OPTIONS_INIT;
    options.reset_optimizer = 1;
    must(paro_runner_restore(trainer.runner(), checkpoint.get(), &options));
    const auto before = trainer.masters();
    static_cast<void>(trainer.step(comm, 1));
    const auto after = trainer.masters();
    size_t moved = 0;
    size_t by_the_rate = 0;
    for (size_t u = 0; u < before.size(); ++u) {
      for (size_t i = 0; i < before[u].size(); ++i) {
        const float by = std::abs(after[u][i] - before[u][i]);
        expect(by < 0.0101F, "moves by the rate at most");
        moved += by > 0 ? 1 : 0;
        by_the_rate += by > 0.0099F ? 1 : 0;
      }
    }
    // All but those whose gradient is nearly 0. At the second step it is three quarters of it.
    expect(moved > 0 && by_the_rate * 10 > moved * 9, "moves by the rate at least");
    options.reset_optimizer = ho_comm_rank(comm);
    expect_refusal(
        paro_runner_restore(trainer.runner(), checkpoint.get(), &options), HO_MISMATCH, "restore");
  });
  toy::Training larger = training_of("GGG");
  larger.model.hidden += 2;
  require_job({"2x1"}, [&](ho_comm* comm) {
    const OpenedCheckpoint checkpoint = opened(folder.root());
    Trainer trainer(comm, larger);
    expect_refusal(paro_runner_restore(trainer.runner(), checkpoint.get(), nullptr),
                   HO_INVALID_ARGUMENT,
                   "where this model has");
  });
}

TEST_CASE("damage anywhere is noticed, and changes nothing") {
  const TemporaryFolder folder;
  const std::filesystem::path saved = save_small(folder);
  const toy::Training training = training_of("IIG");
  const auto files = files_in(saved);
  REQUIRE(files.size() == 3);
  for (const auto& file : files) {
    const std::string whole = bytes_of(file);
    const bool manifest = file.filename() == "manifest.json";
    for (size_t i = 0; i < 12; ++i) {
      std::string damaged = whole;
      const size_t at_index = whole.size() * i / 12;
      damaged[at_index] = static_cast<char>(damaged[at_index] ^ 0x10);
      if (i == 11) {
        damaged = whole.substr(0, at_index);
      }
      write(file, damaged);
      paro_checkpoint* checkpoint = nullptr;
      const ho_status status = paro_checkpoint_open(saved.c_str(), &checkpoint);
      const OpenedCheckpoint owned(checkpoint);
      INFO(file << " at " << at_index << ": " << paro_last_error_message());
      if (status == HO_OK) {
        CHECK(!manifest);
        require_job({"1x1"}, [&](ho_comm* comm) {
          Trainer trainer(comm, training);
          const auto before = trainer.masters();
          expect_refusal(
              paro_runner_restore(trainer.runner(), checkpoint, nullptr), HO_PROTOCOL, "checksum");
          expect(trainer.masters() == before, "changes nothing");
        });
      } else {
        CHECK(status == HO_PROTOCOL);
      }
    }
    write(file, whole);
  }
  // A file of another checkpoint, and one that is gone.
  std::filesystem::copy_file(saved / "rank-00000.safetensors",
                             saved / "rank-00001.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  paro_checkpoint* checkpoint = nullptr;
  expect_refusal(paro_checkpoint_open(saved.c_str(), &checkpoint), HO_PROTOCOL, "rank-00001");
  std::filesystem::remove(saved / "rank-00001.safetensors");
  expect_refusal(paro_checkpoint_open(saved.c_str(), &checkpoint), HO_SYSTEM, "No such file");
  expect_refusal(
      paro_checkpoint_open(folder.path("none").c_str(), &checkpoint), HO_SYSTEM, "No such file");
  std::filesystem::create_directory(folder.path("empty"));
  expect_refusal(paro_checkpoint_open(folder.path("empty").c_str(), &checkpoint),
                 HO_INVALID_ARGUMENT,
                 "no checkpoint");
}

TEST_CASE("who cannot restore is named by its rank in the job, whatever the order of shards") {
  const TemporaryFolder folder;
  const std::filesystem::path saved = save_small(folder);
  const std::filesystem::path damaged = folder.path("damaged");
  std::filesystem::copy(saved, damaged, std::filesystem::copy_options::recursive);
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
    std::string bytes = bytes_of(damaged / name);
    for (size_t i = bytes.size() / 2; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    }
    write(damaged / name, bytes);
  }
  const toy::Training training = training_of("IIG");
  require_job({"2x2"}, [&](ho_comm* comm) {
    const bool mine = ho_comm_rank(comm) == 1;
    paro_checkpoint* checkpoint = nullptr;
    must(paro_checkpoint_open((mine ? damaged : saved).c_str(), &checkpoint));
    const OpenedCheckpoint owned(checkpoint);
    Trainer trainer(comm, training);
    const auto before = trainer.masters();
    expect_refusal(paro_runner_restore(trainer.runner(), checkpoint, nullptr),
                   HO_PROTOCOL,
                   mine ? "checksum" : "rank 1 cannot take part: ");
    expect(trainer.masters() == before, "changes nothing");
  });
}
