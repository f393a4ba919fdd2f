// What paro.h refuses, on which ranks, and in which words.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "trainer.hpp"

using namespace paro::test;
using ho::test::require_job;

namespace {

const paro_unit kUnits[] = {{"first", 40, 8, nullptr}, {nullptr, 24, 0, nullptr}};
constexpr size_t kUnitCount = 2;

// As a program in C could: whatever the number, it is there. (In C++ that is undefined; the library
// must bear it.)
template <typename Enum>
__attribute__((no_sanitize("undefined"))) Enum enumerator(int number) {
  Enum value{};
  static_assert(sizeof value == sizeof number);
  std::memcpy(static_cast<void*>(&value), &number, sizeof number);
  return value;
}

paro_runner_options sgd_options(const char* strategy) {
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = strategy;
  options.optimizer = PARO_OPTIMIZER_SGD;
  return options;
}

void expect_no_runner(ho_comm* comm,
                      const paro_runner_options& options,
                      const paro_unit* units,
                      size_t unit_count,
                      const std::string& text) {
  auto* runner = reinterpret_cast<paro_runner*>(1);
  expect_refusal(
      paro_runner_create(comm, &options, units, unit_count, &runner), HO_INVALID_ARGUMENT, text);
  expect(runner == nullptr, "gives no runner");
}

OwnedRunner runner_of(ho_comm* comm, const paro_runner_options& options) {
  paro_runner* runner = nullptr;
  must(paro_runner_create(comm, &options, kUnits, kUnitCount, &runner));
  return OwnedRunner(runner);
}

struct BadOption {
  const char* text;
  void (*spoil)(paro_runner_options& options);
};

constexpr std::array<paro_parameter_group, 2> kReserved{
    {{0, 0, 0, 1, 1, 0}, {0, UINT32_MAX, 1, 1, 1, 0}}};

const BadOption kBadOptions[] = {
    {"paro_runner_options.size is 0", [](auto& o) { o.size = 0; }},
    {"paro_runner_options.size is 8;", [](auto& o) { o.size = 8; }},
    {"paro_runner_options.size is 20;", [](auto& o) { o.size = 20; }},
    {"paro_runner_options.size is 1048576", [](auto& o) { o.size = size_t{1} << 20U; }},
    {"unknown strategy 'NIX'", [](auto& o) { o.strategy = "NIX"; }},
    {"unknown strategy ''", [](auto& o) { o.strategy = ""; }},
    {"strategy GGN: the optimizer state is held by every rank",
     [](auto& o) { o.strategy = "GGN"; }},
    {"frozen is 4; see paro_scope", [](auto& o) { o.frozen = enumerator<paro_scope>(4); }},
    {"frozen is -1; see paro_scope", [](auto& o) { o.frozen = enumerator<paro_scope>(-1); }},
    {"at least one of each", [](auto& o) { o.micro_batches = 0; }},
    {"at most 2^20 actions", [](auto& o) { o.micro_batches = UINT32_MAX; }},
    {"a prefetch of 3 units of 2", [](auto& o) { o.prefetch = 3; }},
    {"an alignment of at least 1", [](auto& o) { o.alignment = 0; }},
    {"at most 2^56 of either", [](auto& o) { o.alignment = UINT64_MAX; }},
    {"parameter_dtype is 17; see ho_dtype",
     [](auto& o) { o.parameter_dtype = enumerator<ho_dtype>(17); }},
    {"not int8", [](auto& o) { o.gradient_dtype = HO_INT8; }},
    {"optimizer is 3; see paro_optimizer",
     [](auto& o) { o.optimizer = enumerator<paro_optimizer>(3); }},
    {"narrow_sums is 2", [](auto& o) { o.narrow_sums = 2; }},
    {"fp32_gradients is 2; takes 0 or 1", [](auto& o) { o.fp32_gradients = 2; }},
    {"fp32_gradients with narrow_sums", [](auto& o) { o.fp32_gradients = o.narrow_sums = 1; }},
    {"paro_runner_options.parameter_groups[1].reserved is 4294967295; it must be 0",
     [](auto& o) {
       o.parameter_groups = kReserved.data();
       o.parameter_group_count = kReserved.size();
     }},
    {"a learning rate that is not a number",
     [](auto& o) {
       o.optimizer = PARO_OPTIMIZER_CUSTOM;
       o.custom = {[](const paro_shard*, void*) { return 0; }, nullptr, NAN, nullptr, 0};
     }},
    {"custom.function is null", [](auto& o) { o.optimizer = PARO_OPTIMIZER_CUSTOM; }},
    {"Sgd: momentum is 1", [](auto& o) { o.sgd.momentum = 1; }},
    {"AdamW: beta1", [](auto& o) { o.optimizer = PARO_OPTIMIZER_ADAMW, o.adamw.beta1 = NAN; }},
    {"algorithm is 77; see ho_algorithm",
     [](auto& o) { o.algorithm = enumerator<ho_algorithm>(77); }},
    {"the direct algorithm with gradients of 16 bits",
     [](auto& o) { o.algorithm = HO_ALGORITHM_DIRECT, o.gradient_dtype = HO_BFLOAT16; }},
    {"loss_scale.scaling is 9; see paro_scaling",
     [](auto& o) { o.loss_scale.scaling = enumerator<paro_scaling>(9); }},
    {"loss scale: initial is 0",
     [](auto& o) { o.loss_scale.scaling = PARO_SCALING_STATIC, o.loss_scale.initial = 0; }},
    {"max_norm", [](auto& o) { o.max_norm = NAN; }},
    {"groups of 5 ranks in a world of 4", [](auto& o) { o.group_size = 5; }},
    {"both a group_size and a group_file",
     [](auto& o) { o.group_size = 2, o.group_file = "groups.txt"; }},
    {"groups file /no/such/file: open: No such file",
     [](auto& o) { o.group_file = "/no/such/file"; }},
};

}  // namespace

