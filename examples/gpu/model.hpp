// A small language model on a device: it says the next token. Units are an embedding, blocks
// (y = x + tanh(W x + b)) and a head. It is the same whoever holds parameters and gradients.
//
// `Gpu` has the device's memory and a stream (train.cu has CUDA's):
//   Array<T> allocate<T>(count);  upload(array, values);  values = download(array);  in order of
//   the stream, launch<function>(threads, arguments...);  stream()
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "kernels.hpp"

namespace example {

struct Settings {
  uint32_t vocabulary = 64;
  uint32_t width = 32;
  uint32_t blocks = 3;
  uint32_t tokens = 256;  // of a micro-batch on one GPU
  uint32_t micro_batches = 2;
  uint32_t steps = 60;
  AdamW rule;
};

template <class Gpu>
class Model {
 public:
  Model(Gpu& gpu, const Settings& settings)
      : gpu_(gpu),
        settings_(settings),
        tokens_(gpu.template allocate<uint32_t>(settings.micro_batches * settings.tokens)),
        targets_(gpu.template allocate<uint32_t>(settings.micro_batches * settings.tokens)),
        losses_(gpu.template allocate<float>(settings.micro_batches * settings.tokens)),
        logits_(gpu.template allocate<float>(settings.tokens * settings.vocabulary)),
        slopes_(gpu.template allocate<float>(settings.tokens * settings.width)),
        hidden_slopes_(gpu.template allocate<float>(settings.tokens * settings.width)) {
    for (uint32_t block = 0; block <= settings.blocks; ++block) {
      x_.push_back(gpu.template allocate<float>(settings.tokens * settings.width));
      hidden_.push_back(gpu.template allocate<float>(settings.tokens * settings.width));
    }
  }

  [[nodiscard]] uint32_t units() const { return settings_.blocks + 2; }
  [[nodiscard]] uint32_t elements(uint32_t unit) const {
    const uint32_t outputs = unit < head() ? settings_.width : settings_.vocabulary;
    return unit == 0 ? settings_.vocabulary * settings_.width : outputs * (settings_.width + 1);
  }
  [[nodiscard]] std::vector<float> initial(uint32_t unit) const {
    std::minstd_rand random(unit + 1);
    std::vector<float> values(elements(unit));
    for (float& value : values) {
      value = (static_cast<float>(random() % 1000) / 1000 - 0.5F) / 2;
    }
    return values;
  }

  // The step's data: of all batches the first, and then every `stride`-th.
  void read_data(uint32_t first, uint32_t stride) {
    std::vector<uint32_t> tokens;
    std::vector<uint32_t> targets;
    for (uint32_t micro_batch = 0; micro_batch < settings_.micro_batches; ++micro_batch) {
      std::minstd_rand random(first + micro_batch * stride + 1);
      random.discard(10);
      const auto draw = [&](uint32_t most) { return static_cast<uint32_t>(random()) % most; };
      for (uint32_t i = 0; i < settings_.tokens; ++i) {
        tokens.push_back(draw(settings_.vocabulary));
        const uint32_t noise = draw(10) == 0 ? draw(7) : 1;
        targets.push_back((tokens.back() * 5 + noise) % settings_.vocabulary);
      }
    }
    gpu_.upload(tokens_, tokens);
    gpu_.upload(targets_, targets);
  }

  void forward(uint32_t unit, uint32_t micro_batch, FloatInput parameters) {
    if (unit == 0) {
      const Tokens tokens = of(tokens_, micro_batch);
      gpu_.template launch<embed>(x_[0].count, x_[0], parameters, tokens, settings_.width);
    } else if (unit < head()) {
      const Floats hidden = hidden_[unit];
      const Floats x = x_[unit - 1];
      gpu_.template launch<linear>(hidden.count, hidden, x, parameters, settings_.width);
      gpu_.template launch<add_tanh>(hidden.count, x_[unit], hidden, x);
    } else {
      gpu_.template launch<linear>(
          logits_.count, logits_, x_[unit - 1], parameters, settings_.width);
    }
  }

  // Adds the gradients of the micro-batch's mean loss, times `scale`, in the order of units from
  // the last one down.
  void backward(
      uint32_t unit, uint32_t micro_batch, FloatInput parameters, Floats gradients, float scale) {
    const uint32_t width = settings_.width;
    if (unit == 0) {
      const Tokens tokens = of(tokens_, micro_batch);
      gpu_.template launch<embed_backward>(gradients.count, gradients, slopes_, tokens, width);
      return;
    }
    const Floats x = x_[unit - 1];
    const bool is_block = unit < head();
    const Floats slopes = is_block ? hidden_slopes_ : logits_;
    if (is_block) {
      gpu_.template launch<tanh_backward>(slopes.count, slopes, slopes_, hidden_[unit]);
    } else {
      const Floats losses = of(losses_, micro_batch);
      const Tokens targets = of(targets_, micro_batch);
      gpu_.template launch<cross_entropy>(settings_.tokens, slopes, losses, targets, scale);
    }
    gpu_.template launch<linear_backward>(gradients.count, gradients, slopes, x, width);
    gpu_.template launch<linear_input>(slopes_.count, slopes_, slopes, parameters, width, is_block);
  }

  // Of all of the step's micro-batches. Waits for the stream.
  [[nodiscard]] float mean_loss() {
    const std::vector<float> losses = gpu_.download(losses_);
    return std::accumulate(losses.begin(), losses.end(), 0.0F) / static_cast<float>(losses.size());
  }

 private:
  [[nodiscard]] uint32_t head() const { return settings_.blocks + 1; }
  template <class T>
  [[nodiscard]] Array<T> of(Array<T> all, uint32_t micro_batch) const {
    return all.part(micro_batch * settings_.tokens, settings_.tokens);
  }

  Gpu& gpu_;
  const Settings settings_;
  // Of all micro-batches of a step, so that nobody waits between them.
  Array<uint32_t> tokens_;
  Array<uint32_t> targets_;
  Floats losses_;
  // Of one micro-batch.
  std::vector<Floats> x_;       // what each unit but the head gives the next one
  std::vector<Floats> hidden_;  // of each block
  Floats logits_;
  Floats slopes_;  // of the loss by the present unit's output
  Floats hidden_slopes_;
};

// "step 3: loss 2.1234, norm 0.512, 12345 tokens/s"
class Progress {
 public:
  void print(uint32_t step, float loss, double norm, uint64_t tokens) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> took = now - since_;
    since_ = now;
    std::printf("step %u: loss %.4f, norm %.4f, %.0f tokens/s\n",
                step,
                static_cast<double>(loss),
                norm,
                static_cast<double>(tokens) / took.count());
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace example
