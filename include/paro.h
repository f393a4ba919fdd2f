/* PaRO: sharded data-parallel training over HO-Ring. C interface, C11.
 *
 * A model is a row of units (layers, or a few of them), each two flat arrays of parameters: trained
 * and frozen ones. Parameters, gradients and optimizer state are each held whole by every rank, or
 * split over the ranks of a group, or over all ranks: that triple is the strategy ("NIG", "zero2").
 * The framework computes; the runner has a unit's whole parameters there before the unit computes,
 * takes its gradients after, and updates fp32 masters:
 *
 *   for each micro-batch:  before_forward(u), compute, after_forward(u)      u = 0 .. units - 1
 *                          before_backward(u), compute, after_backward(u)    u = units - 1 .. 0
 *   paro_runner_step()          or step_early, or discard, after fewer micro-batches
 *
 * Data moves while the framework computes; a hook blocks only for what its own unit needs.
 *
 * Every function that can fail returns ho_status (horing.h); HO_OK is 0. After an error
 * paro_last_error_message() says what failed, where, and what to do next (calling thread's last
 * error of this library). ho_last_error_message() says so too, until the next call to horing.h.
 *
 * Errors of a runner: HO_INVALID_ARGUMENT from a null pointer, a wrong size, a unit that there is
 * not, or a call out of order changes nothing; make the right call and go on. Any other error
 * breaks the runner on this rank, and soon on all of them: its message names unit, operation, rank
 * and step, and every later call returns it again, until paro_runner_rejoin() or
 * paro_runner_destroy(). All ranks get the first cause, at once. The runner's own communicators end
 * with it; the one that it was made over and all others of the job go on, unless a rank's process
 * is gone, which ends those that it is in (horing.h: Failures). libhoring's part of a message
 * numbers ranks as its communicator does; where it says "of the job", as ho_comm_create did.
 *
 * Threads: a runner may be used by one thread at a time, except paro_runner_abort, which any thread
 * may call while another is in any call but rejoin, change_strategy, destroy, or a step that
 * changes the strategy (strategy_file, auto_strategy). Different runners are independent. All ranks
 * make the same calls on a runner in the same order.
 *
 * fork: a runner belongs to the process that made it, as a communicator does (horing.h). In a
 * forked child every call with it fails with HO_INVALID_ARGUMENT, and destroy does nothing.
 *
 * Memory: host memory. The library copies option structs, arrays and texts that it is given; what
 * it must keep (an optimizer's `user`) it says.
 *
 * Structs with `size`: set it to sizeof the struct (PARO_*_INIT does). Fields that an older caller
 * does not know take their defaults, or are not written. Structs without never change. A reserved
 * field of what a caller gives must be 0, or the call is HO_INVALID_ARGUMENT and names it.
 */
#ifndef PARO_H_
#define PARO_H_

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

#define PARO_VERSION_MAJOR 0
#define PARO_VERSION_MINOR 1
#define PARO_VERSION_PATCH 0

typedef struct paro_runner paro_runner;

/* A prefetch that follows from the units' sizes: so many that the computation of a unit's
 * neighbours together takes about as long as the gather of the largest; 1 where units are alike,
 * never more than 3. */
#define PARO_PREFETCH_AUTO 0xffffffffU

#define PARO_DEFAULT_BUCKET_BYTES 1048576

/* Who shares one copy of a state: nobody (every rank has one), a group's ranks, all ranks. */
typedef enum paro_scope {
  PARO_REPLICATED = 0,
  PARO_GROUP = 1,
  PARO_WORLD = 2,
  PARO_AS_PARAMETERS = 3 /* as the strategy says for parameters that are trained */
} paro_scope;

