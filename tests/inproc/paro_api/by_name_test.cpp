// A checkpoint's tensors find their places in a model that is cut otherwise, by their names.
#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

// One step with a gradient of 1 everywhere: masters and moments that are not zeros.
void step(Runner& runner, uint32_t units) {
  for (uint32_t u = 0; u < units; ++u) {
    static_cast<void>(runner.before_forward(u));
    runner.after_forward(u);
  }
  for (uint32_t u = units; u-- > 0;) {
    for (float& gradient : runner.before_backward(u).gradients<float>()) {
      gradient += 1;
    }
    runner.after_backward(u);
  }
  static_cast<void>(runner.step());
}

std::vector<float> masters(Runner& runner, uint32_t unit, size_t count) {
  std::vector<float> values(count);
  runner.read_masters(unit, values);
  return values;
}

std::vector<float> counted(float first, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(first + static_cast<float>(i));
  }
  return values;
}

// SGD with momentum: what a tensor's momentum is shows in its next step.
RunnerOptions options_for(const char* strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.alignment = 2;
  options.optimizer = PARO_OPTIMIZER_SGD;
  options.sgd = {0.5, 0.5, 0};
  return options;
}

// "a" 0..4, "b" 10..16 and the frozen "c" 20..22 in one unit, "d" 30..35 in the other.
void save(ho_comm* comm, const std::string& folder) {
  Runner runner = Runner::create(comm, options_for("NIG"), {{"first", 12, 3}, {"second", 6, 0}});
  std::vector<float> first = counted(0, 5);
  const std::vector<float> b = counted(10, 7);
  first.insert(first.end(), b.begin(), b.end());
  runner.load(0, first, counted(20, 3));
  runner.load(1, counted(30, 6));
  step(runner, 2);
  SaveOptions options;
  options.tensors = {{"a", 0, false, 0, {5}},
                     {"b", 0, false, 5, {7}},
                     {"c", 0, true, 0, {3}},
                     {"d", 1, false, 0, {2, 3}}};
  runner.save(folder, options);
}

std::string refusal(Runner& runner, const Checkpoint& from, const std::vector<Tensor>& tensors) {
  try {
    runner.restore(from, false, tensors);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a model that is cut otherwise, and frozen elsewhere, finds its tensors by name") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x2"}, [&](ho_comm* comm) { save(comm, folder.root()); });
  require_job({"3+1"}, [&](ho_comm* comm) {
    for (const char* strategy : {"NNN", "IIG", "GGG"}) {
      // "b" is frozen now, "c" is trained; "a" comes after "d".
      Runner runner = Runner::create(comm, options_for(strategy), {{"one", 9, 0}, {"two", 5, 7}});
      const Checkpoint checkpoint = Checkpoint::open(folder.root());
      const std::vector<Tensor> tensors{{"d", 0, false, 0, {6}},
                                        {"c", 0, false, 6, {3}},
                                        {"a", 1, false, 0, {5}},
                                        {"b", 1, true, 0, {7}}};
      runner.restore(checkpoint, false, tensors);
      // One step of rate 0.5 over a gradient of 1 was made.
      std::vector<float> one = counted(29.5, 6);
      const std::vector<float> c = counted(20, 3);
      one.insert(one.end(), c.begin(), c.end());
      expect(masters(runner, 0, 9) == one, "finds d and c");
      expect(masters(runner, 1, 5) == counted(-0.5, 5), "finds a");
      std::vector<float> frozen(7);
      runner.read_frozen(1, frozen);
      expect(frozen == counted(9.5, 7), "finds b");
      step(runner, 2);
      // Momentum: 0.5 * 1 + 1 where there was one, 1 where there was none.
      expect(masters(runner, 1, 5) == counted(-1.25, 5), "goes on with a's momentum");
      expect(masters(runner, 0, 9)[0] == 28.75F, "and d's");
      expect(masters(runner, 0, 9)[6] == 19.5F, "c begins with none");
      runner.check_drift();

      std::vector<Tensor> other = tensors;
      other[1].name = "e";
      expect(refusal(runner, checkpoint, other).find("no tensor \"e\"") != std::string::npos,
             "names what is missing");
      other = tensors;
      other[0].shape = {5};
      expect(refusal(runner, checkpoint, other).find("\"d\" has 6 elements") != std::string::npos,
             "compares sizes");
      other = tensors;
      other[1].name = "d";
      expect(refusal(runner, checkpoint, other)
                     .find("two tensors are called \"d\": trained elements from 0 of unit 0 "
                           "\"one\", and trained elements from 6 of unit 0") != std::string::npos,
             "wants names of their own");
      other = tensors;
      other.pop_back();
      expect(refusal(runner, checkpoint, other).find("frozen element 0 of unit 1") !=
                 std::string::npos,
             "wants all elements");
      other = tensors;
      if (ho_comm_rank(comm) == 0) {
        other[0].first_element = 3;
        other[1].first_element = 0;
      }
      expect(refusal(runner, checkpoint, other).find("ranks differ in") != std::string::npos,
             "wants the same tensors on all ranks");
      expect(refusal(runner, checkpoint, {}).find("unit 0 is") != std::string::npos,
             "without names the units must be the same");
      expect(masters(runner, 0, 9)[6] == 19.5F, "nothing has changed");
    }
  });
}

TEST_CASE("a save is refused where two tensors have one name") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x1"}, [&](ho_comm* comm) {
    Runner runner = Runner::create(comm, options_for("NIG"), {{"first", 12, 3}, {"second", 6, 0}});
    SaveOptions options;
    options.tensors = {{"a", 0, false, 0, {5}}, {"a", 1, false, 0, {6}}};
    std::string refused;
    try {
      runner.save(folder.root(), options);
    } catch (const Error& error) {
      refused = error.what();
    }
    expect(
        refused.find("paro_runner_save: two tensors are called \"a\": trained elements from 0 of "
                     "unit 0 \"first\", and trained elements from 0 of unit 1 \"second\"") !=
            std::string::npos,
        "names both: " + refused);
    options.tensors[1].name = "b";
    runner.save(folder.root(), options);
  });
}
