// Gradients against what the loss does when a weight moves.
#include <algorithm>
#include <cmath>

#include "reduce/reduce.hpp"
#include "whole_model.hpp"

using ho::DType;
using paro::toy::Batch;
using paro::toy::Configuration;
using paro::toy::Parameters;
using paro::toy::Pass;
using paro::toy::test::configurations;
using paro::toy::test::WholeModel;

namespace {

// Central differences, over the distance that fp32 left between the two weights. The loss of fp32
// logits is good to 1e-7 or so, so the slope to 1e-5 or so.
double slope(const WholeModel& model, const Batch& batch, float& weight) {
  constexpr float kMove = 0x1p-7F;
  const float before = weight;
  weight = before + kMove;
  const double above = model.loss(batch);
  const float high = weight;
  weight = before - kMove;
  const double below = model.loss(batch);
  const double distance = static_cast<double>(high) - static_cast<double>(weight);
  weight = before;
  return (above - below) / distance;
}

void check_every_slope(const Configuration& configuration) {
  WholeModel whole(configuration);
  const Batch batch = whole.model().batch_of(3, {5, 2});
  whole.forward_backward(batch);
  for (size_t u = 0; u < whole.stores().size(); ++u) {
    auto& store = whole.stores()[u];
    double worst = 0;
    double largest = 0;
    for (size_t i = 0; i < store.trained.size(); ++i) {
      const double expected = slope(whole, batch, store.trained[i]);
      const auto got = static_cast<double>(store.gradient[i]);
      worst = std::max(worst, std::fabs(got - expected));
      largest = std::max(largest, std::fabs(got));
    }
    INFO(whole.model().units()[u].name << ": largest gradient " << largest << ", off by " << worst);
    CHECK(worst < 2e-5);
    CHECK((store.trained.empty() || largest > 1e-3));
  }
}

// All gradients of a batch in buffers of `buffers`, from parameters rounded to `parameters`; the
// buffers begin with `begin` in every element.
std::vector<std::vector<uint16_t>> in_16_bits(WholeModel& whole,
                                              DType dtype,
                                              const Batch& batch,
                                              float begin) {
  const auto& model = whole.model();
  Pass pass = model.begin(batch);
  std::vector<std::vector<uint16_t>> trained;
  std::vector<std::vector<uint16_t>> frozen;
  std::vector<std::vector<uint16_t>> gradients;
  for (const auto& store : whole.stores()) {
    trained.emplace_back(store.trained.size());
    ho::narrow(dtype, trained.back().data(), store.trained.data(), store.trained.size());
    frozen.emplace_back(store.frozen.size());
    ho::narrow(dtype, frozen.back().data(), store.frozen.data(), store.frozen.size());
    gradients.emplace_back(store.trained.size());
    const std::vector<float> fill(store.trained.size(), begin);
    ho::narrow(dtype, gradients.back().data(), fill.data(), fill.size());
  }
  const size_t units = trained.size();
  for (size_t u = 0; u < units; ++u) {
    model.forward(u, {dtype, trained[u].data(), frozen[u].data()}, pass);
  }
  for (size_t u = units; u-- > 0;) {
    const Parameters parameters{dtype, trained[u].data(), frozen[u].data()};
    model.backward(u, parameters, {dtype, gradients[u].data()}, pass, 1);
  }
  return gradients;
}

// The store's weights become what 16 bits can hold.
void round_weights(WholeModel& whole, DType dtype) {
  for (auto& store : whole.stores()) {
    for (auto* const weights : {&store.trained, &store.frozen}) {
      std::vector<uint16_t> rounded(weights->size());
      ho::narrow(dtype, rounded.data(), weights->data(), weights->size());
      ho::widen(dtype, weights->data(), rounded.data(), weights->size());
    }
  }
}

}  // namespace

TEST_CASE("every gradient is the loss's slope") {
  for (const Configuration& configuration : configurations()) {
    check_every_slope(configuration);
  }
}