TEST_CASE("texts that are no strategy are refused, those that are one are known") {
  char letters[4] = {};
  CHECK(paro_strategy_check("NIG") == HO_OK);
  CHECK(paro_strategy_check("Zero-3") == HO_OK);
  CHECK(std::string(paro_last_error_message()).empty());
  CHECK(paro_strategy_check(nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_strategy_check("NNNN") == HO_INVALID_ARGUMENT);
  CHECK(std::strstr(paro_last_error_message(), "unknown strategy 'NNNN'") != nullptr);
  CHECK(paro_strategy_letters("mics", letters, sizeof letters) == HO_OK);
  CHECK(std::string(letters) == "III");
  CHECK(paro_strategy_letters("mics", letters, 3) == HO_INVALID_ARGUMENT);
  CHECK(paro_strategy_letters("mics", nullptr, 4) == HO_INVALID_ARGUMENT);
  CHECK(std::string(paro_version()) == ho_version());
}

TEST_CASE("the strategies are listed, each with its scopes and what systems it is") {
  std::string all;
  for (uint32_t number = 0; number < paro_strategy_count(); ++number) {
    paro_strategy strategy = PARO_STRATEGY_INIT;
    REQUIRE(paro_strategy_at(number, &strategy) == HO_OK);
    all += std::string(strategy.letters) + ' ';
    const std::string scopes = {
        "NIG"[strategy.parameters], "NIG"[strategy.gradients], "NIG"[strategy.optimizer]};
    CHECK(scopes == strategy.letters);
    CHECK(paro_strategy_check(strategy.letters) == HO_OK);
    if (scopes == "III") {
      CHECK(std::string(strategy.known_as) == "MiCS, HSDP");
    }
    CHECK((scopes != "GIG" || std::string(strategy.known_as).empty()));
  }
  CHECK(all == "NNN NNI NNG NII NIG NGG INI ING III IIG IGG GNG GIG GGG ");

  paro_strategy strategy = PARO_STRATEGY_INIT;
  CHECK(paro_strategy_at(paro_strategy_count(), &strategy) == HO_INVALID_ARGUMENT);
  CHECK(strategy.letters == nullptr);
  CHECK(paro_strategy_at(0, nullptr) == HO_INVALID_ARGUMENT);
  strategy.size = 1;
  CHECK(paro_strategy_at(0, &strategy) == HO_INVALID_ARGUMENT);
}

TEST_CASE("the planner answers a request in JSON, without a job") {
  const char* answer = nullptr;
  REQUIRE(paro_plan(R"({"model": "llama-7b", "nodes": 4, "ranks_per_node": 8, "memory": "24GB",
                        "intra": "2000Gbit", "inter": "80Gbit", "nics": 2, "accumulation": 10,
                        "compute_time": "5.7s", "activations": "4GB"})",
                    &answer) == HO_OK);
  const auto plan = nlohmann::json::parse(answer);
  CHECK(plan["recommended"] == "IIG");
  CHECK(plan["strategies"].size() == paro_strategy_count());
  const char* const first = answer;
  CHECK(paro_plan(R"({"model": "llama-7b", "knots": 4})", &answer) == HO_INVALID_ARGUMENT);
  CHECK(answer == first);
  CHECK(std::string(paro_last_error_message()).find("paro_plan: \"knots\" is not known") !=
        std::string::npos);
  CHECK(paro_plan(nullptr, &answer) == HO_INVALID_ARGUMENT);
  CHECK(paro_plan("{}", nullptr) == HO_INVALID_ARGUMENT);
}