/* One unit. The runner's number for it is its place in the array. */
typedef struct paro_unit {
  const char* name; /* for messages, and where others share it; may be NULL */
  uint64_t trained; /* elements */
  uint64_t frozen;  /* elements */
  /* The name of one unit before this one (not of one that shares itself), whose parameters this one
   * computes with too, as a head does with the embedding's: its views are of that unit's arrays,
   * and the gradients of both are added up. They are gathered for it as for any unit, held once,
   * and loaded, read and saved there; this unit has no elements of its own (0 and 0). Give a tied
   * parameter a unit of its own. NULL: none. */
  const char* shares;
} paro_unit;

/* The built-in rules work on fp32 masters with fp32 state. */
typedef struct paro_adamw {
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay; /* decoupled */
} paro_adamw;
#define PARO_ADAMW_INIT \
  { 1e-3, 0.9, 0.999, 1e-8, 0.01 }

typedef struct paro_sgd {
  double learning_rate;
  double momentum;     /* heavy ball; 0: none, and no state */
  double weight_decay; /* added to the gradient */
} paro_sgd;
#define PARO_SGD_INIT \
  { 1e-2, 0.0, 0.0 }

/* What an optimizer of the caller's own gets: `count` elements of a unit, from `first_element` of
 * its trained array, all of one parameter group or of none. A step calls it for all that this rank
 * owns, unit by unit, in pieces that ascend. No piece reaches beyond the unit's count, however
 * large `alignment` is: padding is never shown. */
typedef struct paro_shard {
  size_t size; /* set by the library */
  uint32_t unit;
  uint64_t first_element;
  uint64_t count;
  uint64_t step; /* from 1: steps applied since the states were zeros, this one included */
  double learning_rate;
  float* master;         /* to be changed */
  const float* gradient; /* averaged over ranks and micro-batches, unscaled, clipped */
  /* As paro_custom_optimizer.states: `count` numbers each, of the same elements, to be changed. */
  float* const* states;
  uint32_t state_count;
  uint32_t reserved; /* 0 */
  /* Of the parameter group that the piece lies in, 0 where in none. learning_rate has that group's
   * factor already. */
  double weight_decay;
} paro_shard;

/* 0 is success. Anything else breaks the runner, with that number in the message; such a runner
 * cannot rejoin, since some masters have changed and some have not. Runs in the thread that called
 * paro_runner_step; must not throw, nor call the runner. */
typedef int32_t (*paro_optimizer_function)(const paro_shard* shard, void* user);

typedef struct paro_custom_optimizer {
  paro_optimizer_function function;
  void* user; /* handed on as it is; must outlive the runner */
  double learning_rate;
  /* What it keeps of each element: as many fp32 arrays as names here, at most 15, of letters,
   * digits and _. They are zeros at first, split as masters are, and counted as memory; a change of
   * strategy moves them, checkpoints keep them by name, in whatever order. What the function keeps
   * elsewhere does neither. The same on all ranks. NULL where state_count is 0. */
  const char* const* states;
  uint32_t state_count;
} paro_custom_optimizer;

typedef enum paro_optimizer {
  PARO_OPTIMIZER_ADAMW = 0,
  PARO_OPTIMIZER_SGD = 1,
  PARO_OPTIMIZER_CUSTOM = 2
} paro_optimizer;

/* `count` trained elements of a unit, from `first_element` on, with a weight decay and learning
 * rate of their own: norms and biases without decay, a head that learns slower. */
typedef struct paro_parameter_group {
  uint32_t unit;
  uint32_t reserved; /* must be 0 */
  uint64_t first_element;
  uint64_t count;
  double learning_rate_factor; /* times the optimizer's rate, whatever that is set to */
  double weight_decay;         /* instead of the optimizer's */
} paro_parameter_group;

typedef enum paro_scaling {
  PARO_SCALING_NONE = 0,   /* 1 */
  PARO_SCALING_STATIC = 1, /* stays at `initial` */
  PARO_SCALING_DYNAMIC = 2 /* begins at `initial` */
} paro_scaling;

