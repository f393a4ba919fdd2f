/* Strategies, and the planner that chooses one. C interface, C11; paro.h includes it.
 *
 * Nothing here needs a job: one process on any machine can plan for any cluster. Every function may
 * be called by any thread. Errors as in paro.h.
 */
#ifndef PARO_PLAN_H_
#define PARO_PLAN_H_

#include <horing.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PARO_API __attribute__((visibility("default")))
#else
#define PARO_API
#endif

/* Which ranks hold one copy of a state together: each rank its own, a group's ranks, all ranks. */
typedef enum paro_scope {
  PARO_REPLICATED = 0,
  PARO_GROUP = 1,
  PARO_WORLD = 2,
  PARO_AS_PARAMETERS = 3 /* as the strategy's letter for trained parameters */
} paro_scope;

/* One of the strategies. Its texts are valid as long as the library is loaded. */
typedef struct paro_strategy {
  size_t size;
  paro_scope parameters;
  paro_scope gradients;
  paro_scope optimizer;
  const char* letters;  /* of these three: "NIG" */
  const char* known_as; /* systems that do this or nearly this, as "MiCS, HSDP"; may be empty */
} paro_strategy;
#define PARO_STRATEGY_INIT \
  { sizeof(paro_strategy), PARO_REPLICATED, PARO_REPLICATED, PARO_REPLICATED, NULL, NULL }

/* HO_OK if `text` names a valid strategy; otherwise the message lists the valid ones or names the
 * rule that it breaks. */
PARO_API ho_status paro_strategy_check(const char* text);
/* The three letters and a terminating 0; `capacity` is at least 4. */
PARO_API ho_status paro_strategy_letters(const char* text, char* letters, size_t capacity);
/* How many there are, and the one of this number, from 0: by the letters of parameters, then
 * gradients, then optimizer state, N before I before G. */
PARO_API uint32_t paro_strategy_count(void);
PARO_API ho_status paro_strategy_at(uint32_t number, paro_strategy* strategy);

/* What `paro plan` answers: memory per rank and time of each strategy, and which one to take.
 *
 * `request`: UTF-8 text, a JSON object. Its keys are the options of `paro plan` with _ for -
 * (docs/reference/json.md), its values texts with a unit or numbers, "units" a list of objects:
 *
 *   {"model": "llama-7b", "nodes": 4, "ranks_per_node": 8, "memory": "80GB", "intra": "2000Gbit",
 *    "inter": "80Gbit", "accumulation": 10, "compute_time": "5.7s"}
 *
 * `answer`: becomes a JSON object as text, that of `paro plan --json`: memory in bytes, times in
 * seconds. The library owns it; it is valid until this thread's next paro_plan.
 *
 * With "export": "fsdp2" or "paro.torch" the answer's "export" is a Python program that trains by
 * the plan, else null.
 *
 * HO_INVALID_ARGUMENT: `request` is no such object; the message names key, value and what it takes,
 * and `answer` is not changed. That nothing fits is no error: "recommended" is null then. */
PARO_API ho_status paro_plan(const char* request, const char** answer);

#ifdef __cplusplus
}
#endif

#endif /* PARO_PLAN_H_ */