TEST_CASE("null handles are refused by every call") {
  paro_unit_view view = PARO_UNIT_VIEW_INIT;
  paro_memory memory = PARO_MEMORY_INIT;
  uint64_t bytes = 0;
  float value = 0;
  paro_runner* runner = nullptr;
  CHECK(paro_runner_create(nullptr, nullptr, kUnits, kUnitCount, &runner) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_load(nullptr, 0, &value, 1, nullptr, 0) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_before_forward(nullptr, 0, &view) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_after_forward(nullptr, 0) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_before_backward(nullptr, 0, &view) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_after_backward(nullptr, 0) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_step(nullptr, nullptr) == HO_INVALID_ARGUMENT);
  CHECK(std::strstr(paro_last_error_message(), "paro_runner_step: a null runner") != nullptr);
  CHECK(paro_runner_flush(nullptr, 0, nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_synchronize(nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_set_learning_rate(nullptr, 1) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_read_masters(nullptr, 0, &value, 1) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_read_frozen(nullptr, 0, &value, 1) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_check_drift(nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_rejoin(nullptr, nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_abort(nullptr, nullptr) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_memory(nullptr, PARO_MEMORY_STATES, &memory) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_sent_bytes(nullptr, PARO_PHASE_SYNC_G, &bytes, &bytes) == HO_INVALID_ARGUMENT);
  CHECK(paro_runner_loss_scale(nullptr) == 0);
  CHECK(paro_runner_applied_steps(nullptr) == 0);
  paro_runner_destroy(nullptr);
}

TEST_CASE("options that cannot work are refused on every rank") {
  require_job({"2x2"}, [](ho_comm* comm) {
    for (const BadOption& bad : kBadOptions) {
      paro_runner_options options = sgd_options("NIG");
      bad.spoil(options);
      expect_no_runner(comm, options, kUnits, kUnitCount, bad.text);
      // One rank's mistake is everybody's: nobody waits for it.
      options = sgd_options("NIG");
      if (ho_comm_rank(comm) == 2) {
        bad.spoil(options);
        expect_no_runner(comm, options, kUnits, kUnitCount, bad.text);
      } else {
        expect_no_runner(comm, options, kUnits, kUnitCount, "rank 2 cannot take part: ");
        expect_no_runner(nullptr, options, kUnits, kUnitCount, "a null communicator");
      }
    }
    const paro_runner_options options = sgd_options("NIG");
    expect_no_runner(comm, options, nullptr, 2, "a null array of 2 units");
    expect_no_runner(comm, options, kUnits, 0, "a model of 0 units");
    expect_no_runner(comm, options, kUnits, SIZE_MAX, "units; takes 1 to 1048576");
    const paro_unit huge = {"huge", UINT64_MAX, 0, nullptr};
    expect_no_runner(comm, options, &huge, 1, "unit 0 (huge)");
    // Sums of these wrap: they would fit any budget.
    const std::vector<paro_unit> many(256, {"many", uint64_t{1} << 54U, 0, nullptr});
    paro_runner_options thrifty = options;
    thrifty.budget_bytes = 1000000;
    expect_no_runner(comm, thrifty, many.data(), many.size(), "at most 2^44 of all units together");
    expect_refusal(paro_runner_create(comm, &options, kUnits, kUnitCount, nullptr),
                   HO_INVALID_ARGUMENT,
                   "a null place for the runner");
    // The communicator is as good as before.
    must(paro_runner_synchronize(runner_of(comm, options).get()));
  });
}

TEST_CASE("ranks that differ are refused on every rank") {
  const BadOption differences[] = {
      {"strategy: NIG and NNG", [](auto& o) { o.strategy = "NNG"; }},
      {"frozen: N and I", [](auto& o) { o.frozen = PARO_GROUP; }},
      {"groups (group_size, group_file), rank 2: place 0 of group 1 and place 2 of group 0;",
       [](auto& o) { o.group_size = 4; }},
      {"micro_batches: 1 and 2", [](auto& o) { o.micro_batches = 2; }},
      {"prefetch: 1 and 2", [](auto& o) { o.prefetch = 2; }},
      {"bucket_bytes: 1048576 and 0", [](auto& o) { o.bucket_bytes = 0; }},
      {"alignment: ", [](auto& o) { o.alignment = 8; }},
      {"parameter_dtype: ", [](auto& o) { o.parameter_dtype = HO_BFLOAT16; }},
      {"gradient_dtype: ", [](auto& o) { o.gradient_dtype = HO_FLOAT16; }},
      {"narrow_sums: 0 and 1", [](auto& o) { o.narrow_sums = 1; }},
      {"fp32_gradients: 0 and 1", [](auto& o) { o.fp32_gradients = 1; }},
      {"sgd.learning_rate: ", [](auto& o) { o.sgd.learning_rate = 1; }},
      {"optimizer: SGD and AdamW", [](auto& o) { o.optimizer = PARO_OPTIMIZER_ADAMW; }},
      {"loss_scale.scaling: PARO_SCALING_NONE and PARO_SCALING_DYNAMIC;",
       [](auto& o) { o.loss_scale.scaling = PARO_SCALING_DYNAMIC; }},
      {"max_norm: 0 and 1;", [](auto& o) { o.max_norm = 1; }},
      {"algorithm: HO_ALGORITHM_HO_RING and HO_ALGORITHM_RING;",
       [](auto& o) { o.algorithm = HO_ALGORITHM_RING; }},
      {"algorithm: HO_ALGORITHM_HO_RING and HO_ALGORITHM_AUTO;",
       [](auto& o) { o.algorithm = HO_ALGORITHM_AUTO; }},
      {"drift_interval: 0 and 1", [](auto& o) { o.drift_interval = 1; }},
  };
  require_job({"2x2"}, [&](ho_comm* comm) {
    paro_runner* runner = nullptr;
    for (const BadOption& one : differences) {
      paro_runner_options options = sgd_options("NIG");
      if (ho_comm_rank(comm) == 3) {
        one.spoil(options);
      }
      expect_refusal(paro_runner_create(comm, &options, kUnits, kUnitCount, &runner),
                     HO_MISMATCH,
                     std::string("ranks 0 and 3 differ in: ") + one.text);
    }
    const paro_unit longer[] = {{"first", 41, 8, nullptr}, {nullptr, 24, 0, nullptr}};
    const paro_runner_options options = sgd_options("NIG");
    expect_refusal(
        paro_runner_create(
            comm, &options, ho_comm_rank(comm) == 1 ? longer : kUnits, kUnitCount, &runner),
        HO_MISMATCH,
        "ranks 0 and 1 differ in: unit 0: 40 trained and 8 frozen elements, called \"first\" and "
        "41 trained and 8 frozen elements, called \"first\";");
  });
}

TEST_CASE("lists that differ are told by their first entry that does, and both values") {
  require_job({"2x2"}, [&](ho_comm* comm) {
    paro_runner* runner = nullptr;
    const bool other = ho_comm_rank(comm) == 2;
    const auto refused =
        [&](const paro_runner_options& options, const paro_unit* units, const std::string& text) {
          expect_refusal(paro_runner_create(comm, &options, units, kUnitCount, &runner),
                         HO_MISMATCH,
                         "ranks 0 and 2 differ in: " + text);
        };
    paro_runner_options options = sgd_options("NIG");
    std::array<paro_parameter_group, 2> groups{{{0, 0, 0, 4, 1, 0}, {1, 0, 8, 4, 1, 0.25}}};
    options.parameter_groups = groups.data();
    options.parameter_group_count = other ? 1 : 2;
    refused(options, kUnits, "parameter_group_count: 2 and 1;");
    options.parameter_group_count = 2;
    groups[1].weight_decay = other ? 0.5 : 0.25;
    refused(options,
            kUnits,
            "parameter_groups[1]: unit 1, first_element 8, count 4, learning_rate_factor 1, "
            "weight_decay 0.25 and unit 1, first_element 8, count 4, learning_rate_factor 1, "
            "weight_decay 0.5;");
    // Names of any length hide neither the sizes nor where they differ.
    const std::string same(3000, 'n');
    const std::string name = same + (other ? "tail" : "end") + same;
    options = sgd_options("NIG");
    const paro_unit named[] = {{name.c_str(), 40, 8, nullptr}, {nullptr, 24, 0, nullptr}};
    const std::string before(24, 'n');
    refused(options, named, "unit 0: 40 trained and 8 frozen elements, called \"nnn");
    const std::string message = paro_last_error_message();
    expect(message.find("..." + before + "endnnn") != std::string::npos, message);
    expect(message.find("..." + before + "tailnnn") != std::string::npos, message);
    expect(message.size() < 700, message);
    const paro_unit sized[] = {{same.c_str(), 40, other ? 7U : 8U, nullptr},
                               {nullptr, 24, 0, nullptr}};
    refused(options, sized, "unit 0: 40 trained and 8 frozen elements, called");
    expect(
        std::strstr(paro_last_error_message(), " and 40 trained and 7 frozen elements") != nullptr,
        paro_last_error_message());
  });
}

TEST_CASE("a budget that is too small names what would fit") {
  require_job({"2x2"}, [](ho_comm* comm) {
    paro_runner* runner = nullptr;
    paro_runner_options options = sgd_options("NNN");
    // With padding 80 trained elements of 12 bytes (parameters, sums, masters), 16 frozen of 4.
    options.bucket_bytes = 0;
    options.budget_bytes = ho_comm_rank(comm) == 1 ? 900 : 0;
    expect_refusal(paro_runner_create(comm, &options, kUnits, kUnitCount, &runner),
                   HO_OUT_OF_MEMORY,
                   "strategy NNN needs 1024 bytes");
    const std::string message = paro_last_error_message();
    expect(message.find("the budget is 900: these would fit (bytes): ") != std::string::npos,
           "lists others");
    expect(message.find("NNG (") != std::string::npos, "lists NNG");
    options.budget_bytes = 1;
    expect_refusal(paro_runner_create(comm, &options, kUnits, kUnitCount, &runner),
                   HO_OUT_OF_MEMORY,
                   "none of the 14 strategies fits");
    // Two messages of both units, whose places are multiples of 32 elements.
    options.bucket_bytes = 4096;
    expect_refusal(paro_runner_create(comm, &options, kUnits, kUnitCount, &runner),
                   HO_OUT_OF_MEMORY,
                   "strategy NNN needs 1664 bytes");
  });
}

TEST_CASE("hooks out of order are told what comes next") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const OwnedRunner owned = runner_of(comm, sgd_options("IIG"));
    paro_runner* const runner = owned.get();
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    const auto refused = [](ho_status status, const char* next) {
      expect_refusal(status, HO_INVALID_ARGUMENT, next);
    };
    refused(paro_runner_after_forward(runner, 0), "the next call is before_forward(0)");
    refused(paro_runner_before_backward(runner, 1, &view), "the next call is before_forward(0)");
    refused(paro_runner_before_forward(runner, 1, &view), "the next call is before_forward(0)");
    refused(paro_runner_before_forward(runner, UINT32_MAX, &view), "of 2 units");
    refused(paro_runner_step(runner, nullptr),
            "step() of 2 units and 1 micro-batches: the next call is before_forward(0)");
    must(paro_runner_before_forward(runner, 0, &view));
    refused(paro_runner_before_forward(runner, 0, &view), "the next call is after_forward(0)");
    refused(paro_runner_load(runner, 0, nullptr, 0, nullptr, 0), "in the middle of a step");
    refused(paro_runner_check_drift(runner), "in the middle of a step");
    must(paro_runner_after_forward(runner, 0));
    must(paro_runner_before_forward(runner, 1, &view));
    must(paro_runner_after_forward(runner, 1));
    refused(paro_runner_before_backward(runner, 0, &view), "the next call is before_backward(1)");
    for (uint32_t unit = 2; unit-- > 0;) {
      must(paro_runner_before_backward(runner, unit, &view));
      refused(paro_runner_step(runner, nullptr), "the next call is after_backward");
      must(paro_runner_after_backward(runner, unit));
    }
    refused(paro_runner_before_forward(runner, 0, &view), "the next call is step()");
    paro_step_report report = PARO_STEP_REPORT_INIT;
    must(paro_runner_flush(runner, 1, &report));
    expect(report.step == 0 && report.outcome_step == 0, "there was no step yet");
    must(paro_runner_step(runner, &report));
    expect(report.step == 1 && report.applied == 1 && report.norm == 0, "reports the step");
    expect(report.hooks >= 8, "counts hooks: " + std::to_string(report.hooks));
    expect(report.outcome_step == 1, "on the host with its own outcome");
    paro_step_report flushed = PARO_STEP_REPORT_INIT;
    must(paro_runner_flush(runner, 0, &flushed));
    expect(std::memcmp(&flushed, &report, sizeof report) == 0, "and flush says the same");
    // An older program, which does not know the last field.
    paro_step_report older = PARO_STEP_REPORT_INIT;
    older.size = offsetof(paro_step_report, outcome_step);
    older.outcome_step = 77;
    must(paro_runner_flush(runner, 0, &older));
    expect(older.step == 1 && older.hooks == report.hooks && older.outcome_step == 77,
           "writes what the caller knows");
  });
}

TEST_CASE("results that cannot be written are refused before anything happens") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const OwnedRunner owned = runner_of(comm, sgd_options("GGG"));
    paro_runner* const runner = owned.get();
    const auto refused = [](ho_status status, const char* text) {
      expect_refusal(status, HO_INVALID_ARGUMENT, text);
    };
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    refused(paro_runner_before_forward(runner, 0, nullptr), "a null paro_unit_view");
    for (const size_t size : {size_t{0}, size_t{8}, size_t{17}, size_t{4104}, SIZE_MAX}) {
      view.size = size;
      refused(paro_runner_before_forward(runner, 0, &view), "paro_unit_view.size is ");
    }
    // An older program's, which knows of two arrays.
    view = PARO_UNIT_VIEW_INIT;
    view.size = offsetof(paro_unit_view, gradients);
    view.trained_count = 4711;
    must(paro_runner_before_forward(runner, 0, &view));
    expect(view.trained != nullptr && view.frozen != nullptr, "writes what fits");
    expect(view.trained_count == 4711 && view.size == 24, "writes no further");
    paro_step_report report = PARO_STEP_REPORT_INIT;
    report.size = 3;
    refused(paro_runner_step(runner, &report), "paro_step_report.size is 3");
    refused(paro_runner_flush(runner, 0, &report), "paro_step_report.size is 3");
    paro_memory memory = PARO_MEMORY_INIT;
    refused(paro_runner_memory(runner, PARO_MEMORY_STATES, nullptr), "a null paro_memory");
    for (const int purpose : {-1, 6, 253, 256}) {
      refused(paro_runner_memory(runner, enumerator<paro_purpose>(purpose), &memory),
              "there is no purpose ");
    }
    uint64_t bytes = 0;
    for (const int phase : {-1, 5}) {
      refused(paro_runner_sent_bytes(runner, enumerator<paro_phase>(phase), &bytes, &bytes),
              "there is no phase ");
    }
    refused(paro_runner_sent_bytes(runner, PARO_PHASE_SYNC_P, nullptr, &bytes), "a null place");
  });
}