/* What the framework multiplies its loss by, so that small 16-bit gradients survive. */
typedef struct paro_loss_scale {
  paro_scaling scaling;
  double initial;
  double growth;            /* factor after growth_interval steps without an overflow */
  double backoff;           /* factor after a step with one (which is left out) */
  uint64_t growth_interval; /* steps */
  double least;
  double most;
} paro_loss_scale;
#define PARO_LOSS_SCALE_INIT \
  { PARO_SCALING_NONE, 65536.0, 2.0, 0.5, 2000, 1.0, 16777216.0 }

/* The same on all ranks, but for budget_bytes and what is said below; where ranks differ, create
 * fails on all of them and says in what. */
typedef struct paro_runner_options {
  size_t size;
  /* Three letters for parameters, gradients and optimizer state, each N (every rank holds all), I
   * (split over the group's ranks) or G (split over all ranks), or a system's name: ddp, zero1,
   * zero2, zero3, fsdp, mics, hsdp, ... Any case. NULL: NNN. */
  const char* strategy;
  paro_scope frozen;        /* of parameters that are not trained */
  uint32_t micro_batches;   /* per step, at most; at least 1 */
  uint32_t prefetch;        /* units gathered ahead, at most the number of units; or below */
  uint32_t drift_interval;  /* steps between comparisons of all copies of all states; 0: none */
  uint64_t alignment;       /* elements; shards are cut at multiples of it */
  ho_dtype parameter_dtype; /* that the framework computes with: HO_FLOAT32, _FLOAT16, _BFLOAT16 */
  ho_dtype gradient_dtype;  /* that it writes gradients in: the same three */
  paro_optimizer optimizer; /* which of the next three is used */
  ho_algorithm algorithm;   /* of collectives; _DIRECT with 32-bit gradients only */
  paro_adamw adamw;
  paro_sgd sgd;
  paro_custom_optimizer custom; /* on all ranks or none; function and user may differ */
  paro_loss_scale loss_scale;
  double max_norm; /* longer gradients are shortened to it; 0: none are */
  /* Of each collective; 0: the communicator's. Ranks wait for each other to come to create, rejoin,
   * restore and save as long as that one says in any case (files are read and written before), and
   * connect within HORING_CONNECT_TIMEOUT_MS. Also between the micro-batches of a step no rank may
   * be later than that, whatever the strategy exchanges there. */
  uint64_t timeout_ms;
  uint64_t budget_bytes; /* of states, on the fullest rank: more is refused; 0: no limit. The
                          * smallest of any rank counts */
  /* Groups. 0: the ranks of a node, as the communicator found them. Otherwise the ranks, node by
   * node, make a group of every group_size that follow one another; it must divide the world. */
  uint32_t group_size;
  /* Gradients are summed over micro-batches in fp32, also those of 16 bits (which are rounded once,
   * when the sum is complete). 1: in gradient_dtype, which takes 2 bytes per element less and loses
   * small gradients in large sums: wrong from some hundred micro-batches on. */
  uint32_t narrow_sums;
  /* A file that says which ranks form a group, instead of group_size: one line per group, its
   * ranks separated by blanks, # begins a comment, every rank exactly once. Their order on the line
   * is the order of their parts. NULL: none. Read during create, by each rank. */
  const char* group_file;
  /* Small units that follow one another share their gradients' collectives, as long as they have at
   * most so many bytes of gradients together (padding not counted); a unit of as many is alone. The
   * gradients then leave when the last of them has ended its backward pass. Costs memory: about
   * twice so many bytes, twice that where gradients are split. 0: every unit is alone. */
  uint64_t bucket_bytes;
  /* Files that say what every step was like; %r in a name is the rank, without it rank 0 alone
   * writes. Told where they cannot be written when the runner is made; later that is a warning in
   * the log. May differ between ranks.
   * A line of JSON per step, appended. NULL: PARO_STEP_LOG, if that is set. */
  const char* step_log;
  /* Metrics in Prometheus' text format, replaced after each step. NULL: PARO_METRICS_FILE. */
  const char* metrics_file;
  /* The next three count on rank 0, whatever the others have.
   * A file at which rank 0 looks before every step. When it has changed since (what it says at
   * create does not count), it names a strategy, or "budget=BYTES", or both on two lines; # begins
   * a comment. The change is made at the end of that step, as by paro_runner_change_strategy. What
   * cannot be read or does not fit is a warning in the log. NULL: PARO_STRATEGY_FILE. */
  const char* strategy_file;
  /* 1: the fastest strategy that fits is taken, by the planner on links measured then, where that
   * file names another budget and no strategy, and where links have changed: every auto_interval
   * steps (0: never) a byte's time in collectives is compared with what it was in the first
   * auto_interval steps since the strategy was taken; twice that or half of it counts. What is not
   * at least a tenth faster is not taken, unless the present one does not fit. 0: not, unless
   * PARO_AUTO_STRATEGY is 1. */
  uint32_t auto_strategy;
  uint32_t auto_interval;
  /* 1: ranks give paro_runner_load only what they keep, and anything elsewhere: it is not compared.
   * 0: the next step, save, change_strategy or read_masters compares what they were given. */
  uint32_t unchecked_loads;
  uint32_t reserved; /* must be 0 */
  /* Where the optimizer's weight decay and learning rate do not hold; no two have an element in
   * common. The same on all ranks. Not in checkpoints: each run gives its own. NULL: none. */
  const paro_parameter_group* parameter_groups;
  uint64_t parameter_group_count;
} paro_runner_options;
#define PARO_RUNNER_OPTIONS_INIT                                                                \
  {                                                                                             \
    sizeof(paro_runner_options), NULL, PARO_AS_PARAMETERS, 1, 1, 0, 16, HO_FLOAT32, HO_FLOAT32, \
        PARO_OPTIMIZER_ADAMW, HO_ALGORITHM_HO_RING, PARO_ADAMW_INIT, PARO_SGD_INIT,             \
        {NULL, NULL, 0.0, NULL, 0}, PARO_LOSS_SCALE_INIT, 0.0, 0, 0, 0, 0, NULL,                \
        PARO_DEFAULT_BUCKET_BYTES, NULL, NULL, NULL, 0, 100, 0, 0, NULL, 0                      \
  }

