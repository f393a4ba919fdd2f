// Updates against the rules' definitions in double precision, and the promise that neither the cut
// of a span nor the instruction set shows in the result.
#include "optim/optimizer.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "every_target.hpp"

using ho::test::on_every_target;
using paro::AdamW;
using paro::Rule;
using paro::Sgd;

namespace {

const std::vector<Rule> kRules{AdamW{},
                               AdamW{0.1, 0.5, 0.9, 1e-6, 0.3},
                               AdamW{1e-2, 0, 0, 1e-3, 0},
                               Sgd{0.1, 0, 0},
                               Sgd{0.05, 0, 0.1},
                               Sgd{0.05, 0.9, 0},
                               Sgd{0.05, 0.9, 0.01}};

// A master with its state, and one gradient per step.
struct Training {
  std::vector<float> master;
  std::vector<float> first;
  std::vector<float> second;
  std::vector<std::vector<float>> gradients;

  void step(const Rule& rule, uint64_t number, size_t begin, size_t end) {
    const size_t count = end - begin;
    paro::update(rule,
                 number,
                 {std::span(master).subspan(begin, count),
                  {std::span(first).subspan(begin, count), std::span(second).subspan(begin, count)},
                  std::span<const float>(gradients[number - 1]).subspan(begin, count)});
  }
  void run(const Rule& rule) {
    for (uint64_t number = 1; number <= gradients.size(); ++number) {
      step(rule, number, 0, master.size());
    }
  }
  [[nodiscard]] bool same_bits(const Training& other) const {
    return same(master, other.master) && same(first, other.first) && same(second, other.second);
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  }
};

// Gradients of many sizes, zeros among them.
Training training(size_t elements, size_t steps) {
  std::mt19937_64 random(elements * 31 + steps);
  std::uniform_real_distribution<float> value(-2, 2);
  std::uniform_int_distribution<int> exponent(-12, 3);
  Training made{std::vector<float>(elements),
                std::vector<float>(elements),
                std::vector<float>(elements),
                std::vector<std::vector<float>>(steps, std::vector<float>(elements))};
  for (float& w : made.master) {
    w = value(random);
  }
  for (auto& gradient : made.gradients) {
    for (float& g : gradient) {
      g = random() % 8 == 0 ? 0 : std::ldexp(value(random), exponent(random));
    }
  }
  return made;
}

// The definitions, as written in the header, for one element.
double adamw_reference(const AdamW& rule, double w, const std::vector<double>& gradients) {
  double m = 0;
  double v = 0;
  for (size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1];
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(rule.beta1, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(rule.beta2, static_cast<double>(t)));
    w -= rule.learning_rate * (rule.weight_decay * w + m_hat / (std::sqrt(v_hat) + rule.epsilon));
  }
  return w;
}

double sgd_reference(const Sgd& rule, double w, const std::vector<double>& gradients) {
  double v = 0;
  for (const double g : gradients) {
    v = rule.momentum * v + (g + rule.weight_decay * w);
    w -= rule.learning_rate * v;
  }
  return w;
}

double reference(const Rule& rule, double w, const std::vector<double>& gradients) {
  if (const auto* const adamw = std::get_if<AdamW>(&rule)) {
    return adamw_reference(*adamw, w, gradients);
  }
  return sgd_reference(std::get<Sgd>(rule), w, gradients);
}

}  // namespace

TEST_CASE("updates follow the definition of their rule") {
  constexpr size_t kSteps = 12;
  on_every_target([] {
    for (const Rule& rule : kRules) {
      for (const size_t elements : std::initializer_list<size_t>{0, 1, 7, 8, 9, 1000}) {
        const Training before = training(elements, kSteps);
        Training after = before;
        after.run(rule);
        double worst = 0;
        for (size_t i = 0; i < elements; ++i) {
          std::vector<double> gradients;
          for (const auto& gradient : before.gradients) {
            gradients.push_back(gradient[i]);
          }
          const double expected = reference(rule, before.master[i], gradients);
          worst = std::max(worst, std::fabs(after.master[i] - expected));
        }
        INFO(paro::to_string(rule) << ", " << elements << " elements");
        CHECK(worst < 1e-5);
      }
    }
  });
}

TEST_CASE("a span cut anywhere gives the same bits, on every instruction set") {
  for (const Rule& rule : kRules) {
    for (const size_t elements : std::initializer_list<size_t>{1, 7, 8, 9, 33}) {
      const Training before = training(elements, 3);
      Training whole = before;
      whole.run(rule);
      on_every_target([&] {
        for (size_t cut = 0; cut <= elements; ++cut) {
          Training parts = before;
          for (uint64_t number = 1; number <= 3; ++number) {
            parts.step(rule, number, cut, elements);
            parts.step(rule, number, 0, cut);
          }
          INFO(paro::to_string(rule) << ", " << elements << " elements cut at " << cut);
          CHECK(parts.same_bits(whole));
        }
      });
    }
  }
}

TEST_CASE("a long span cut into uneven parts gives the same bits") {
  for (const Rule& rule : kRules) {
    const Training before = training(1000, 4);
    Training whole = before;
    whole.run(rule);
    on_every_target([&] {
      Training parts = before;
      for (uint64_t number = 1; number <= 4; ++number) {
        for (size_t begin = 0, length = 1; begin < 1000; begin += length, length = length * 2 + 1) {
          parts.step(rule, number, begin, std::min<size_t>(begin + length, 1000));
        }
      }
      CHECK(parts.same_bits(whole));
    });
  }
}

TEST_CASE("nothing outside the spans is touched") {
  for (const Rule& rule : kRules) {
    const Training before = training(40, 1);
    Training after = before;
    after.step(rule, 1, 8, 29);
    for (const auto array : {&Training::master, &Training::first, &Training::second}) {
      for (size_t i = 0; i < 40; ++i) {
        if (i < 8 || i >= 29) {
          CHECK((after.*array)[i] == (before.*array)[i]);
        }
      }
    }
  }
}

TEST_CASE("AdamW's first step is one learning rate against the gradient's sign") {
  Training one{{1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {{1e-3F, -5, 0}}};
  one.run(AdamW{.learning_rate = 0.125, .weight_decay = 0});
  CHECK(one.master[0] == Approx(0.875).epsilon(1e-4));
  CHECK(one.master[1] == Approx(1.125).epsilon(1e-4));
  CHECK(one.master[2] == 1);
}

TEST_CASE("AdamW's decay works without a gradient and leaves the state alone") {
  Training still{{1, -4}, {0, 0}, {0, 0}, {{0, 0}, {0, 0}}};
  still.run(AdamW{.learning_rate = 0.5, .weight_decay = 0.5});
  CHECK(still.master == std::vector<float>{0.5625F, -2.25F});
  CHECK(still.first == std::vector<float>{0, 0});
  CHECK(still.second == std::vector<float>{0, 0});
}

TEST_CASE("Sgd's decay passes through its momentum") {
  Training still{{1}, {0}, {0}, {{0}, {0}}};
  still.run(Sgd{.learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.5});
  // v = 0.5, w = 0.75; v = 0.25 + 0.375, w = 0.75 - 0.3125
  CHECK(still.first[0] == 0.625F);
  CHECK(still.master[0] == 0.4375F);
}

TEST_CASE("without momentum Sgd needs no state") {
  std::vector<float> master{1, 2, 3};
  const std::vector<float> gradient{1, 1, 2};
  paro::update(Sgd{.learning_rate = 0.5}, 1, {master, {}, gradient});
  CHECK(master == std::vector<float>{0.5F, 1.5F, 2});
  paro::update(AdamW{}, 1, {});
}
