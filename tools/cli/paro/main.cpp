// The `paro` program: planning, trying and inspecting training with sharded states.
#include <array>

#include "cli/paro/checkpoint_command.hpp"
#include "cli/paro/plan_command.hpp"
#include "cli/paro/strategies_command.hpp"
#include "cli/paro/train_command.hpp"
#include "cli/subcommands/dispatch.hpp"

namespace paro::tool {
namespace {

constexpr std::array kCommands{
    ho::Subcommand{"plan",
                   plan_command,
                   "memory and time of each strategy on a cluster, and which one to take"},
    ho::Subcommand{
        "train", train_command, "the toy model in a running job, with one strategy or with all"},
    ho::Subcommand{"checkpoint",
                   checkpoint_command,
                   "what a checkpoint is of, whether it is sound, its parameters as one file"},
    ho::Subcommand{
        "strategies", strategies_command, "the 14 strategies and what they are known as"},
};

}  // namespace
}  // namespace paro::tool

int main(int argc, char** argv) {
  return ho::dispatch({"paro", HORING_VERSION, paro::tool::kCommands}, argc, argv);
}