TEST_CASE("a frozen weight matters to the loss and has no gradient") {
  Configuration configuration;
  configuration.freeze_up = true;
  configuration.freeze_embedding = true;
  WholeModel whole(configuration);
  const Batch batch = whole.model().batch_of(0, {0, 2});
  CHECK(whole.stores()[0].trained.empty());
  CHECK(whole.model().units()[1].frozen == 8 * 12 + 12);
  CHECK(std::fabs(slope(whole, batch, whole.stores()[1].frozen[0])) > 1e-6);
}

TEST_CASE("gradients do not depend on what is frozen") {
  Configuration thawed;
  Configuration frozen;
  frozen.freeze_up = true;
  WholeModel all(thawed);
  WholeModel some(frozen);
  const Batch batch = all.model().batch_of(0, {0, 2});
  CHECK(all.forward_backward(batch) == some.forward_backward(batch));
  CHECK(all.stores()[0].gradient == some.stores()[0].gradient);
  const auto& whole_block = all.stores()[1].gradient;
  const auto& trained = some.stores()[1].gradient;
  CHECK(std::equal(
      trained.begin(), trained.end(), whole_block.end() - static_cast<ptrdiff_t>(trained.size())));
}

TEST_CASE("gradients are added to what is there") {
  WholeModel whole{Configuration{}};
  const Batch first = whole.model().batch_of(0, {0, 2});
  const Batch second = whole.model().batch_of(0, {2, 2});
  whole.forward_backward(first);
  const auto after_first = whole.stores();
  whole.forward_backward(second);
  const auto after_both = whole.stores();
  whole.forget_gradients();
  whole.forward_backward(second);
  for (size_t u = 0; u < after_both.size(); ++u) {
    for (size_t i = 0; i < after_both[u].gradient.size(); ++i) {
      const float sum = after_first[u].gradient[i] + whole.stores()[u].gradient[i];
      CHECK(after_both[u].gradient[i] == sum);
    }
  }
}

TEST_CASE("16-bit parameters are widened, and gradients rounded once when they are added") {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    Configuration configuration;
    configuration.freeze_up = true;
    WholeModel whole(configuration);
    round_weights(whole, dtype);
    const Batch batch = whole.model().batch_of(0, {0, 2});
    const auto narrow = in_16_bits(whole, dtype, batch, 0.25F);
    whole.forward_backward(batch);
    for (size_t u = 0; u < narrow.size(); ++u) {
      std::vector<float> sum = whole.stores()[u].gradient;
      for (float& value : sum) {
        value += 0.25F;
      }
      std::vector<uint16_t> expected(sum.size());
      ho::narrow(dtype, expected.data(), sum.data(), sum.size());
      CHECK(narrow[u] == expected);
    }
  }
}

TEST_CASE("a loss scale multiplies gradients, and powers of two exactly") {
  WholeModel plain{Configuration{}};
  WholeModel scaled{Configuration{}};
  const Batch batch = plain.model().batch_of(0, {0, 2});
  const double loss = plain.forward_backward(batch);
  CHECK(scaled.forward_backward(batch, 1024) == loss);
  for (size_t u = 0; u < plain.stores().size(); ++u) {
    for (size_t i = 0; i < plain.stores()[u].gradient.size(); ++i) {
      CHECK(scaled.stores()[u].gradient[i] == 1024 * plain.stores()[u].gradient[i]);
    }
  }
}

TEST_CASE("poison spoils one element, in the micro-batch that holds its sample") {
  Configuration configuration;
  configuration.freeze_up = true;
  configuration.poison = {.step = 4, .sample = 5, .unit = 1};
  WholeModel whole(configuration);
  for (const uint64_t step : {uint64_t{3}, uint64_t{4}}) {
    for (const uint64_t first : {uint64_t{2}, uint64_t{4}, uint64_t{6}}) {
      whole.forget_gradients();
      const bool spoiled = step == 4 && first == 4;
      whole.forward_backward(whole.model().batch_of(step, {first, 2}));
      for (size_t u = 0; u < whole.stores().size(); ++u) {
        const auto& gradient = whole.stores()[u].gradient;
        const auto infinite = std::count_if(
            gradient.begin(), gradient.end(), [](float g) { return !std::isfinite(g); });
        CHECK(infinite == (spoiled && u == 1 ? 1 : 0));
      }
    }
  }
}
