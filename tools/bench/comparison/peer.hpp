// What the peers' benchmark programs share: their arguments, how many operations they time, and the
// JSON they write. Header only, since each is built by another compiler wrapper.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace ho::comparison {

enum class Collective : uint8_t { kAllGather, kReduceScatter, kAllReduce };
NLOHMANN_JSON_SERIALIZE_ENUM(Collective,
                             {{Collective::kAllGather, "all_gather"},
                              {Collective::kReduceScatter, "reduce_scatter"},
                              {Collective::kAllReduce, "all_reduce"}})

inline constexpr int kProbes = 3;        // operations that show how long one takes
inline constexpr int kWarmup = 3;        // and those right before the timed ones
inline constexpr int kFewestTimed = 20;  // fewer let bursts of the shaper show

struct Run {
  Collective collective = Collective::kAllGather;
  uint64_t size_bytes = 0;  // total: what every rank receives (all_gather), sends, or both
  int most_iterations = kFewestTimed;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Run, collective, size_bytes, most_iterations)

struct Result {
  Run run;
  int iterations = 0;
  double time_us = 0.0;
  uint64_t wrong = 0;
};

struct Arguments {
  std::string json_file;
  double budget_seconds = 1.0;  // of one run's timed operations
  std::vector<Run> runs;
  std::vector<std::string> interfaces;  // gloo_perf: a context on each
  std::string store;                    // gloo_perf: an empty directory that all ranks see
  std::string algorithm;                // gloo_perf: ring, bcube or halving_doubling
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    Arguments, json_file, budget_seconds, runs, interfaces, store, algorithm)

// The one argument is a file with them, as tools/bench/comparison/configs.py writes it. Throws.
inline Arguments read_arguments(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file.is_open()) {
    throw std::runtime_error(
        "takes a file with its arguments as JSON; tools/bench/compare starts it");
  }
  return nlohmann::json::parse(file).get<Arguments>();
}

// fp32 elements: per rank for all_gather and reduce_scatter, in all for all_reduce.
inline uint64_t count_for(const Run& run, uint64_t world_size) {
  const uint64_t elements = run.size_bytes / sizeof(float);
  return run.collective == Collective::kAllReduce ? elements : elements / world_size;
}

inline int choose_iterations(const Run& run, const Arguments& arguments, double seconds_each) {
  const double fit = seconds_each > 0.0 ? arguments.budget_seconds / seconds_each : 1e9;
  return fit >= run.most_iterations ? std::max(run.most_iterations, kFewestTimed)
                                    : std::max(static_cast<int>(fit), kFewestTimed);
}

// Of rank 0. A fresh one: what another has put there, a link say, is not written to.
class ResultFile {
 public:
  explicit ResultFile(const std::string& path)
      : file_(std::fopen(path.c_str(), "wx"), &std::fclose) {
    if (file_ == nullptr) {
      throw std::runtime_error("cannot write " + path + "; name a file that is not there yet");
    }
  }
  // Adds one, so that a later failure keeps those before. The keys of nccl-tests and of our perf
  // programs, those that tools/bench/comparison reads.
  void add(const Result& result) {
    const bool gathers = result.run.collective == Collective::kAllGather;
    content_["results"].push_back(
        {{"collective", result.run.collective},
         {"size", result.run.size_bytes},
         {"type", "float"},
         {"redop", gathers ? "none" : "sum"},
         {"out_of_place", {{"time", result.time_us}, {"nwrong", result.wrong}}},
         {"in_place", nullptr},
         {"actual_iterations", result.iterations}});
    std::rewind(file_.get());  // what follows is longer
    if (std::fputs(content_.dump().c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
      throw std::runtime_error("the results could not be written");
    }
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  nlohmann::json content_;
};

}  // namespace ho::comparison
