/* Learns which word follows which, on the ranks of a job. It uses what real frameworks need from
 * libparo: a head tied to the embedding, parameter groups, an optimizer of its own with state, and
 * steps of as many micro-batches as there is data for.
 *   horing run -n 2x2 -- ./tied
 * Build: cc -std=c11 tied.c $(pkg-config --cflags --libs paro) -lm -o tied */
#include <math.h>
#include <paro.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWords = 8, kDim = 6, kSamples = 16, kSteps = 200, kMicroBatches = 3 };
enum { kTable = kWords * kDim, kBlock = kDim * kDim + kDim }; /* weights, then biases */
enum { kUnits = 3 };

static void must(ho_status status) {
  if (status != HO_OK) {
    fprintf(stderr, "%s\n", ho_last_error_message()); /* libparo's errors too */
    exit(1);
  }
}

/* AdamW with the group's weight decay. Its two states lie in the runner, which splits, moves and
 * saves them as it does masters. */
static int32_t adamw(const paro_shard* s, void* user) {
  (void)user;
  const float rate = (float)s->learning_rate;
  const float m_sum = 1 - powf(0.9F, (float)s->step);
  const float v_sum = 1 - powf(0.99F, (float)s->step);
  for (uint64_t i = 0; i < s->count; ++i) {
    float* const m = &s->states[0][i];
    float* const v = &s->states[1][i];
    *m = 0.9F * *m + 0.1F * s->gradient[i];
    *v = 0.99F * *v + 0.01F * s->gradient[i] * s->gradient[i];
    s->master[i] -=
        rate * ((float)s->weight_decay * s->master[i] + *m / m_sum / (sqrtf(*v / v_sum) + 1e-8F));
  }
  return 0;
}

/* One sample on its way: h = tanh(W table[word] + b), scores = table h. */
typedef struct sample {
  int word;
  int next;
  float h[kDim];
  float p[kWords]; /* probabilities */
  float d[kDim];   /* gradient of h */
} sample;

static void block(const float* w, const float* table, sample* s) {
  for (int r = 0; r < kDim; ++r) {
    float sum = w[kDim * kDim + r];
    for (int c = 0; c < kDim; ++c) {
      sum += w[r * kDim + c] * table[s->word * kDim + c];
    }
    s->h[r] = tanhf(sum);
  }
}

static void head(const float* table, sample* s) {
  float sum = 0;
  for (int word = 0; word < kWords; ++word) {
    float score = 0;
    for (int r = 0; r < kDim; ++r) {
      score += table[word * kDim + r] * s->h[r];
    }
    s->p[word] = expf(score);
    sum += s->p[word];
  }
  for (int word = 0; word < kWords; ++word) {
    s->p[word] /= sum;
  }
}

static void head_backward(const float* table, float* g, sample* s) {
  memset(s->d, 0, sizeof s->d);
  for (int word = 0; word < kWords; ++word) {
    const float slope = (s->p[word] - (word == s->next ? 1.0F : 0.0F)) / kSamples;
    for (int r = 0; r < kDim; ++r) {
      s->d[r] += slope * table[word * kDim + r];
      g[word * kDim + r] += slope * s->h[r];
    }
  }
}

/* x: what the table gave for the word; its gradient goes to dx. */
static void block_backward(const float* w, float* g, const float* x, float* dx, sample* s) {
  memset(dx, 0, kDim * sizeof *dx);
  for (int r = 0; r < kDim; ++r) {
    const float slope = s->d[r] * (1 - s->h[r] * s->h[r]);
    g[kDim * kDim + r] += slope;
    for (int c = 0; c < kDim; ++c) {
      g[r * kDim + c] += slope * x[c];
      dx[c] += slope * w[r * kDim + c];
    }
  }
}

