/* Fits a plane, y = 3 a - 2 b + 1, on the ranks of a job: what a framework does to use libparo.
 *   horing run -n 2x2 -- ./train
 * Build: cc -std=c11 train.c $(pkg-config --cflags --libs paro) -lm -o train */
#include <math.h>
#include <paro.h>
#include <stdio.h>
#include <stdlib.h>

enum { kUnits = 2, kSamples = 16, kSteps = 300 };

static void must(ho_status status) {
  if (status != HO_OK) {
    fprintf(stderr, "%s\n", ho_last_error_message()); /* libparo's errors too */
    exit(1);
  }
}

/* The framework's part, from here to main(): data, */
static void draw(float x[][2]) {
  for (int i = 0; i < 2 * kSamples; ++i) {
    x[i / 2][i % 2] = (float)rand() / (float)RAND_MAX - 0.5F;
  }
}

/* and a model: unit 0 has two slopes, unit 1 the offset; `y` goes from one to the next. */
static void forward(int u, const float* w, float x[][2], float* y) {
  for (int i = 0; i < kSamples; ++i) {
    y[i] = u == 0 ? w[0] * x[i][0] + w[1] * x[i][1] : y[i] + w[0];
  }
}

/* Adds the gradients of the mean squared error of this rank's samples. */
static void backward(int u, float* g, float x[][2], const float* y) {
  for (int i = 0; i < kSamples; ++i) {
    const float slope = 2 * (y[i] - (3 * x[i][0] - 2 * x[i][1] + 1)) / kSamples;
    g[0] += u == 0 ? slope * x[i][0] : slope;
    if (u == 0) {
      g[1] += slope * x[i][1];
    }
  }
}

int main(void) {
  ho_comm* comm = NULL;
  must(ho_comm_create(NULL, &comm));
  const paro_unit units[kUnits] = {{"slopes", 2, 0, NULL}, {"offset", 1, 0, NULL}};
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = "IIG"; /* parameters and gradients split in the node, optimizer over all */
  options.alignment = 1;    /* three parameters for four ranks: cut them anywhere */
  options.adamw = (paro_adamw){0.05, 0.9, 0.99, 1e-8, 0};
  paro_runner* runner = NULL;
  must(paro_runner_create(comm, &options, units, kUnits, &runner));
  const float start[2] = {0, 0};
  for (uint32_t u = 0; u < kUnits; ++u) {
    must(paro_runner_load(runner, u, start, units[u].trained, NULL, 0));
  }
  srand((unsigned)ho_comm_rank(comm) + 1); /* every rank has data of its own */
  for (int step = 0; step < kSteps; ++step) {
    float x[kSamples][2];
    float y[kSamples];
    draw(x);
    paro_unit_view view = PARO_UNIT_VIEW_INIT;
    for (uint32_t u = 0; u < kUnits; ++u) {
      must(paro_runner_before_forward(runner, u, &view));
      forward((int)u, view.trained, x, y);
      must(paro_runner_after_forward(runner, u));
    }
    for (uint32_t u = kUnits; u-- > 0;) {
      must(paro_runner_before_backward(runner, u, &view));
      backward((int)u, view.gradients, x, y);
      must(paro_runner_after_backward(runner, u));
    }
    paro_step_report report = PARO_STEP_REPORT_INIT;
    must(paro_runner_step(runner, &report));
    if (!report.applied) { /* all ranks skipped the step; the log has the reason */
      fprintf(stderr, "step %d: a gradient is not finite (norm %g)\n", step, report.norm);
      return 1;
    }
  }
  float fitted[3];
  must(paro_runner_read_masters(runner, 0, fitted, 2));
  must(paro_runner_read_masters(runner, 1, fitted + 2, 1));
  if (ho_comm_rank(comm) == 0) {
    printf("y = %.2f a + %.2f b + %.2f\n", fitted[0], fitted[1], fitted[2]);
  }
  paro_runner_destroy(runner);
  ho_comm_destroy(comm);
  return fabsf(fitted[0] - 3) + fabsf(fitted[1] + 2) + fabsf(fitted[2] - 1) < 0.1F ? 0 : 1;
}
