#include "transport/tcp/striping.hpp"

#include <array>

#include "catch.hpp"

namespace ho::tcp {

TEST_CASE("equal weights give messages to connections in turn, whatever the weight is") {
  for (const uint8_t weight : {uint8_t{1}, uint8_t{3}, kMaxWeight}) {
    const std::array<uint8_t, 3> weights{weight, weight, weight};
    const Striping striping(weights);
    for (uint64_t message = 0; message < 9; ++message) {
      CHECK(striping.connection_of(message) == message % 3);
    }
  }
}

TEST_CASE("each connection takes its weight of any messages in a row, within two") {
  const std::vector<std::vector<uint8_t>> all{
      {1}, {1, 2}, {4, 3, 3, 3}, {16, 1}, {2, 4, 6}, {1, 1, 0}};
  for (const auto& weights : all) {
    const Striping striping(weights);
    double sum = 0;
    for (const uint8_t weight : weights) {
      sum += weight;
    }
    for (uint64_t first = 0; first < 30; ++first) {
      std::vector<double> taken(weights.size());
      for (uint64_t count = 1; count <= 60; ++count) {
        ++taken.at(striping.connection_of(first + count - 1));
        for (size_t i = 0; i < weights.size(); ++i) {
          const double share = static_cast<double>(count) * weights[i] / sum;
          INFO("connection " << i << " of " << weights.size() << ", " << count << " messages from "
                             << first);
          CHECK(taken[i] > share - 2);
          CHECK(taken[i] < share + 2);
        }
      }
    }
  }
}

}  // namespace ho::tcp
