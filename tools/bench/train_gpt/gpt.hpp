// A GPT on bytes: embedding and positions, blocks of attention and MLP, a norm and a head whose
// weight is the embedding's. Made of libtorch's modules and trained through libparo-torch.
//
// libtorch's headers take a minute to compile: they stay in gpt.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <paro/runner.hpp>
#include <string>
#include <vector>

namespace paro::gpt {

struct Shape {
  uint32_t layers = 4;
  uint32_t width = 64;
  uint32_t heads = 4;
  uint32_t context = 64;
  uint32_t lora_rank = 0;           // not 0: only low-rank matrices in attention are trained
  std::vector<std::string> freeze;  // names of parts
  uint64_t seed = 1;                // of initial values
};

// "embedding", "block0", .., "head"
[[nodiscard]] std::vector<std::string> part_names(const Shape& shape);

// By name, "part.weight"; empty: from the seed.
struct Value {
  std::vector<int64_t> shape;
  std::vector<float> elements;
};
using Values = std::map<std::string, Value>;
// "" or what keeps these from being the model's: all of the one are in the other, of one shape; but
// matrices of --lora-rank may be left out. The number of heads does not show in them.
[[nodiscard]] std::string misfit(const Shape& shape, const Values& values);

// Of a rank's micro-batch.
struct Cost {
  uint64_t parameters = 0;
  uint64_t trained = 0;
  // Of them, of the unit that the head shares: the embedding's, and its own norm's.
  uint64_t shared = 0;
  uint64_t shared_trained = 0;
  double seconds = 0;  // its computation, forward and backward
};
// Of a model of its own, with these samples, which it computes twice.
[[nodiscard]] Cost measure_cost(const Shape& shape,
                                bool bfloat16,
                                const std::vector<int64_t>& samples);

void set_threads(uint32_t threads);

class Gpt {
 public:
  // Collective.
  Gpt(horing::Communicator& job,
      const RunnerOptions& options,
      const Shape& shape,
      const Values& values = {});
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;
  ~Gpt();

  // One micro-batch: context + 1 bytes of each sample one after the other. The mean loss.
  [[nodiscard]] double train(const std::vector<int64_t>& samples);
  // Collective.
  [[nodiscard]] paro_step_report step();
  // Collective; on rank 0 `bytes` more bytes for a text of at least one, elsewhere nothing.
  [[nodiscard]] std::string continued(horing::Communicator& job,
                                      const std::string& text,
                                      uint32_t bytes,
                                      uint64_t seed);

  [[nodiscard]] Runner& runner();
  [[nodiscard]] const std::vector<Tensor>& tensors() const;

 private:
  struct Model;
  Shape shape_;
  std::unique_ptr<Model> model_;
};

}  // namespace paro::gpt
