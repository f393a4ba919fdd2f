// Trains a small GPT: libparo linked into a framework, as a program that is started as any other.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/train_gpt/gpt.hpp"
#include "bench/train_gpt/options.hpp"
#include "bench/train_gpt/training.hpp"
#include "cli/subcommands/option_error.hpp"
#include "cli/subcommands/standard_output.hpp"

namespace {

// torch's have a stack trace below.
std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

int run(int argc, const char* const* argv) {
  const auto parsed = paro::gpt::parse_options(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  try {
    auto job = horing::Communicator::create();
    try {
      paro::gpt::set_threads(parsed.options.threads);
      paro::gpt::train(job, parsed.options);
      return 0;
    } catch (const paro::gpt::Refusal& refusal) {
      if (job.rank() == 0) {
        std::fprintf(stderr, "train_gpt: %s\n", first_line(refusal.what()).c_str());
      }
      return ho::fail_after_first_rank(1);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_gpt: %s\n", first_line(error.what()).c_str());
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader of --json that leaves ends no training: that it could not be written is printed at the
  // end.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  return ho::status_after_output("train_gpt", run(argc, argv));
}