static void micro_batch(paro_runner* runner) {
  sample samples[kSamples];
  float table[kTable] = {0}; /* the rows in use: activations, not a copy of the parameters */
  float dx[kSamples][kDim];
  paro_unit_view view = PARO_UNIT_VIEW_INIT;
  must(paro_runner_before_forward(runner, 0, &view));
  for (int i = 0; i < kSamples; ++i) {
    const int word = rand() % kWords;
    samples[i].word = word;
    samples[i].next = (3 * word + 1) % kWords;
    const size_t row = (size_t)word * kDim;
    memcpy(&table[row], (const float*)view.trained + row, kDim * sizeof *table);
  }
  must(paro_runner_after_forward(runner, 0));
  for (uint32_t u = 1; u < kUnits; ++u) {
    must(paro_runner_before_forward(runner, u, &view));
    for (int i = 0; i < kSamples; ++i) {
      u == 1 ? block(view.trained, table, &samples[i]) : head(view.trained, &samples[i]);
    }
    must(paro_runner_after_forward(runner, u));
  }
  for (uint32_t u = kUnits; u-- > 0;) {
    must(paro_runner_before_backward(runner, u, &view));
    float* const g = view.gradients; /* of unit 2 they are added to unit 0's */
    for (int i = 0; i < kSamples; ++i) {
      sample* const s = &samples[i];
      if (u == 2) {
        head_backward(view.trained, g, s);
      } else if (u == 1) {
        block_backward(view.trained, g, &table[(size_t)s->word * kDim], dx[i], s);
      }
      for (int c = 0; u == 0 && c < kDim; ++c) {
        g[s->word * kDim + c] += dx[i][c];
      }
    }
    must(paro_runner_after_backward(runner, u));
  }
}

int main(void) {
  ho_comm* comm = NULL;
  must(ho_comm_create(NULL, &comm));
  const paro_unit units[kUnits] = {
      {"table", kTable, 0, NULL}, {"block", kBlock, 0, NULL}, {"head", 0, 0, "table"}};
  const paro_parameter_group groups[2] = {
      {0, 0, 0, kTable, 0.5, 0},                     /* the table: half the rate */
      {1, 0, 0, (uint64_t)kDim * kDim, 1.0, 0.001}}; /* the block's weights decay */
  const char* const states[2] = {"exp_avg", "exp_avg_sq"};
  paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
  options.strategy = "IIG";
  options.micro_batches = kMicroBatches;
  options.optimizer = PARO_OPTIMIZER_CUSTOM;
  options.custom = (paro_custom_optimizer){adamw, NULL, 0.05, states, 2};
  options.parameter_groups = groups;
  options.parameter_group_count = 2;
  paro_runner* runner = NULL;
  must(paro_runner_create(comm, &options, units, kUnits, &runner));
  float table[kTable];
  float weights[kBlock];
  srand(7); /* the same initial values on all ranks: the first step compares them */
  for (int i = 0; i < kTable + kBlock; ++i) {
    *(i < kTable ? &table[i] : &weights[i - kTable]) = (float)rand() / (float)RAND_MAX - 0.5F;
  }
  must(paro_runner_load(runner, 0, table, kTable, NULL, 0));
  must(paro_runner_load(runner, 1, weights, kBlock, NULL, 0));
  srand((unsigned)ho_comm_rank(comm) + 1);
  micro_batch(runner);
  must(paro_runner_discard(runner)); /* a first pass, for example to warm up: nothing of it stays */
  for (int step = 0; step < kSteps; ++step) {
    const int count = step % 5 == 4 ? kMicroBatches - 1 : kMicroBatches; /* the data's end */
    for (int k = 0; k < count; ++k) {
      micro_batch(runner);
    }
    paro_step_report report = PARO_STEP_REPORT_INIT;
    must(count < kMicroBatches ? paro_runner_step_early(runner, &report)
                               : paro_runner_step(runner, &report));
    if (!report.applied) {
      fprintf(stderr, "step %d: a gradient is not finite (norm %g)\n", step, report.norm);
      return 1;
    }
  }
  must(paro_runner_read_masters(runner, 0, table, kTable));
  must(paro_runner_read_masters(runner, 1, weights, kBlock));
  int right = 0;
  for (int word = 0; word < kWords; ++word) {
    sample s = {.word = word};
    block(weights, table, &s);
    head(table, &s);
    right += s.p[(3 * word + 1) % kWords] > 0.5F;
  }
  if (ho_comm_rank(comm) == 0) {
    printf("%d of %d words right\n", right, kWords);
  }
  paro_runner_destroy(runner);
  ho_comm_destroy(comm);
  return right == kWords ? 0 : 1;
}
