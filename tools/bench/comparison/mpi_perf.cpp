// Times MPI's collectives the way the perf programs time ours: operations back to back, total / n,
// the slowest rank's counts. Built against whichever MPI is installed. A slow configuration gets
// fewer operations than it is given (never below 20), as many as fit the budget of seconds. Data
// are fp32 and the operation is the sum.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "bench/comparison/peer.hpp"

namespace {

using ho::comparison::Arguments;
using ho::comparison::Collective;
using ho::comparison::Result;
using ho::comparison::Run;

class MpiBench {
 public:
  MpiBench() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
  }

  [[nodiscard]] int rank() const { return rank_; }

  [[nodiscard]] Result measure(const Run& run, const Arguments& arguments) {
    count_ = ho::comparison::count_for(run, static_cast<uint64_t>(world_));
    const auto world = static_cast<size_t>(world_);
    const bool gather = run.collective == Collective::kAllGather;
    const bool scatter = run.collective == Collective::kReduceScatter;
    send_.assign(scatter ? count_ * world : count_, static_cast<float>(rank_ + 1));
    recv_.assign(gather ? count_ * world : count_, -1.0F);
    counts_.assign(world, static_cast<int>(count_));
    Result result{.run = run};
    operate(run.collective);
    result.wrong = wrong_elements(run.collective);
    int iterations = ho::comparison::choose_iterations(run, arguments, time_some(run.collective));
    MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
    result.iterations = iterations;
    result.time_us = time_back_to_back(run.collective, iterations);
    return result;
  }

 private:
  void operate(Collective collective) {
    const int count = static_cast<int>(count_);
    switch (collective) {
      case Collective::kAllGather:
        MPI_Allgather(
            send_.data(), count, MPI_FLOAT, recv_.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::kReduceScatter:  // the form that has a ring in Open MPI
        MPI_Reduce_scatter(
            send_.data(), recv_.data(), counts_.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::kAllReduce:
        MPI_Allreduce(send_.data(), recv_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
  }

  [[nodiscard]] uint64_t wrong_elements(Collective collective) {
    const auto world = static_cast<size_t>(world_);
    const float sum = static_cast<float>(world * (world + 1) / 2);
    uint64_t wrong = 0;
    for (size_t i = 0; i < recv_.size(); ++i) {
      const float gathered = static_cast<float>(i / std::max<size_t>(count_, 1) + 1);
      const float expected = collective == Collective::kAllGather ? gathered : sum;
      wrong += std::memcmp(&recv_[i], &expected, sizeof(float)) != 0 ? 1U : 0U;
    }
    uint64_t all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
  }

  // Seconds of one operation, roughly, on this rank.
  [[nodiscard]] double time_some(Collective collective) {
    const double start = MPI_Wtime();
    for (int i = 0; i < ho::comparison::kProbes; ++i) {
      operate(collective);
    }
    return (MPI_Wtime() - start) / ho::comparison::kProbes;
  }

  [[nodiscard]] double time_back_to_back(Collective collective, int iterations) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ho::comparison::kWarmup; ++i) {
      operate(collective);
    }
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) {
      operate(collective);
    }
    double each_us = (MPI_Wtime() - start) * 1e6 / iterations;
    double slowest_us = 0.0;
    MPI_Allreduce(&each_us, &slowest_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_us;
  }

  int rank_ = 0;
  int world_ = 1;
  size_t count_ = 0;
  std::vector<float> send_;
  std::vector<float> recv_;
  std::vector<int> counts_;
};

void run_all(const Arguments& arguments) {
  MpiBench bench;
  std::optional<ho::comparison::ResultFile> file;
  if (bench.rank() == 0) {
    file.emplace(arguments.json_file);
  }
  for (const Run& run : arguments.runs) {
    const Result result = bench.measure(run, arguments);
    if (file) {
      file->add(result);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = EXIT_SUCCESS;
  try {
    run_all(ho::comparison::read_arguments(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_perf: %s\n", error.what());
    status = EXIT_FAILURE;
  }
  MPI_Finalize();
  return status;
}
