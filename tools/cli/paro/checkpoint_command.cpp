#include "cli/paro/checkpoint_command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/store.hpp"
#include "cli/paro/checkpoint_bench.hpp"
#include "cli/paro/checkpoint_report.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::tool {
namespace {

using checkpoint::Path;
using checkpoint::Reader;

struct Request {
  std::string path;
  bool json = false;
  std::string file;
  std::string dtype = "float32";
  bool with_optimizer = false;
  bool force = false;
};

// A line that is written over, on a terminal, for what takes longer than two seconds.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (drawn_) {
      std::fputs("\r\x1b[K", stderr);
    }
  }
  void operator()(uint64_t done, uint64_t all) {
    const auto now = Clock::now();
    if (!terminal_ || all == 0 || now < next_) {
      return;
    }
    next_ = now + std::chrono::milliseconds(200);
    drawn_ = true;
    const auto percent = 100.0 * static_cast<double>(done) / static_cast<double>(all);
    std::fprintf(stderr,
                 "\r\x1b[K%s: %3.0f %% of %s",
                 what_.c_str(),
                 percent,
                 ho::bytes_text(static_cast<double>(all)).c_str());
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool drawn_ = false;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(2);
};

ho::Result<Reader> open(const std::string& path) {
  HORING_ASSIGN(const Path folder, checkpoint::find_checkpoint(path));
  return Reader::open(folder);
}

ho::Status inspect(const Request& request) {
  HORING_ASSIGN(const Reader reader, open(request.path));
  const std::string path = reader.folder().string();
  const std::string text = request.json ? checkpoint_json(path, reader.manifest())
                                        : checkpoint_text(path, reader.manifest());
  std::fputs(text.c_str(), stdout);
  return {};
}

ho::Status verify(const Request& request) {
  HORING_ASSIGN(const Reader reader, open(request.path));
  uint64_t bytes = 0;
  {
    ProgressLine line("checking");
    HORING_TRY(reader.verify([&](uint64_t done, uint64_t all) {
      bytes = done;
      line(done, all);
    }));
  }
  std::printf(
      "%s: sound; %s (%llu bytes) of data in %zu files have the checksums they were saved with\n",
      reader.folder().c_str(),
      ho::bytes_text(static_cast<double>(bytes)).c_str(),
      static_cast<unsigned long long>(bytes),
      reader.manifest().files.size());
  return {};
}

ho::DType dtype_of(const std::string& name) {
  if (name == "float32") {
    return ho::DType::kFloat32;
  }
  return name == "float16" ? ho::DType::kFloat16 : ho::DType::kBfloat16;
}

ho::Status write_export(const Request& request) {
  HORING_ASSIGN(const Reader reader, open(request.path));
  const checkpoint::ExportOptions options{
      dtype_of(request.dtype), request.with_optimizer, request.force};
  ProgressLine line("writing");
  const auto written = checkpoint::export_tensors(
      reader, request.file, options, [&](uint64_t done, uint64_t all) { line(done, all); });
  if (!written.ok()) {
    const bool taken = written.status().code() == ho::StatusCode::kInvalidArgument;
    return {written.status().code(),
            written.status().message() + (taken ? "; --force overwrites it" : "")};
  }
  std::printf("%s: %s (%llu bytes), step %llu\n",
              request.file.c_str(),
              ho::bytes_text(static_cast<double>(*written)).c_str(),
              static_cast<unsigned long long>(*written),
              static_cast<unsigned long long>(reader.manifest().step));
  return {};
}

CLI::App* declare(CLI::App& app, Request& request, const char* name, const char* purpose) {
  CLI::App* const command = app.add_subcommand(name, purpose);
  command
      ->add_option(
          "PATH", request.path, "a checkpoint, or a folder of them, of which the newest is taken")
      ->required();
  return command;
}

CLI::App* declare_bench(CLI::App& app, BenchOptions& options, std::string& strategy) {
  CLI::App* const command = app.add_subcommand(
      "bench",
      "in a running job (horing run): the time of a save beside that of as many bytes in one "
      "stream with fsync, and of training steps with and without a save in the background");
  command->add_option("FOLDER", options.folder, "on the disk in question")->required();
  command->add_option("--parameters", options.parameters, "12 bytes each [20000000]")
      ->check(CLI::Range(uint64_t{100'000}, uint64_t{1} << 34U));
  command->add_option("--strategy", strategy, "letters or a known name [IIG]");
  command->add_option("--rounds", options.rounds, "of all four, in turn [5]")
      ->check(CLI::Range(1, 1000));
  command->add_option("--steps", options.steps, "that one save in the background goes with [10]")
      ->check(CLI::Range(1, 100000));
  command->add_option("--forward-ms", options.forward_ms, "of each of five units [40]")
      ->check(CLI::Range(0.0, 10000.0));
  command->add_option("--json", options.json, "write what was measured to this file (rank 0)");
  return command;
}

}  // namespace

int checkpoint_command(int argc, const char* const* argv) {
  CLI::App app("Shows a checkpoint of paro_runner_save(), and measures saving.", "paro checkpoint");
  Request request;
  CLI::App* const inspecting =
      declare(app, request, "inspect", "what it is of: step, units, states, files");
  inspecting->add_flag("--json", request.json, "the manifest, with its path");
  CLI::App* const verifying =
      declare(app, request, "verify", "reads all of it and compares every checksum");
  CLI::App* const exporting =
      declare(app, request, "export", "its parameters as one safetensors file");
  exporting->add_option("FILE", request.file, "to be written")->required();
  exporting->add_option("--dtype", request.dtype, "of what was trained [float32]")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  exporting->add_flag("--optimizer", request.with_optimizer, "the optimizer's state too, fp32");
  exporting->add_flag("--force", request.force, "overwrite FILE");
  BenchOptions bench;
  std::string strategy = "IIG";
  const CLI::App* const measuring = declare_bench(app, bench, strategy);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
    if (measuring->parsed()) {
      const auto input = parse_strategy(strategy);
      if (!input.ok()) {
        throw CLI::ValidationError("--strategy: " + input.status().message());
      }
      bench.strategy = *input;
    }
  } catch (const CLI::ParseError& error) {
    return ho::exit_after(app, error);
  }
  if (measuring->parsed()) {
    return checkpoint_bench(bench);
  }
  const ho::Status status = inspecting->parsed()  ? inspect(request)
                            : verifying->parsed() ? verify(request)
                                                  : write_export(request);
  if (!status.ok()) {
    std::fprintf(stderr, "paro checkpoint: %s\n", ho::message_text(status.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace paro::tool
