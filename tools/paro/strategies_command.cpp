#include "paro/strategies_command.hpp"

#include <cstdio>
#include <string>

#include "paro/columns.hpp"
#include "paro/report.hpp"
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
  std::vector<Column> columns{{"strategy", true, {}},
                              {"parameters", true, {}},
                              {"gradients", true, {}},
                              {"optimizer state", true, {}},
                              {"known as", true, {}}};
  for (const Strategy& strategy : all_strategies()) {
    columns[0].cells.push_back(letters(strategy));
    columns[1].cells.emplace_back(describe(strategy.parameters));
    columns[2].cells.emplace_back(describe(strategy.gradients));
    columns[3].cells.emplace_back(describe(strategy.optimizer));
    columns[4].cells.push_back(known_as_text(strategy));
  }
  std::fputs(aligned(columns).c_str(), stdout);
  return 0;
}

}  // namespace paro::tool
