#include "planner/training.hpp"

#include "catch.hpp"

namespace paro {

TEST_CASE("bytes of a parameter by optimizer and precision") {
  struct Row {
    OptimizerKind optimizer;
    Precision precision;
    double parameter, gradient, states;
  };
  const std::array rows{Row{OptimizerKind::kAdamW, Precision::kBf16, 2, 2, 12},
                        Row{OptimizerKind::kAdamW, Precision::kFp8, 2, 2, 12},
                        Row{OptimizerKind::kAdamW, Precision::kFp32, 4, 4, 8},
                        Row{OptimizerKind::kAdamW8Bit, Precision::kBf16, 2, 2, 6.03125},
                        Row{OptimizerKind::kSgd, Precision::kBf16, 2, 2, 4},
                        Row{OptimizerKind::kSgd, Precision::kTf32, 4, 4, 0},
                        Row{OptimizerKind::kSgdMomentum, Precision::kFp16, 2, 2, 8}};
  for (const Row& row : rows) {
    const BytesPerParameter bytes = bytes_of(row.optimizer, row.precision);
    INFO(to_string(row.optimizer) << " " << to_string(row.precision));
    CHECK(bytes.parameter == row.parameter);
    CHECK(bytes.gradient == row.gradient);
    CHECK(bytes.optimizer == row.states);
  }
}

TEST_CASE("a reserve is kept of a memory that is known") {
  CHECK(Reserve{}.bytes(80e9) == Approx(0.6e9 + 1e9 + 3.2e9));
  CHECK(Reserve{}.bytes(0) == 0);
}

TEST_CASE("a global batch divides among the ranks, or near ones are named") {
  CHECK(*sequences_of_rank(512, 128) == 4);
  CHECK(sequences_of_rank(500, 128).status().message() ==
        "--global-batch 500: does not divide among 128 ranks of data parallelism; 384 or 512 does");
  CHECK(sequences_of_rank(7, 128).status().message() ==
        "--global-batch 7: does not divide among 128 ranks of data parallelism; 128 does");
  CHECK_FALSE(sequences_of_rank(0, 128).ok());
  CHECK(sequences_of_rank(4294967295U, 4294967294U).status().message().find("8589934588") !=
        std::string::npos);
}

TEST_CASE("a micro-batch is the largest that divides and fits") {
  const auto chosen = [](uint32_t sequences, double left, uint32_t least = 1) {
    const Batch batch = choose_batch(sequences, left, 10, least);
    CHECK(batch.micro_batch * batch.accumulation == sequences);
    return batch.micro_batch;
  };
  CHECK(chosen(12, 1000) == 12);
  CHECK(chosen(12, 60) == 6);
  CHECK(chosen(12, 59) == 4);
  CHECK(chosen(12, 10) == 1);
  CHECK(chosen(12, 0) == 1);  // nothing fits: the planner says what is missing
  CHECK(chosen(12, -5) == 1);
  CHECK(chosen(12, 1000, 4) == 3);
  CHECK(chosen(7, 60) == 1);
  CHECK(choose_batch(4294967295U, 100, 10).micro_batch == 5);
}

}  // namespace paro