/* A unit's whole parameters for the time of its computation, in parameter_dtype. Valid from the
 * before_ hook that wrote it to the after_ hook. NULL for an array without elements. */
typedef struct paro_unit_view {
  size_t size;
  const void* trained; /* read only, as frozen */
  const void* frozen;
  /* Backward only, gradient_dtype, as many as trained: add the gradient of this micro-batch's loss
   * times paro_runner_loss_scale(); do not overwrite. Sum over micro-batches and ranks: divide by
   * neither, the runner does. */
  void* gradients;
  uint64_t trained_count; /* elements */
  uint64_t frozen_count;
} paro_unit_view;
#define PARO_UNIT_VIEW_INIT \
  { sizeof(paro_unit_view), NULL, NULL, NULL, 0, 0 }

/* Times in nanoseconds, since the last step ended. */
typedef struct paro_step_report {
  size_t size;
  uint64_t step; /* from 1 */
  /* 0: a gradient of some rank was not finite, and all ranks left the step out. Rank 0's log says
   * where: a warning, unless a dynamic loss scale shrinks, which is what that is for. */
  int32_t applied;
  int32_t reserved; /* 0 */
  /* Of the averaged, unscaled gradient, before it was clipped; infinite or NaN where it is. */
  double norm;
  double loss_scale; /* that the step was run with */
  uint64_t hooks;    /* calls */
  uint64_t hook_ns;  /* in hooks and step, without waiting and without the optimizer */
  uint64_t wait_ns;  /* blocked for other ranks */
  uint64_t update_ns;
  uint64_t step_ns;       /* all of it: from the end of the step before, the first from create */
  uint64_t compute_ns;    /* the framework's, between before_ and after_ hooks */
  uint64_t collective_ns; /* of all collectives that ended, added up: as if nothing overlapped */
  uint64_t intra_bytes;   /* payload that this rank sent in them, inside nodes */
  uint64_t inter_bytes;   /* and between */
} paro_step_report;
#define PARO_STEP_REPORT_INIT \
  { sizeof(paro_step_report), 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef enum paro_purpose {
  PARO_MEMORY_PARAMETERS = 0, /* trained and frozen, what this rank holds of them */
  PARO_MEMORY_GRADIENTS = 1,  /* sums over micro-batches */
  PARO_MEMORY_OPTIMIZER = 2,  /* masters and the rule's own state */
  PARO_MEMORY_GATHERED = 3,   /* whole units for the time of their computation */
  PARO_MEMORY_OUTPUT = 4,     /* gradients on their way out of a backward pass */
  PARO_MEMORY_SCRATCH = 5,    /* packing small units' gradients; reordering for unequal groups (the
                               * most is predicted); reading masters, restoring (are not) */
  PARO_MEMORY_LIBRARY = 254,  /* libhoring's, for the runner's communicators: now_bytes only */
  PARO_MEMORY_STATES = 255    /* all but the library's */
} paro_purpose;

typedef struct paro_memory {
  size_t size;
  uint64_t predicted_bytes; /* from the sizes alone, before anything was allocated */
  uint64_t now_bytes;
  uint64_t peak_bytes; /* when this rank's states took most, since it was created */
} paro_memory;
#define PARO_MEMORY_INIT \
  { sizeof(paro_memory), 0, 0, 0 }

typedef enum paro_phase {
  PARO_PHASE_FORWARD = 0,  /* gathers of parameters */
  PARO_PHASE_BACKWARD = 1, /* gathers of parameters; gradients of each micro-batch */
  PARO_PHASE_SYNC_G = 2,   /* gradients, once a step; norm and flags */
  PARO_PHASE_UPDATE = 3,   /* nothing */
  PARO_PHASE_SYNC_P = 4    /* updated parameters, once a step */
} paro_phase;

PARO_API const char* paro_version(void);
/* Valid until the calling thread's next call into this library. Never NULL. */
PARO_API const char* paro_last_error_message(void);

/* HO_OK if `text` names a strategy that works; otherwise the message lists those there are, or says
 * which rule it breaks. */
PARO_API ho_status paro_strategy_check(const char* text);
/* The three letters and a terminating 0; `capacity` is at least 4. */
PARO_API ho_status paro_strategy_letters(const char* text, char* letters, size_t capacity);

/* Collective over comm, which is used during the call only: the runner makes communicators of its
 * own. options may be NULL. On success masters and parameters are zeros, for paro_runner_load. On
 * failure *runner is NULL, on all ranks: whatever one rank's arguments are refused for, the others
 * are told. HO_OUT_OF_MEMORY over budget_bytes lists the strategies that would fit. */
PARO_API ho_status paro_runner_create(ho_comm* comm,
                                      const paro_runner_options* options,
                                      const paro_unit* units,
                                      size_t unit_count,
                                      paro_runner** runner);
/* Not collective. Between steps it ends what the last one still moves, as paro_runner_synchronize
 * does, and a save in the background, for which all ranks must have called save; it does not
 * disturb the other ranks until they need this one; in the middle of a step this runner fails on
 * them at once, with HO_ABORTED and this rank's number. NULL is fine. */
PARO_API void paro_runner_destroy(paro_runner* runner);

/* Between steps: a unit's initial values, the same on all ranks, of which this rank keeps its
 * shards. Not collective, but all ranks must do it. The counts are those of the unit; an array
 * without elements may be NULL. Of a unit that shares another's parameters nothing is loaded, and a
 * count above 0 is HO_INVALID_ARGUMENT: load the other one. The next paro_runner_step, save,
 * change_strategy or read_masters compares, by a hash, what the ranks were given, frozen parameters
 * too: HO_MISMATCH on all of them, with unit and ranks, before anything is updated, saved or moved.
 * A step ends the runner by it: load anew after paro_runner_rejoin. */
PARO_API ho_status paro_runner_load(paro_runner* runner,
                                    uint32_t unit,
                                    const float* trained,
                                    size_t trained_count,
                                    const float* frozen,
                                    size_t frozen_count);

/* Around each computation, in the order at the top of this file; a call out of order is refused and
 * told which would be next. */
PARO_API ho_status paro_runner_before_forward(paro_runner* runner,
                                              uint32_t unit,
                                              paro_unit_view* view);
PARO_API ho_status paro_runner_after_forward(paro_runner* runner, uint32_t unit);
PARO_API ho_status paro_runner_before_backward(paro_runner* runner,
                                               uint32_t unit,
                                               paro_unit_view* view);
PARO_API ho_status paro_runner_after_backward(paro_runner* runner, uint32_t unit);
/* Starts what may start by now, and never blocks: for the middle of long computations, where they
 * leave the calling thread free (a device computes). Without it, of collectives that follow one
 * another the second starts at the next hook. */
PARO_API ho_status paro_runner_poll(paro_runner* runner);
/* Collective, after the last micro-batch: the ranks agree on norm and overflow, masters are
 * updated, and the new parameters are on their way. report may be NULL. */
PARO_API ho_status paro_runner_step(paro_runner* runner, paro_step_report* report);
/* Collective, instead of paro_runner_step, after fewer micro-batches than there are (at least one):
 * the step is of those, gradients are divided by their number. All ranks after as many: where they
 * are not, the runner breaks on all of them with HO_MISMATCH, which names two ranks and what each
 * did, as soon as all ranks have had as many micro-batches as the first to end. What was gathered
 * ahead was gathered in vain, and gradients leave after the last micro-batch instead of in it;
 * where the number is known before, set it. */
PARO_API ho_status paro_runner_step_early(paro_runner* runner, paro_step_report* report);
/* Collective, after any number of whole micro-batches, all of them included: drops what they have
 * added up, without an error; masters, states, loss scale and steps are as they were. Continue with
 * a first micro-batch. All ranks after as many, as above; after none it does nothing, and needs no
 * other rank. */
PARO_API ho_status paro_runner_discard(paro_runner* runner);
/* Collective, between steps: the steps that follow have so many micro-batches, 1 to
 * paro_runner_options.micro_batches, for which memory is counted. Where ranks give different
 * numbers, also where one is out of range, HO_MISMATCH on all of them, and nothing has changed. */
PARO_API ho_status paro_runner_set_micro_batches(paro_runner* runner, uint32_t micro_batches);
/* Waits for what the last step still moves; load, read_masters, read_frozen and check_drift do so
 * themselves. */
PARO_API ho_status paro_runner_synchronize(paro_runner* runner);

/* 0 for NULL. */
PARO_API double paro_runner_loss_scale(const paro_runner* runner);
/* Steps that have changed the masters; 0 for NULL. */
PARO_API uint64_t paro_runner_applied_steps(const paro_runner* runner);
/* From the next paro_runner_step() on, which is HO_MISMATCH on all ranks, before anything is
 * updated, where the ranks have not set the same. */
PARO_API ho_status paro_runner_set_learning_rate(paro_runner* runner, double rate);

/* Collective, between steps: a unit's whole masters, `count` as the unit's trained elements.
 * HO_MISMATCH on all ranks where they ask for different units or have room for different numbers of
 * elements, here and in read_frozen; nothing has changed then (a NULL array: on the others, and
 * HO_INVALID_ARGUMENT on its own). A unit that shares another's parameters has no elements: read
 * the other one. */
PARO_API ho_status paro_runner_read_masters(paro_runner* runner,
                                            uint32_t unit,
                                            float* trained,
                                            size_t count);
/* Collective, between steps: a unit's whole frozen parameters, as load rounded them to
 * parameter_dtype; `count` as the unit's frozen elements. With the masters that is all of the
 * model: for validation, samples, export. */
PARO_API ho_status paro_runner_read_frozen(paro_runner* runner,
                                           uint32_t unit,
                                           float* frozen,
                                           size_t count);
/* Collective, between steps: HO_MISMATCH, and a broken runner, unless all copies of all states are
 * the same bits. */
PARO_API ho_status paro_runner_check_drift(paro_runner* runner);

/* Collective: goes on after an error over the communicator that the runner was made over, or over a
 * new one (where that has failed too) of the same ranks with the same numbers, used during the call
 * only. What the
 * failed step had computed is dropped: continue with a first micro-batch. Whether that step counts,
 * and need not be repeated, paro_runner_applied_steps() says: it does if the number has grown since
 * the last report. HO_MISMATCH where it had reached some ranks' masters only: load a checkpoint. */
PARO_API ho_status paro_runner_rejoin(paro_runner* runner, ho_comm* comm);
/* Any thread. Every rank's waits for this runner end, and its calls fail from the next one that
 * needs another rank, with HO_ABORTED and the reason (may be NULL). */
PARO_API ho_status paro_runner_abort(paro_runner* runner, const char* reason);

/* This rank's bytes. */
PARO_API ho_status paro_runner_memory(const paro_runner* runner,
                                      paro_purpose purpose,
                                      paro_memory* memory);
/* Payload that this rank has sent for a phase since create, inside groups (of the communicator's
 * nodes) and between them. */
PARO_API ho_status paro_runner_sent_bytes(const paro_runner* runner,
                                          paro_phase phase,
                                          uint64_t* intra,
                                          uint64_t* inter);

/* Collective, between steps: from now on another strategy (text as in paro_runner_options, but not
 * NULL), with all states, loss scale and steps kept, and nothing on a disk. budget_bytes as there.
 * Each rank keeps 1/n of all states meanwhile, the old runner's memory is given back before the new
 * one's is taken. Frozen parameters go with the others if they did so from the start. A custom
 * optimizer's states move, what it keeps elsewhere does not. Where it cannot be (over budget:
 * HO_OUT_OF_MEMORY; ranks that want different ones: HO_MISMATCH) the runner goes on as it was,
 * unless the message says that it is lost: then only destroy is left. Peaks of paro_runner_memory
 * begin anew. */
PARO_API ho_status paro_runner_change_strategy(paro_runner* runner,
                                               const char* strategy,
                                               uint64_t budget_bytes);
/* The three letters and a terminating 0 of the strategy that it has now; `capacity` is at least 4.
 */
PARO_API ho_status paro_runner_strategy(const paro_runner* runner, char* letters, size_t capacity);

/* A tensor of the framework's in a unit: for checkpoints, which then know it by name. */
typedef struct paro_tensor {
  const char* name; /* no other of the array has it */
  uint32_t unit;
  int32_t frozen;         /* 1: among the unit's frozen elements, 0: among the trained */
  uint64_t first_element; /* of that array */
  const uint64_t* shape;  /* row by row */
  size_t dimension_count; /* 0: one element */
} paro_tensor;

typedef struct paro_save_options {
  size_t size;
  /* How many checkpoints stay in the folder, this one included; 0: all. Rank 0 removes others in a
   * thread, after the save's outcome is told and before the next save or the runner's end. */
  uint32_t keep;
  /* 1: the call returns when the states are copied; a thread writes them. The outcome comes from
   * paro_runner_wait_save, or, where it is an error, from the next save, which then does not begin.
   */
  int32_t in_background;
  const char* job_state;      /* UTF-8, of rank 0, to be found again; NULL: none */
  const void* rank_state;     /* bytes of this rank, likewise (random numbers' state); NULL: none */
  uint64_t rank_state_bytes;  /* at most 64 MiB */
  const paro_tensor* tensors; /* of rank 0; NULL: none */
  uint64_t tensor_count;
  /* That ranks wait for the slowest disk; 0: half an hour. A rank that takes longer counts as lost,
   * which breaks the runner (HO_TIMEOUT), as a rank that hangs elsewhere does. */
  uint64_t timeout_ms;
} paro_save_options;
#define PARO_SAVE_OPTIONS_INIT \
  { sizeof(paro_save_options), 2, 0, NULL, NULL, 0, NULL, 0, 0 }

/* Collective, between steps: FOLDER/step-N, N being paro_runner_applied_steps(). Every rank writes
 * 1/n of masters, optimizer state and frozen parameters to a file of its own; the checkpoint
 * appears under its name when all of it is on the disk, and the ones before stay until then. The
 * folder is on a file system that all ranks share, and made if it is not there. Errors of the disk
 * do not break the runner. One save at a time: the next first waits for it, and returns its error.
 */
PARO_API ho_status paro_runner_save(paro_runner* runner,
                                    const char* folder,
                                    const paro_save_options* options);
/* Waits for a save in the background and returns its outcome, once; HO_OK if there is none. */
PARO_API ho_status paro_runner_wait_save(paro_runner* runner);

/* A checkpoint on the disk. One thread at a time. */
typedef struct paro_checkpoint paro_checkpoint;

/* `path`: a checkpoint, or a folder of them, of which the one saved last is taken. Not collective.
 * Reads and checks the manifest and every file's header: HO_PROTOCOL says which file is damaged,
 * and how.
 */
PARO_API ho_status paro_checkpoint_open(const char* path, paro_checkpoint** checkpoint);
/* NULL is fine. */
PARO_API void paro_checkpoint_close(paro_checkpoint* checkpoint);
/* Steps applied when it was saved; 0 for NULL. */
PARO_API uint64_t paro_checkpoint_step(const paro_checkpoint* checkpoint);
/* Ranks that saved it; 0 for NULL. */
PARO_API uint32_t paro_checkpoint_world_size(const paro_checkpoint* checkpoint);
/* Valid until close; "" for none, or for NULL. */
PARO_API const char* paro_checkpoint_job_state(const paro_checkpoint* checkpoint);
/* What that rank gave along: *bytes are how many, 0 where it gave none or there was no such rank.
 * They are written to `state` if `capacity` is as large. */
PARO_API ho_status paro_checkpoint_rank_state(const paro_checkpoint* checkpoint,
                                              uint32_t rank,
                                              void* state,
                                              uint64_t capacity,
                                              uint64_t* bytes);

typedef struct paro_load_options {
  size_t size;
  int32_t reset_optimizer; /* 1: masters only; the optimizer begins anew, at its first step */
  int32_t reserved;        /* must be 0 */
  /* This model's: every element of its units is in one. Each is looked for in the checkpoint by its
   * name, among those that paro_save_options.tensors gave, and must have as many elements there; in
   * which unit, where in it, and whether it was frozen does not matter, nor what else the
   * checkpoint has. What was frozen and is trained now begins with an optimizer's state of zeros.
   * On all ranks. NULL: the units are those that were saved. */
  const paro_tensor* tensors;
  uint64_t tensor_count;
} paro_load_options;
#define PARO_LOAD_OPTIONS_INIT \
  { sizeof(paro_load_options), 0, 0, NULL, 0 }

/* Collective, between steps: all states, steps and loss scale as they were saved, by however many
 * ranks and with whatever strategy. Every rank has opened the same checkpoint. The units are those
 * that were saved, by name and size, unless options name tensors; frozen parameters are converted
 * to parameter_dtype. Fails on
 * all ranks where one rank's files are damaged; then nothing has changed. */
PARO_API ho_status paro_runner_restore(paro_runner* runner,
                                       const paro_checkpoint* checkpoint,
                                       const paro_load_options* options);

#ifdef __cplusplus
}
#endif

#endif /* PARO_H_ */
