/* PaRO: sharded data-parallel training over HO-Ring. C interface, C11.
 *
 * A model is a row of units (layers, or a few of them), each two flat arrays of parameters: trained
 * and frozen ones. Parameters, gradients and optimizer state are each held whole by every rank, or
 * split over the ranks of a group, or over all ranks. This triple is the strategy ("NIG", "zero2").
 * The framework computes. The runner provides a unit's whole parameters before the unit computes,
 * takes its gradients after, and updates fp32 masters:
 *
 *   for each micro-batch:  before_forward(u), compute, after_forward(u)      u = 0 .. units - 1
 *                          before_backward(u), compute, after_backward(u)    u = units - 1 .. 0
 *   paro_runner_step()          or step_early, or discard, after fewer micro-batches
 *
 * Data moves while the framework computes; a hook blocks only for what its own unit needs.
 *
 * Every function that can fail returns ho_status (horing.h); HO_OK is 0. After an error,
 * paro_last_error_message() returns what failed, where, and what to do next (calling thread's last
 * error of this library). ho_last_error_message() returns the same text until the next call to
 * horing.h.
 *
 * Errors of a runner: HO_INVALID_ARGUMENT from a null pointer, a wrong size, a unit that does not
 * exist, or a call out of order changes nothing; make the right call and go on. Any other error
 * breaks the runner on this rank, and soon on all of them. Its message names unit, operation, rank
 * and step; every later call returns it again, until paro_runner_rejoin() or paro_runner_destroy().
 * All ranks get the first cause, at once. The runner's own communicators end with it. The one that
 * it was made over and all others of the job go on, unless a rank's process is gone: that ends the
 * communicators that it is in (horing.h: Failures). libhoring's part of a message numbers ranks as
 * its communicator does; ranks "of the job" are numbered as in ho_comm_create.
 *
 * Threads: a runner may be used by one thread at a time. Only paro_runner_abort may be called by
 * any other thread meanwhile, except during rejoin, change_strategy, destroy, or a step that
 * changes the strategy (strategy_file, auto_strategy). Different runners are independent, but for
 * the order of NCCL's work (PARO_COLLECTIVES_NCCL). All ranks make the same calls on a runner in
 * the same order.
 *
 * fork: a runner belongs to the process that made it, as a communicator does (horing.h). In a
 * forked child every call with it fails with HO_INVALID_ARGUMENT, and destroy does nothing.
 *
 * Memory: host memory, except where paro_runner_options.place puts the states, and what a
 * paro_unit_view points to, on a device. The library copies the option structs, arrays and texts
 * that it gets. Where it keeps a pointer (an optimizer's `user`), the field's comment states it.
 *
 * Structs with `size`: set it to sizeof the struct (PARO_*_INIT does). Fields that an older caller
 * does not know take their defaults, or are not written. Structs without `size` never change. A
 * reserved field in a caller's struct must be 0: HO_INVALID_ARGUMENT names it otherwise.
 */
#ifndef PARO_H_
#define PARO_H_

#include <horing.h>
#include <paro/plan.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PARO_VERSION_MAJOR 0
#define PARO_VERSION_MINOR 1
#define PARO_VERSION_PATCH 0

typedef struct paro_runner paro_runner;

/* A prefetch that follows from the units' sizes: so many that the computation of a unit's
 * neighbours together takes about as long as the gather of the largest; 1 if all units have about
 * the same size, never more than 3. */
#define PARO_PREFETCH_AUTO 0xffffffffU

#define PARO_DEFAULT_BUCKET_BYTES 1048576