TEST_CASE("states on a device are refused with what is missing for them") {
  require_job({"2x1"}, [](ho_comm* comm) {
    paro_runner_options options = sgd_options("GGG");
    options.collectives = PARO_COLLECTIVES_NCCL;
    expect_no_runner(comm, options, kUnits, kUnitCount, "set place to PARO_PLACE_DEVICE");
    options.place = PARO_PLACE_DEVICE;
    // A driver, NCCL, or a device of the communicator.
    paro_runner* runner = nullptr;
    const ho_status status = paro_runner_create(comm, &options, kUnits, kUnitCount, &runner);
    expect(status == HO_UNSUPPORTED || status == HO_INVALID_ARGUMENT, "is refused");
    expect(runner == nullptr, "gives no runner");
    expect(std::strstr(paro_last_error_message(), "states on a device: ") != nullptr, "says why");
    // The communicator is as good as before.
    must(paro_runner_synchronize(runner_of(comm, sgd_options("GGG")).get()));
  });
}

TEST_CASE("an older program's options mean what they did") {
  require_job({"2x1"}, [](ho_comm* comm) {
    paro_runner_options options = sgd_options("GGG");
    options.size = offsetof(paro_runner_options, alignment);
    options.alignment = 0;  // not looked at
    options.group_size = 77;
    const OwnedRunner owned = runner_of(comm, options);
    paro_memory memory = PARO_MEMORY_INIT;
    must(paro_runner_memory(owned.get(), PARO_MEMORY_OPTIMIZER, &memory));
    // Of the first unit's three blocks of 16 and the second's two, for AdamW.
    const uint64_t blocks = ho_comm_rank(comm) == 0 ? 1 + 1 : 2 + 1;
    expect(memory.now_bytes == blocks * 16 * 12, std::to_string(memory.now_bytes));
    // None at all: every rank holds everything.
    paro_runner* plain = nullptr;
    must(paro_runner_create(comm, nullptr, kUnits, kUnitCount, &plain));
    must(paro_runner_memory(plain, PARO_MEMORY_OPTIMIZER, &memory));
    expect(memory.now_bytes == uint64_t{48 + 32} * 12, std::to_string(memory.now_bytes));
    paro_runner_destroy(plain);
  });
}

