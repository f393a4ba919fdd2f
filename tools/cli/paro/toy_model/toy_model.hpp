// A small language model with exact gradients, called as a framework calls its layers: for tests
// and tools that train something real without a framework. Pure.
//
// The model is a row of units: an embedding, blocks (causal attention and a two-layer network, both
// with a residual path), perhaps a gain (one number that multiplies the hidden state), and a head
// (softmax and cross-entropy, the mean over the tokens of a micro-batch). Each unit's parameters
// are two flat arrays, the trained and the frozen ones; which arrays of a unit are frozen is
// configured. Sizes are configured too, so that units can be as uneven as anything: one element, a
// prime number of them, nothing trained.
//
// The model does not depend on sharding. It reads a unit's whole parameters in the type they have,
// computes in fp32, and adds gradients to a buffer of the type that the buffer has. All functions
// are const, and ranks that are threads can share a model; a Pass belongs to one micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"

namespace paro::toy {

// Makes the first element of a unit's trained gradient infinite, in each micro-batch that holds a
// certain sample of a certain step: the same overflow however samples are dealt to ranks.
struct Poison {
  uint64_t step = 0;
  uint64_t sample = 0;
  size_t unit = 0;
};

struct Configuration {
  uint32_t vocabulary = 16;
  uint32_t dim = 8;
  uint32_t hidden = 12;
  uint32_t blocks = 2;
  uint32_t sequence = 6;  // tokens per sample
  bool attention = true;
  bool gain = true;
  bool tie_head = false;  // the head has the embedding's array, and none of its own
  bool freeze_embedding = false;
  bool freeze_up = false;  // of each block: the first linear map of the two-layer network
  double noise = 0.1;      // share of tokens that do not follow the rule
  uint64_t seed = 1;       // of weights and data
  std::optional<Poison> poison{};
};

// Ok, or which size or choice cannot work.
[[nodiscard]] ho::Status check(const Configuration& configuration);

struct UnitCounts {
  std::string name;
  uint64_t trained = 0;
  uint64_t frozen = 0;
  std::optional<uint32_t> shares{};  // a unit before it, whose parameters it computes with
};

// One unit's parameters: units()[home(u)].trained and .frozen elements. A pointer to no elements
// may be null. Types: kFloat32, kFloat16, kBfloat16.
struct Parameters {
  ho::DType dtype = ho::DType::kFloat32;
  const void* trained = nullptr;
  const void* frozen = nullptr;
};
// units()[home(u)].trained elements; its type may be another one than the parameters'.
struct Gradients {
  ho::DType dtype = ho::DType::kFloat32;
  void* trained = nullptr;
};

struct Samples {
  uint64_t first = 0;
  uint32_t count = 0;
};
struct Batch {
  std::vector<uint32_t> tokens;  // sequence per sample
  std::vector<uint32_t> targets;
  // The unit whose gradient is spoiled; callers may set it by hand, for one rank.
  std::optional<size_t> poisoned{};
};

// One micro-batch on its way through the units.
struct Pass {
  Batch batch;
  std::vector<std::vector<float>> inputs{};  // by unit
  std::vector<float> flow{};  // forward: the last unit's result; backward: the gradient of it
  double loss = 0;            // once the head's forward has run; without the loss scale
};

class Model {
 public:
  [[nodiscard]] static ho::Result<Model> make(const Configuration& configuration);

  [[nodiscard]] const Configuration& configuration() const { return configuration_; }
  [[nodiscard]] const std::vector<UnitCounts>& units() const { return counts_; }
  // Whose parameters a unit computes with, and whose gradients it adds to.
  [[nodiscard]] uint32_t home(uint32_t unit) const { return counts_[unit].shares.value_or(unit); }
  // A weight begins the same whether it is frozen or not.
  void initial(size_t unit, std::span<float> trained, std::span<float> frozen) const;

  // Each token is a function of the one before, but for the noise. Samples of a step differ from
  // those of any other.
  [[nodiscard]] Batch batch_of(uint64_t step, const Samples& samples) const;
  [[nodiscard]] Pass begin(Batch batch) const;

  // Once for each unit in order.
  void forward(size_t unit, const Parameters& parameters, Pass& pass) const;
  // Once for each unit in the opposite order, after all forwards. Adds the gradient of loss_scale
  // times the loss: reads the buffer, adds in fp32, rounds once.
  void backward(size_t unit,
                const Parameters& parameters,
                const Gradients& gradients,
                Pass& pass,
                double loss_scale) const;

 private:
  enum class Kind : uint8_t { kEmbedding, kBlock, kGain, kHead };
  struct Array {
    size_t count = 0;
    size_t begin = 0;  // among all of the unit's arrays, frozen or not
    float reach = 0;   // initial values lie within +-reach of `middle`
    float middle = 0;
    bool frozen = false;
  };
  struct Unit {
    Kind kind = Kind::kBlock;
    std::vector<Array> arrays;
    size_t count = 0;
  };

  explicit Model(const Configuration& configuration);
  void add_unit(std::string name, Kind kind, std::vector<Array> arrays);
  void add_head();
  [[nodiscard]] std::vector<Array> block_arrays() const;
  [[nodiscard]] std::vector<float> widened(const Unit& unit, const Parameters& parameters) const;
  static void spoil_first(const Unit& unit, std::span<float> dweights);
  static void add(const Unit& unit, std::span<const float> from, const Gradients& to);
  [[nodiscard]] std::vector<float> result_of(const Unit& unit,
                                             std::span<const float> weights,
                                             std::span<const float> x,
                                             Pass& pass) const;
  // pass.flow becomes the gradient of the unit's input.
  void gradients_of(size_t unit,
                    std::span<const float> weights,
                    std::span<float> dweights,
                    Pass& pass,
                    double loss_scale) const;

  Configuration configuration_;
  std::vector<Unit> units_;
  std::vector<UnitCounts> counts_;
};

}  // namespace paro::toy