/* One unit. Its number is its place in the array. */
typedef struct paro_unit {
  const char* name; /* for messages, and for `shares` of other units; may be NULL */
  uint64_t trained; /* elements */
  uint64_t frozen;  /* elements */
  /* The name of an earlier unit whose parameters this one computes with too, as a head does with
   * the embedding's; not of a unit that itself shares. This unit's views are of that unit's arrays,
   * and the gradients of both are added up. The parameters are gathered for this unit as for any
   * other; they are held once, and loaded, read and saved in that unit. This unit has no elements
   * of its own (0 and 0). Give a tied parameter a unit of its own. NULL: none. */
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

/* What a custom optimizer gets: `count` elements of a unit, from `first_element` of its trained
 * array, all in one parameter group or all in none. A step calls it for all that this rank owns,
 * unit by unit, in ascending pieces. No piece reaches beyond the unit's count, however large
 * `alignment` is: padding is never passed. */
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
 * paro_runner_step. It must not throw and must not call the runner. */
typedef int32_t (*paro_optimizer_function)(const paro_shard* shard, void* user);

typedef struct paro_custom_optimizer {
  paro_optimizer_function function;
  void* user; /* passed to `function` unchanged; must outlive the runner */
  double learning_rate;
  /* Names of the states that it keeps of each element, one fp32 array each, at most 15; a name has
   * letters, digits and _. The arrays are zeros at first, split as masters are, and counted as
   * memory. A change of strategy moves them; checkpoints keep them by name, in any order. Data that
   * the function keeps elsewhere is neither moved nor saved. The same on all ranks. NULL if
   * state_count is 0. */
  const char* const* states;
  uint32_t state_count;
} paro_custom_optimizer;

typedef enum paro_optimizer {
  PARO_OPTIMIZER_ADAMW = 0,
  PARO_OPTIMIZER_SGD = 1,
  PARO_OPTIMIZER_CUSTOM = 2
} paro_optimizer;

/* `count` trained elements of a unit, from `first_element` on, with their own weight decay and
 * learning rate: norms and biases without decay, a head that learns slower. */
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

/* The factor by which the framework multiplies its loss, so that small 16-bit gradients do not
 * become 0. */
typedef struct paro_loss_scale {
  paro_scaling scaling;
  double initial;
  double growth;            /* factor after growth_interval steps without an overflow */
  double backoff;           /* factor after a step with an overflow, which is skipped */
  uint64_t growth_interval; /* steps */
  double least;
  double most;
} paro_loss_scale;
#define PARO_LOSS_SCALE_INIT \
  { PARO_SCALING_NONE, 65536.0, 2.0, 0.5, 2000, 1.0, 16777216.0 }

/* Where states live. */
typedef enum paro_place {
  PARO_PLACE_HOST = 0,
  /* The memory of the communicator's device (ho_comm_options.device), all states of it. Needs
   * PARO_COLLECTIVES_NCCL, and AdamW or SGD. Hooks do not wait for the device: between a before_
   * and its after_ hook the framework gives its work to paro_runner_options.stream, and what hooks
   * give that stream comes before and after it. Nor does step: its outcome, an error too, is told
   * by the next one, which waits for it, or by paro_runner_flush; the loss scale follows a step
   * late. load and the step after it, read_masters, save and the like wait. timeout_ms counts from
   * the hook that begins a collective, work before it included. Units are padded to equal parts. */
  PARO_PLACE_DEVICE = 1
} paro_place;

/* What moves states between ranks. */
typedef enum paro_collectives {
  PARO_COLLECTIVES_HORING = 0,
  /* NCCL, 2.26.2 or newer, opened at run time: PARO_NCCL_LIBRARY, or libnccl.so.2. Needs
   * PARO_PLACE_DEVICE, groups of equal size, and equal GPUs, one for each rank. Gradients of
   * 16 bits are summed in 16 bits: see fp32_gradients. `algorithm` is ignored, bytes sent are not
   * counted. A timeout_ms of 0 is HORING_TIMEOUT_MS. All work of NCCL's on a GPU is begun in one
   * order on all ranks; beside others', with NCCL_LAUNCH_ORDER_IMPLICIT=1. paro_runner_destroy
   * waits at most 3 times timeout_ms, or 15 s. Rejoin fails after an error of the device. */
  PARO_COLLECTIVES_NCCL = 1
} paro_collectives;

/* The same on all ranks, except budget_bytes and the fields whose comments allow a difference. If
 * ranks differ in any other field, create fails on all of them and names it. */
typedef struct paro_runner_options {
  size_t size;
  /* Three letters for parameters, gradients and optimizer state. Each is N (every rank holds all),
   * I (split over the group's ranks) or G (split over all ranks). Or a system's name: ddp, zero1,
   * zero2, zero3, fsdp, mics, hsdp, ... Any case. NULL: NNN. */
  const char* strategy;
  paro_scope frozen;        /* of parameters that are not trained */
  uint32_t micro_batches;   /* per step, at most; at least 1 */
  uint32_t prefetch;        /* units gathered ahead, at most the number of units; or below */
  uint32_t drift_interval;  /* steps between comparisons of all copies of all states; 0: none */
  uint64_t alignment;       /* elements; shards are cut at multiples of it */
  ho_dtype parameter_dtype; /* the framework computes with it: HO_FLOAT32, _FLOAT16, _BFLOAT16 */
  ho_dtype gradient_dtype;  /* the framework writes gradients in it: the same three */
  paro_optimizer optimizer; /* which of the next three is used */
  ho_algorithm algorithm;   /* of collectives; _DIRECT with 32-bit gradients only */
  paro_adamw adamw;
  paro_sgd sgd;
  paro_custom_optimizer custom; /* on all ranks or none; function and user may differ */
  paro_loss_scale loss_scale;
  double max_norm; /* gradients with a larger norm are clipped to it; 0: no clipping */
  /* Deadline of each collective; 0: the communicator's. At the start of create, rejoin, restore and
   * save (files are read and written before), ranks always wait for each other as long as the
   * communicator's timeout. They connect within HORING_CONNECT_TIMEOUT_MS. No rank may be later
   * than this deadline between a step's micro-batches, whatever the strategy exchanges there. */
  uint64_t timeout_ms;
  uint64_t budget_bytes; /* of the states on the rank that holds most; 0: no limit. More is refused.
                          * The smallest of all ranks counts */
  /* Groups. 0: the ranks of a node, as the communicator found them. Otherwise, with the ranks taken
   * node by node, each group_size consecutive ranks form a group; it must divide the world size. */
  uint32_t group_size;
  /* 0: gradients are summed over micro-batches in fp32, also those of 16 bits (they are rounded
   * once, when the sum is complete). 1: in gradient_dtype. That takes 2 bytes less per element and
   * loses small gradients in large sums: results are wrong from some hundred micro-batches on. */
  uint32_t narrow_sums;
  /* A file that lists the ranks of each group, instead of group_size: one line per group, its ranks
   * separated by blanks; # begins a comment; every rank exactly once. Their order on the line is
   * the order of their parts. NULL: none. Read during create, by each rank. */
  const char* group_file;
  /* Consecutive small units share their gradients' collectives, as long as their gradients have at
   * most so many bytes together (padding not counted). A unit with as many bytes is alone. The
   * gradients are then sent when the last of these units has ended its backward pass. Costs memory:
   * about twice so many bytes, twice that if gradients are split. 0: every unit is alone. */
  uint64_t bucket_bytes;
  /* Files with the figures of every step. %r in a name stands for the rank; without it only rank 0
   * writes. If a file cannot be written when the runner is made, create fails; later that is a
   * warning in the log. May differ between ranks.
   * A line of JSON per step, appended. NULL: PARO_STEP_LOG, if that is set. */
  const char* step_log;
  /* Metrics in Prometheus' text format, replaced after each step. NULL: PARO_METRICS_FILE. */
  const char* metrics_file;
  /* The values of the next three on rank 0 count; those of other ranks are ignored.
   * A file that rank 0 checks before every step. If it has changed since (its content at create is
   * ignored), it names a strategy, or "budget=BYTES", or both on two lines; # begins a comment. The
   * change is made at the end of that step, as by paro_runner_change_strategy. Content that cannot
   * be read or does not fit is a warning in the log. NULL: PARO_STRATEGY_FILE. */
  const char* strategy_file;
  /* 1: in two cases the planner measures the links, and the runner changes to the fastest strategy
   * that fits: when that file names another budget and no strategy, and when links have changed.
   * For the latter, every auto_interval steps (0: never) the time per byte in collectives is
   * compared with that of the first auto_interval steps of the present strategy; a change by a
   * factor of 2, up or down, counts. A strategy that is not at least a tenth faster is not taken,
   * unless the present one does not fit. 0: no, unless PARO_AUTO_STRATEGY is 1. */
  uint32_t auto_strategy;
  uint32_t auto_interval;
  /* 1: ranks may load any values where they do not keep an element, and nothing is compared. 0: the
   * next step, save, change_strategy or read_masters compares what the ranks have loaded. */
  uint32_t unchecked_loads;
  /* 1: gradients of 16 bits are sent, and summed over ranks, in fp32: twice the bytes. */
  uint32_t fp32_gradients;
  /* Elements with a weight decay or learning rate of their own; no two groups share an element. The
   * same on all ranks. Not in checkpoints: each run gives its own. NULL: none. */
  const paro_parameter_group* parameter_groups;
  uint64_t parameter_group_count;
  paro_place place;
  paro_collectives collectives;
  /* With PARO_PLACE_DEVICE: the CUDA stream (cudaStream_t, CUstream) that the framework computes
   * on, of the communicator's device; it outlives the runner. It must not be captured into a graph.
   * NULL: the default stream. May differ between ranks. */
  void* stream;
} paro_runner_options;
#define PARO_RUNNER_OPTIONS_INIT                                                                \
  {                                                                                             \
    sizeof(paro_runner_options), NULL, PARO_AS_PARAMETERS, 1, 1, 0, 16, HO_FLOAT32, HO_FLOAT32, \
        PARO_OPTIMIZER_ADAMW, HO_ALGORITHM_HO_RING, PARO_ADAMW_INIT, PARO_SGD_INIT,             \
        {NULL, NULL, 0.0, NULL, 0}, PARO_LOSS_SCALE_INIT, 0.0, 0, 0, 0, 0, NULL,                \
        PARO_DEFAULT_BUCKET_BYTES, NULL, NULL, NULL, 0, 100, 0, 0, NULL, 0, PARO_PLACE_HOST,    \
        PARO_COLLECTIVES_HORING, NULL                                                           \
  }

/* A unit's whole parameters during its computation, in parameter_dtype. Valid from the before_ hook
 * that wrote it to the after_ hook. NULL for an array without elements. With PARO_PLACE_DEVICE they
 * are addresses of the device, for work on paro_runner_options.stream. */
typedef struct paro_unit_view {
  size_t size;
  const void* trained; /* read only, as frozen */
  const void* frozen;
  /* Backward only, in gradient_dtype, trained_count elements: add the gradient of this
   * micro-batch's loss times paro_runner_loss_scale(); do not overwrite. The runner divides the sum
   * by the numbers of micro-batches and of ranks. */
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
  /* 0: a gradient of some rank was not finite, and all ranks skipped the step. Rank 0's log has the
   * place: a warning, unless a dynamic loss scale is in use and shrinks, as it is meant to. */
  int32_t applied;
  int32_t reserved; /* 0 */
  /* Of the averaged, unscaled gradient, unclipped; infinite or NaN if the gradient is. */
  double norm;
  double loss_scale; /* of this step */
  uint64_t hooks;    /* calls */
  uint64_t hook_ns;  /* in hooks and step, without waiting and without the optimizer */
  uint64_t wait_ns;  /* blocked for other ranks */
  uint64_t update_ns;
  uint64_t step_ns;       /* in all, from the end of the step before (the first: from create) */
  uint64_t compute_ns;    /* the framework's, between before_ and after_ hooks */
  uint64_t collective_ns; /* sum over all collectives that ended: as if nothing overlapped */
  uint64_t intra_bytes;   /* payload that this rank sent in them, inside nodes */
  uint64_t inter_bytes;   /* and between */
  /* The step that `applied` and norm are of. With PARO_PLACE_DEVICE: the one before (of the first
   * 0, with applied 1 and norm 0). */
  uint64_t outcome_step;
} paro_step_report;
#define PARO_STEP_REPORT_INIT \
  { sizeof(paro_step_report), 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef enum paro_purpose {
  PARO_MEMORY_PARAMETERS = 0, /* trained and frozen, what this rank holds of them */
  PARO_MEMORY_GRADIENTS = 1,  /* sums over micro-batches */
  PARO_MEMORY_OPTIMIZER = 2,  /* masters and the rule's own state */
  PARO_MEMORY_GATHERED = 3,   /* whole units during their computation */
  PARO_MEMORY_OUTPUT = 4,     /* gradients of a backward pass that are being sent */
  PARO_MEMORY_SCRATCH = 5,    /* packing small units' gradients; reordering for unequal groups (its
                               * most is predicted); reading masters, restoring (is not) */
  PARO_MEMORY_LIBRARY = 254,  /* libhoring's, for the runner's communicators: now_bytes only */
  PARO_MEMORY_STATES = 255    /* all but the library's */
} paro_purpose;

typedef struct paro_memory {
  size_t size;
  uint64_t predicted_bytes; /* from the sizes alone, before anything was allocated */
  uint64_t now_bytes;
  uint64_t peak_bytes; /* when this rank's states were largest since create */
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

/* Collective over comm, which is used during the call only: the runner makes communicators of its
 * own. options may be NULL. On success masters and parameters are zeros, for paro_runner_load. On
 * failure *runner is NULL on all ranks: if one rank's arguments are refused, all ranks get that
 * error. HO_OUT_OF_MEMORY over budget_bytes lists the strategies that would fit. */
PARO_API ho_status paro_runner_create(ho_comm* comm,
                                      const paro_runner_options* options,
                                      const paro_unit* units,
                                      size_t unit_count,
                                      paro_runner** runner);
/* Not collective, but for PARO_COLLECTIVES_NCCL. Between steps it completes the last step's
 * transfers, as paro_runner_synchronize does, and a save in the background, for which all ranks
 * must have called save. The other ranks can go on until they need this one. In the middle of a
 * step, this runner fails on them at once, with HO_ABORTED and this rank's number. NULL: none. */
PARO_API void paro_runner_destroy(paro_runner* runner);

/* Between steps: a unit's initial values, the same on all ranks, of which this rank keeps its
 * shards. Not collective, but all ranks must do it. The counts are those of the unit; an array
 * without elements may be NULL. A unit that shares another's parameters has nothing to load, and a
 * count above 0 is HO_INVALID_ARGUMENT: load the other unit. The next paro_runner_step, save,
 * change_strategy or read_masters compares, by a hash, what the ranks have loaded, frozen
 * parameters too. If it differs: HO_MISMATCH on all ranks, with unit and ranks, before anything is
 * updated, saved or moved. In step it breaks the runner: load again after paro_runner_rejoin. */
PARO_API ho_status paro_runner_load(paro_runner* runner,
                                    uint32_t unit,
                                    const float* trained,
                                    size_t trained_count,
                                    const float* frozen,
                                    size_t frozen_count);

/* Around each computation, in the order at the top of this file. A call out of order is refused,
 * and the message names the call that is due. */
PARO_API ho_status paro_runner_before_forward(paro_runner* runner,
                                              uint32_t unit,
                                              paro_unit_view* view);
PARO_API ho_status paro_runner_after_forward(paro_runner* runner, uint32_t unit);
PARO_API ho_status paro_runner_before_backward(paro_runner* runner,
                                               uint32_t unit,
                                               paro_unit_view* view);
PARO_API ho_status paro_runner_after_backward(paro_runner* runner, uint32_t unit);
/* Starts the collectives that can start now; never blocks. For the middle of long computations that
 * leave the calling thread free (a device computes). Without it, a collective that must wait for an
 * earlier one starts only at the next hook. */
PARO_API ho_status paro_runner_poll(paro_runner* runner);
/* Collective, after the last micro-batch: the ranks agree on norm and overflow, masters are
 * updated, and the transfer of the new parameters begins. report may be NULL. */
PARO_API ho_status paro_runner_step(paro_runner* runner, paro_step_report* report);
/* The last step's report with `applied` and norm of that step, for which it waits, at most
 * timeout_ms (0: until a deadline of the runner): then HO_TIMEOUT, and nothing has changed. Any
 * ranks, at any time; of a step that ranks refuse it waits for the others' next call. */
PARO_API ho_status paro_runner_flush(paro_runner* runner,
                                     uint64_t timeout_ms,
                                     paro_step_report* report);
/* Collective, instead of paro_runner_step, after fewer micro-batches than a step has (at least
 * one): the step consists of those, and gradients are divided by their number. All ranks call it
 * after the same number. If not, the runner breaks on all of them with HO_MISMATCH, as soon as all
 * ranks have had as many micro-batches as the first to end. The message names two ranks and what
 * each did.
 * Parameters gathered ahead are not used, and gradients are sent after the last micro-batch instead
 * of during it: if the number is known before, use paro_runner_set_micro_batches. */
PARO_API ho_status paro_runner_step_early(paro_runner* runner, paro_step_report* report);
/* Collective, after any number of whole micro-batches, up to all of them: drops their gradients,
 * without an error; masters, states, loss scale and steps stay as they were. Continue with a first
 * micro-batch. All ranks call it after the same number, as above. After none it does nothing, and
 * needs no other rank. */
PARO_API ho_status paro_runner_discard(paro_runner* runner);
/* Collective, between steps: the following steps have so many micro-batches, from 1 to
 * paro_runner_options.micro_batches, for which memory is counted. If ranks give different numbers,
 * even if one is out of range: HO_MISMATCH on all of them, and nothing has changed. */
PARO_API ho_status paro_runner_set_micro_batches(paro_runner* runner, uint32_t micro_batches);
/* Waits for the last step's transfers, as load, read_masters, read_frozen and check_drift do. */
PARO_API ho_status paro_runner_synchronize(paro_runner* runner);

/* 0 for NULL. */
PARO_API double paro_runner_loss_scale(const paro_runner* runner);
/* Steps that have changed the masters, as far as reports and flush have told; 0 for NULL. */
PARO_API uint64_t paro_runner_applied_steps(const paro_runner* runner);
/* From the next paro_runner_step() on. If the ranks have not set the same rate, that step is
 * HO_MISMATCH on all of them, before anything is updated. */
PARO_API ho_status paro_runner_set_learning_rate(paro_runner* runner, double rate);

/* Collective, between steps: a unit's whole masters; `count` is the unit's trained elements. Here
 * and in read_frozen: if ranks give different units or different counts, HO_MISMATCH on all of
 * them, and nothing has changed. If one rank's array is NULL, HO_INVALID_ARGUMENT on that rank and
 * HO_MISMATCH on the others. A unit that shares another's has no elements: read the other unit. */
PARO_API ho_status paro_runner_read_masters(paro_runner* runner,
                                            uint32_t unit,
                                            float* trained,
                                            size_t count);
/* Collective, between steps: a unit's whole frozen parameters, as load rounded them to
 * parameter_dtype; `count` is the unit's frozen elements. Together with the masters this is the
 * whole model: for validation, samples, export. */
PARO_API ho_status paro_runner_read_frozen(paro_runner* runner,
                                           uint32_t unit,
                                           float* frozen,
                                           size_t count);
/* Collective, between steps: HO_MISMATCH, and a broken runner, unless all copies of all states have
 * the same bits. */
PARO_API ho_status paro_runner_check_drift(paro_runner* runner);

/* Collective: goes on after an error. `comm`: what the runner was made over, or, if that has failed
 * too, a new one of the same ranks with the same numbers, for the time of the call. The failed
 * step's gradients are dropped: continue with a first micro-batch. It counts, and is not repeated,
 * if paro_runner_applied_steps() has grown since the last report; on a device, if paro_runner_flush
 * has it as outcome_step. HO_MISMATCH if some masters alone have changed: load a checkpoint. */
PARO_API ho_status paro_runner_rejoin(paro_runner* runner, ho_comm* comm);
/* Any thread. On every rank, waits for this runner end, and from the next call that needs another
 * rank on its calls fail, with HO_ABORTED and the reason (may be NULL). */
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

/* Collective, between steps: changes to another strategy (text as in paro_runner_options, but not
 * NULL). All states, loss scale and steps are kept, and nothing is written to a disk. budget_bytes
 * as there. During the change each rank keeps 1/n of all states; the old memory is freed before the
 * new is allocated. Frozen parameters follow the trained ones if they did so from the start
 * (PARO_AS_PARAMETERS). A custom optimizer's states move; what it keeps elsewhere does not. If the
 * change is not possible (over budget: HO_OUT_OF_MEMORY; ranks give different strategies:
 * HO_MISMATCH), the runner goes on as it was. If the message states that the runner is lost, only
 * destroy is left. Peaks of paro_runner_memory start again. */
PARO_API ho_status paro_runner_change_strategy(paro_runner* runner,
                                               const char* strategy,
                                               uint64_t budget_bytes);
/* The present strategy's three letters and a terminating 0; `capacity` is at least 4. */
PARO_API ho_status paro_runner_strategy(const paro_runner* runner, char* letters, size_t capacity);

/* A tensor of the framework in a unit, so that checkpoints store it by name. */
typedef struct paro_tensor {
  const char* name; /* unique in the array */
  uint32_t unit;
  int32_t frozen;         /* 1: among the unit's frozen elements, 0: among the trained */
  uint64_t first_element; /* of that array */
  const uint64_t* shape;  /* row by row */
  size_t dimension_count; /* 0: one element */
} paro_tensor;

typedef struct paro_save_options {
  size_t size;
  /* How many checkpoints stay in the folder, this one included; 0: all. Rank 0 removes others in a
   * thread, after the save's outcome is returned and before the next save or the runner's end. */
  uint32_t keep;
  /* 1: the call returns when the states are copied; a thread writes them. paro_runner_wait_save
   * returns the outcome. An error that it has not returned is returned by the next save, which then
   * does not begin. */
  int32_t in_background;
  const char* job_state;      /* UTF-8 text, of rank 0, stored in the checkpoint; NULL: none */
  const void* rank_state;     /* bytes of this rank, stored too (random state); NULL: none */
  uint64_t rank_state_bytes;  /* at most 64 MiB */
  const paro_tensor* tensors; /* of rank 0; NULL: none */
  uint64_t tensor_count;
  /* How long ranks wait for the slowest disk; 0: half an hour. A rank that takes longer counts as
   * lost, which breaks the runner (HO_TIMEOUT), as a rank that hangs elsewhere does. */
  uint64_t timeout_ms;
} paro_save_options;
#define PARO_SAVE_OPTIONS_INIT \
  { sizeof(paro_save_options), 2, 0, NULL, NULL, 0, NULL, 0, 0 }

/* Collective, between steps: writes FOLDER/step-N, N being paro_runner_applied_steps(). Every rank
 * writes 1/n of masters, optimizer state and frozen parameters to a file of its own. The checkpoint
 * gets its name when all of it is on the disk; earlier ones stay until then. The folder is on a
 * file system that all ranks share, and is made if it does not exist. Errors of the disk do not
 * break the runner. One save at a time: the next first waits for it, and returns its error. */
PARO_API ho_status paro_runner_save(paro_runner* runner,
                                    const char* folder,
                                    const paro_save_options* options);
/* Waits for a save in the background and returns its outcome, once; HO_OK if there is none. */
PARO_API ho_status paro_runner_wait_save(paro_runner* runner);

/* A checkpoint on the disk. One thread at a time. */
typedef struct paro_checkpoint paro_checkpoint;

/* `path`: a checkpoint, or a folder of them, of which the one saved last is used. Not collective.
 * Reads and checks the manifest and every file's header. HO_PROTOCOL: the message names the damaged
 * file and the damage. */
PARO_API ho_status paro_checkpoint_open(const char* path, paro_checkpoint** checkpoint);
/* NULL is allowed. */
PARO_API void paro_checkpoint_close(paro_checkpoint* checkpoint);
/* Steps applied when it was saved; 0 for NULL. */
PARO_API uint64_t paro_checkpoint_step(const paro_checkpoint* checkpoint);
/* Ranks that saved it; 0 for NULL. */
PARO_API uint32_t paro_checkpoint_world_size(const paro_checkpoint* checkpoint);
/* Valid until close; "" for none, or for NULL. */
PARO_API const char* paro_checkpoint_job_state(const paro_checkpoint* checkpoint);
/* The rank_state that this rank saved. *bytes is its size, 0 if there is none or no such rank. It
 * is written to `state` if `capacity` is large enough. */
PARO_API ho_status paro_checkpoint_rank_state(const paro_checkpoint* checkpoint,
                                              uint32_t rank,
                                              void* state,
                                              uint64_t capacity,
                                              uint64_t* bytes);

typedef struct paro_load_options {
  size_t size;
  int32_t reset_optimizer; /* 1: masters only; the optimizer starts again at its first step */
  int32_t reserved;        /* must be 0 */
  /* This model's tensors: every element of its units is in one. Each is found by name among the
   * tensors of the checkpoint (paro_save_options.tensors) and must have as many elements there. Its
   * unit, its place in the unit and whether it was frozen do not matter, nor what else the
   * checkpoint has. A tensor that was frozen and is trained now starts with an optimizer state of
   * zeros. On all ranks. NULL: the units are those that were saved. */
  const paro_tensor* tensors;
  uint64_t tensor_count;
} paro_load_options;
#define PARO_LOAD_OPTIONS_INIT \
  { sizeof(paro_load_options), 0, 0, NULL, 0 }

/* Collective, between steps: all states, steps and loss scale as they were saved, by any number of
 * ranks and with any strategy. Every rank has opened the same checkpoint. The units are those that
 * were saved, by name and size, unless options name tensors; frozen parameters are converted to
 * parameter_dtype. If one rank's files are damaged, the call fails on all ranks, and nothing has
 * changed. */
PARO_API ho_status paro_runner_restore(paro_runner* runner,
                                       const paro_checkpoint* checkpoint,
                                       const paro_load_options* options);

#ifdef __cplusplus
}
#endif

#endif /* PARO_H_ */