TEST_CASE("values that do not fit a unit are refused") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const OwnedRunner owned = runner_of(comm, sgd_options("IIG"));
    paro_runner* const runner = owned.get();
    std::vector<float> values(48);
    const auto refused = [](ho_status status, const char* text) {
      expect_refusal(status, HO_INVALID_ARGUMENT, text);
    };
    float* const some = values.data();
    refused(paro_runner_load(runner, 2, some, 40, some, 8), "of 2 units");
    refused(paro_runner_load(runner, 0, some, 39, some, 8), "where it has 40 and 8");
    refused(paro_runner_load(runner, 0, some, 40, some, 9), "where it has 40 and 8");
    refused(paro_runner_load(runner, 0, nullptr, 40, some, 8), "a null array of 40 trained");
    refused(paro_runner_load(runner, 0, some, 40, nullptr, 8), "a null array of 8 frozen");
    refused(paro_runner_read_masters(runner, 0, some, 41), "which has 40");
    refused(paro_runner_read_masters(runner, 2, some, 1), "there is no unit 2, the last is 1");
    refused(paro_runner_read_masters(runner, 0, nullptr, 40), "a null array for 40");
    refused(paro_runner_read_frozen(runner, 0, some, 9), "which has 8");
    refused(paro_runner_read_frozen(runner, 2, some, 1), "there is no unit 2, the last is 1");
    refused(paro_runner_read_frozen(runner, 0, nullptr, 8), "a null array for 8");
    refused(paro_runner_rejoin(runner, nullptr), "a null communicator");
    must(paro_runner_load(runner, 0, some, 40, some, 8));
    must(paro_runner_read_masters(runner, 0, some, 40));
  });
}

