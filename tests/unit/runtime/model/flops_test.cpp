// Operations and activations of transformers, against published formulas and tables.
#include "model/flops.hpp"

#include "catch.hpp"
#include "model/activations.hpp"
#include "model/known_models.hpp"

namespace paro {
namespace {

// A GPT by its published shape.
Transformer gpt(double hidden, double heads, size_t layers) {
  Transformer model;
  model.hidden = hidden;
  model.vocabulary = 51200;
  model.tied = true;
  model.dropout = true;
  Layer layer;
  layer.attention.heads = layer.attention.kv_heads = heads;
  layer.attention.head_dim = layer.attention.value_dim = hidden / heads;
  layer.width = 4 * hidden;
  layer.gated = false;
  layer.vectors = 13 * hidden;
  model.layers.assign(layers, layer);
  return model;
}

}  // namespace

TEST_CASE("a GPT's operations are those of Megatron's formula") {
  // 72 B s l h^2 (1 + s / 6h + V / 16 l h), without recomputation (arXiv 2104.04473).
  const double h = 12288;
  const double s = 2048;
  const double l = 96;
  const double v = 51200;
  const StepFlops step = step_flops(gpt(h, 96, 96), s, 1, Recompute::kNone, ScoreCount::kAll);
  // Of the last term the head's share is 6 h V: it is not computed again.
  const double published = 72 * l * h * h * (1 + s / (6 * h)) + 6 * h * v;
  CHECK(step.model() == Approx(published).epsilon(1e-12));
  CHECK(step.backward == Approx(2 * step.forward));
  CHECK(step.again == 0);
  const StepFlops full = step_flops(gpt(h, 96, 96), s, 1, Recompute::kFull, ScoreCount::kAll);
  CHECK(full.executed() ==
        Approx(96 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-12));
}

TEST_CASE("causal attention is half of it, a sliding one less") {
  const Transformer model = gpt(4096, 32, 1);
  Layer layer = model.layers[0];
  const double all = layer_flops(model, layer, 2048, ScoreCount::kAll).scores;
  CHECK(all == 4 * 4096.0 * 2048);
  CHECK(layer_flops(model, layer, 2048, ScoreCount::kCausal).scores == all / 2);
  layer.attention.reach = 128;
  CHECK(layer_flops(model, layer, 2048, ScoreCount::kAll).scores == 4 * 4096.0 * 128);
  CHECK(layer_flops(model, layer, 2048, ScoreCount::kCausal).scores ==
        4 * 4096.0 * (128 - 128.0 * 128 / 4096));
  layer.attention.reach = 4096;
  CHECK(layer_flops(model, layer, 2048, ScoreCount::kCausal).scores == all / 2);
}

TEST_CASE("frozen parameters have no gradients to compute") {
  const Transformer model = *known_model("llama-3-8b");
  const StepFlops all = step_flops(model, 4096, 1, Recompute::kNone, ScoreCount::kCausal);
  const StepFlops few = step_flops(model, 4096, 0, Recompute::kNone, ScoreCount::kCausal);
  CHECK(few.forward == all.forward);
  CHECK(all.backward == Approx(2 * all.forward));
  CHECK(few.backward > few.forward);  // attention's core has no parameters
  CHECK(few.backward < 1.1 * few.forward);
}

TEST_CASE("adapters beside frozen parameters compute with them, and are trained") {
  const Transformer model = *known_model("llama-3-8b");
  const double adapters = 4e7;
  const auto flops = [&](double more, Recompute recompute) {
    return step_flops(model, 4096, 0, recompute, ScoreCount::kCausal, more);
  };
  const StepFlops frozen = flops(0, Recompute::kFull);
  const StepFlops lora = flops(adapters, Recompute::kFull);
  CHECK(lora.forward - frozen.forward == Approx(2 * adapters));
  CHECK(lora.backward - frozen.backward == Approx(4 * adapters));
  CHECK(lora.again - frozen.again == Approx(2 * adapters));
}

TEST_CASE("of routed experts those that a token is sent to compute") {
  const Transformer mixtral = *known_model("mixtral-8x7b");
  const double matrices =
      layer_flops(mixtral, mixtral.layers[0], 4096, ScoreCount::kAll).matrices / 2;
  const double attention = 4096.0 * (2 * 4096 + 2 * 1024);
  CHECK(matrices == attention + 2 * 3 * 4096.0 * 14336 + 8 * 4096);
  // DeepSeek-V3's report has 37 billion active of 671.
  CHECK(parameters_of(*known_model("deepseek-v3")).active == Approx(37.6e9).epsilon(0.01));
}

TEST_CASE("a GPT's layer keeps what Korthikanti et al. found") {
  const double h = 12288;
  const double a = 96;
  const double s = 2048;
  const double t = 8;
  const Transformer model = gpt(h, a, 1);
  const auto kept = [&](double tensor, bool sequence_parallel, bool scores, Recompute recompute) {
    return layer_activations(model,
                             model.layers[0],
                             {.sequence = s,
                              .micro_batch = 3,
                              .tensor = tensor,
                              .sequence_parallel = sequence_parallel,
                              .stores_scores = scores,
                              .recompute = recompute}) /
           (s * 3 * h);
  };
  const double core = 5 * a * s / h;
  CHECK(kept(1, false, true, Recompute::kNone) == Approx(34 + core));
  CHECK(kept(t, false, true, Recompute::kNone) == Approx(10 + 24 / t + core / t));
  CHECK(kept(t, true, true, Recompute::kNone) == Approx((34 + core) / t));
  CHECK(kept(t, true, true, Recompute::kSelective) == Approx(34 / t));
  CHECK(kept(1, false, true, Recompute::kFull) == Approx(2));
  CHECK(kept(1, false, false, Recompute::kNone) == Approx(34 + 4 * a / h));
}

TEST_CASE("gated layers, grouped queries and the head, counted by hand") {
  const Transformer model = *known_model("llama-3-8b");
  const ActivationShape shape{.sequence = 8192};
  // Two norms and two first matrices, queries and the last matrix' input, keys and values, gate, up
  // and product, and FlashAttention's 4 bytes of a head.
  const double bytes = 4 * 2 * 4096 + 2 * 2 * 4096 + 2 * 2 * 1024 + 3 * 2 * 14336 + 4 * 32;
  CHECK(layer_activations(model, model.layers[0], shape) == 8192 * bytes);
  const double head = 8192 * (4.0 * 4096 + 4 * 128256);
  CHECK(head_activations(model, shape) == head);
  CHECK(peak_activations(model, shape, {}) == 32 * 8192 * bytes + head);
  // With full recomputation the head or one layer is beside the layers' inputs.
  ActivationShape full = shape;
  full.recompute = Recompute::kFull;
  CHECK(peak_activations(model, full, {}) == 32.0 * 8192 * 2 * 4096 + head);
}

TEST_CASE("a step of fewer micro-batches than stages fills less of a pipeline") {
  CHECK(kept_share({1, 1, 1}) == 1);
  CHECK(kept_share({8, 1, 2}) == 0.25);
  CHECK(kept_share({8, 1, 64}) == 1);
  CHECK(kept_share({8, 3, 64}) == Approx(1 + 7.0 / 24));
}

}  // namespace paro
