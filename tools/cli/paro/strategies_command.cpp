#include "cli/paro/strategies_command.hpp"

#include <cstdio>
#include <string>

#include "cli/subcommands/table.hpp"
#include "planner/text/answer.hpp"
#include "strategy/strategy.hpp"

namespace paro::tool {

int strategies_command(int argc, const char* const* argv) {
  if (argc > 1) {
    const std::string word = argv[1];
    const bool help = argc == 2 && (word == "--help" || word == "-h");
    std::fputs(help ? "usage: paro strategies\n\nLists the 14 strategies.\n"
                    : "paro strategies: takes no arguments\n",
               help ? stdout : stderr);
    return help ? 0 : 2;
  }
  std::vector<ho::Column> columns{{"strategy", true, {}},
                                  {"parameters", true, {}},
                                  {"gradients", true, {}},
                                  {"optimizer state", true, {}},
                                  {"known as", true, {}}};
  for (const Strategy& strategy : all_strategies()) {
    ho::add_row(columns,
                {letters(strategy),
                 std::string(to_string(strategy.parameters)),
                 std::string(to_string(strategy.gradients)),
                 std::string(to_string(strategy.optimizer)),
                 known_as_text(strategy)});
  }
  std::fputs(ho::aligned(columns).c_str(), stdout);
  return 0;
}

}  // namespace paro::tool