namespace {

// In a forked child: 0, or the number of the first promise that is broken.
int broken_promise(paro_runner* runner) {
  paro_unit_view view = PARO_UNIT_VIEW_INIT;
  paro_memory memory = PARO_MEMORY_INIT;
  const auto refused = [](ho_status status) {
    return status == HO_INVALID_ARGUMENT &&
           std::strstr(paro_last_error_message(), "forked child") != nullptr;
  };
  const bool promises[] = {
      refused(paro_runner_before_forward(runner, 0, &view)),
      refused(paro_runner_step(runner, nullptr)),
      refused(paro_runner_check_drift(runner)),
      refused(paro_runner_abort(runner, "from the child")),
      refused(paro_runner_memory(runner, PARO_MEMORY_LIBRARY, &memory)),
      refused(paro_runner_rejoin(runner, nullptr)),
  };
  paro_runner_destroy(runner);
  int number = 1;
  for (const bool kept : promises) {
    if (!kept) {
      return number;
    }
    ++number;
  }
  return 0;
}

}  // namespace

TEST_CASE("a forked child can do nothing with its parent's runner") {
  require_job({"1x1"}, [](ho_comm* comm) {
    const OwnedRunner owned = runner_of(comm, sgd_options("IIG"));
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(broken_promise(owned.get()));
    }
    int state = 0;
    expect(::waitpid(child, &state, 0) == child, "the child ends");
    expect(WIFEXITED(state) && WEXITSTATUS(state) == 0,
           "broken promise " + std::to_string(WEXITSTATUS(state)));
    must(paro_runner_check_drift(owned.get()));
  });
}
