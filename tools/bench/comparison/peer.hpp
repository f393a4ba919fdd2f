// What the peers' benchmark programs share: their command line, how many operations they time, and
// the JSON they write. Header only, since each is built by another compiler wrapper.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace ho::comparison {

enum class Collective : uint8_t { kAllGather, kReduceScatter, kAllReduce };

inline constexpr int kProbes = 3;        // operations that show how long one takes
inline constexpr int kWarmup = 3;        // and those right before the timed ones
inline constexpr int kFewestTimed = 20;  // fewer let bursts of the shaper show

struct Run {
  Collective collective = Collective::kAllGather;
  uint64_t size_bytes = 0;  // total: what every rank receives (all_gather), sends, or both
  int most_iterations = kFewestTimed;
};

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

inline const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllReduce:
      return "all_reduce";
  }
  return "?";
}

// fp32 elements: per rank for all_gather and reduce_scatter, in all for all_reduce.
inline uint64_t count_for(const Run& run, uint64_t world_size) {
  const uint64_t elements = run.size_bytes / sizeof(float);
  return run.collective == Collective::kAllReduce ? elements : elements / world_size;
}

inline int choose_iterations(const Run& run, const Arguments& arguments, double seconds_each) {
  const double fit = seconds_each > 0.0 ? arguments.budget_seconds / seconds_each : 1e9;
  if (fit >= run.most_iterations) {
    return run.most_iterations;
  }
  return fit > kFewestTimed ? static_cast<int>(fit) : kFewestTimed;
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "all_gather:65536:40"
inline std::optional<Run> parse_run(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() != 3) {
    return std::nullopt;
  }
  for (const auto collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    if (parts[0] == to_string(collective)) {
      const int iterations = std::atoi(parts[2].c_str());
      return Run{collective,
                 std::strtoull(parts[1].c_str(), nullptr, 10),
                 iterations > kFewestTimed ? iterations : kFewestTimed};
    }
  }
  return std::nullopt;
}

inline bool take_argument(const std::string& name, const std::string& value, Arguments& out) {
  if (name == "--json") {
    out.json_file = value;
  } else if (name == "--budget") {
    out.budget_seconds = std::strtod(value.c_str(), nullptr);
  } else if (name == "--interfaces") {
    out.interfaces = split(value, ',');
  } else if (name == "--store") {
    out.store = value;
  } else if (name == "--algorithm") {
    out.algorithm = value;
  } else if (name == "--run") {
    const auto run = parse_run(value);
    if (!run) {
      return false;
    }
    out.runs.push_back(*run);
  } else {
    return false;
  }
  return true;
}

inline std::optional<Arguments> parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc || !take_argument(argv[i], argv[i + 1], arguments)) {
      std::fprintf(stderr,
                   "%s: cannot use '%s'; options: --json FILE --run COLLECTIVE:BYTES:ITERATIONS "
                   "[--budget SECONDS] [--interfaces A,B --store DIR --algorithm NAME]\n",
                   argv[0],
                   argv[i]);
      return std::nullopt;
    }
  }
  return arguments;
}

// The keys of nccl-tests and of our perf programs, those that tools/bench/comparison reads.
inline bool write_json(const std::string& file, const std::vector<Result>& results) {
  // A fresh one: what another has put there, a link say, is not written to.
  std::FILE* const out = std::fopen(file.c_str(), "wx");
  if (out == nullptr) {
    std::fprintf(
        stderr, "cannot write %s; give --json a file that is not there yet\n", file.c_str());
    return false;
  }
  std::fprintf(out, "{\"results\": [");
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    std::fprintf(
        out,
        "%s\n  {\"collective\": \"%s\", \"size\": %llu, \"type\": \"float\", \"redop\": "
        "\"%s\", \"out_of_place\": {\"time\": %.3f, \"nwrong\": %llu}, \"in_place\": null, "
        "\"actual_iterations\": %d}",
        i == 0 ? "" : ",",
        to_string(result.run.collective),
        static_cast<unsigned long long>(result.run.size_bytes),
        result.run.collective == Collective::kAllGather ? "none" : "sum",
        result.time_us,
        static_cast<unsigned long long>(result.wrong),
        result.iterations);
  }
  std::fprintf(out, "\n]}\n");
  return std::fclose(out) == 0;
}

}  // namespace ho::comparison
