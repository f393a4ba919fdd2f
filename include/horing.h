/* HO-Ring: hierarchical overlapping ring collectives. C interface, C11.
 *
 * Ranks form groups (nodes); ranks of equal group rank form rails: as many as the NICs can use, at
 * most the ranks of the smallest group. The other ranks are extra: they have no rail of their own,
 * and the rails share their data evenly. Every collective moves data between groups on all rails at
 * once while pieces that have arrived move inside each group.
 *
 * Every function that can fail returns ho_status; HO_OK is 0. After an error,
 * ho_last_error_message() returns what failed, where, and what to do next (calling thread's last
 * error).
 *
 * Threads: a communicator may be used by one thread at a time, except ho_comm_abort and the
 * getters, which any thread may call at any time, and ho_request_wait and ho_request_test: other
 * threads may wait for requests and test them meanwhile, each request one thread at a time.
 * Different communicators are independent.
 *
 * Failures: an error of an operation, a deadline that passes, or an abort ends the communicator and
 * all that were split from it, their own splits included. It ends them on all of their ranks, with
 * one text: the first cause. Its siblings and what it was split from go on. A rank whose process is
 * gone ends the communicators that it is in, no others. Once rank 0 of the job is gone, failures in
 * the other communicators are no longer reported to their ranks: waits there end at their own
 * deadlines, and splits fail. To end many communicators together, split them from one that you
 * abort. If one of them has failed on the rank that calls ho_comm_abort, the others get that
 * failure's status and text.
 *
 * fork: a communicator belongs to the process that made it. A child forked afterwards may call
 * nothing but exec (the library's descriptors close then) or _exit, and should do so soon. While it
 * lives it keeps the parent's connections open, so that the other ranks would not notice the
 * parent's death. In the child, every call with the communicator or one of its requests fails with
 * HO_INVALID_ARGUMENT and changes nothing in the parent. ho_comm_destroy does nothing there, and
 * getters that need a lock (ho_comm_memory_bytes) return 0.
 *
 * Option structs start with `size`: set it to sizeof the struct (HO_*_INIT does). Fields that an
 * older caller does not know take their defaults.
 */
#ifndef HORING_H_
#define HORING_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HO_API __attribute__((visibility("default")))
#else
#define HO_API
#endif

#define HO_VERSION_MAJOR 0
#define HO_VERSION_MINOR 1
#define HO_VERSION_PATCH 0

typedef enum ho_status {
  HO_OK = 0,
  HO_INVALID_ARGUMENT = 1,
  HO_MISMATCH = 2,
  HO_TIMEOUT = 3,
  HO_ABORTED = 4,
  HO_PEER_LOST = 5,
  HO_CONNECTION = 6,
  HO_UNAUTHENTICATED = 7,
  HO_PROTOCOL = 8,
  HO_UNSUPPORTED = 9,
  HO_SYSTEM = 10,
  HO_OUT_OF_MEMORY = 11,
  HO_INTERNAL = 12,
  HO_IN_PROGRESS = 13 /* no error: not over yet, or not joined; only from
                         ho_request_wait and ho_request_join */
} ho_status;

typedef enum ho_dtype {
  HO_INT8 = 0,
  HO_UINT8 = 1,
  HO_INT32 = 2,
  HO_UINT32 = 3,
  HO_INT64 = 4,
  HO_UINT64 = 5,
  HO_FLOAT16 = 6,
  HO_FLOAT32 = 7,
  HO_FLOAT64 = 8,
  HO_BFLOAT16 = 9,
  HO_FLOAT8_E4M3 = 10, /* not with HO_AVG, HO_PREMUL_SUM */
  HO_FLOAT8_E5M2 = 11, /* likewise */
  /* Where bytes move only. Reductions refuse them with HO_UNSUPPORTED and what to do instead. */
  HO_INT16 = 12,
  HO_UINT16 = 13,
  HO_BOOL = 14,      /* 1 byte */
  HO_COMPLEX64 = 15, /* 2 floats */
  HO_COMPLEX128 = 16 /* 2 doubles */
} ho_dtype;

typedef enum ho_op {
  HO_SUM = 0,
  HO_PROD = 1,
  HO_MAX = 2,
  HO_MIN = 3,
  HO_AVG = 4,  /* divides by the world size once, after the sum is complete */
  HO_BAND = 5, /* bitwise: integers only */
  HO_BOR = 6,
  HO_BXOR = 7,
  /* Each rank's input times ho_call_options.scale of that rank, then the sum. HO_FLOAT16,
   * HO_BFLOAT16, HO_FLOAT32 and HO_FLOAT64 only. The product is computed in fp32 (of HO_FLOAT64 in
   * fp64) and rounded to the type, before the call returns: an all-reduce writes it to recv and
   * goes on in place, every other reduction holds a copy of its input until it ends. */
  HO_PREMUL_SUM = 8
} ho_op;

typedef enum ho_algorithm {
  HO_ALGORITHM_RING = 0,
  HO_ALGORITHM_MULTI_RING = 1,
  HO_ALGORITHM_HIERARCHICAL = 2,
  HO_ALGORITHM_HO_RING = 3,
  HO_ALGORITHM_DIRECT = 4,
  HO_ALGORITHM_AUTO = 255 /* by size; HORING_ALGORITHM overrides */
} ho_algorithm;

typedef struct ho_comm ho_comm;
typedef struct ho_request ho_request;

/* A key-value store that all ranks reach, as torch.distributed's: the ranks of a communicator can
 * find each other through it. Rank 0 sets the key "NAME/rank0" to its addresses and a job key that
 * it draws for this job; the others wait for the key, get it and connect. When all have come, rank
 * 0 sets it once more, without the job key. If rank 0 fails before that, it sets why, and the
 * others end at once.
 *
 * Whom it trusts: whoever can read or write the store while the ranks find each other can join the
 * job, or pass for one of its ranks.
 *
 * The callbacks are called inside ho_comm_create only, by the thread that calls it, never two at a
 * time: they may call back into another language. Keys end with a zero byte; values are text
 * without one, of at most 12 KiB. A callback that fails returns a status of its own, and may say
 * why with ho_set_last_error_message; ho_comm_create then fails with that status. */
typedef struct ho_store {
  size_t size;
  void* context; /* handed to the callbacks */
  /* One that no other communicator has that the store is used for, at most 512 bytes. NULL:
   * "horing". */
  const char* name;
  ho_status (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Returns when the key is there; HO_TIMEOUT when it is not after timeout_ms. */
  ho_status (*wait)(void* context, const char* key, uint64_t timeout_ms);
  /* Of a key that is there: copies its value where that has at most `capacity` bytes, and writes
   * its size to *bytes in any case. */
  ho_status (*get)(void* context, const char* key, void* value, size_t capacity, size_t* bytes);
} ho_store;
#define HO_STORE_INIT \
  { sizeof(ho_store), NULL, NULL, NULL, NULL, NULL }

typedef struct ho_comm_options {
  size_t size;
  /* Below 0 (the default): rank, world size and rendezvous come from the environment (torchrun's,
   * Slurm's, Open MPI's or PMI's variables, HORING_RENDEZVOUS). */
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;     /* below 0: not known */
  const char* rendezvous; /* "tcp://HOST:PORT" or "file:///PATH"; NULL: from the environment */
  const char* job_key;    /* NULL: HORING_JOB_KEY or HORING_JOB_KEY_FILE */
  const char* host_id;    /* NULL: HORING_HOST_ID or the machine's identity */
  uint64_t timeout_ms;    /* default deadline of operations; 0: HORING_TIMEOUT_MS */
  /* Where the ranks find each other, instead of rendezvous and job_key, which must be NULL then;
   * what the environment says of them is not looked at. Needs rank and world_size. Not used for a
   * world of 1. Must stay until ho_comm_create returns. NULL: none. */
  const ho_store* store;
  /* Deadline for all ranks to come, to this communicator and to its splits; 0:
   * HORING_CONNECT_TIMEOUT_MS, which is the deadline of what they set up together after that. */
  uint64_t rendezvous_timeout_ms;
  /* The CUDA device whose memory this rank's calls may have: its number, as CUDA counts them in
   * this process, or HO_DEVICE_LOCAL_RANK. HO_DEVICE_NONE, the default: host memory only. Ranks may
   * differ. Splits have the same device. Without a driver, or with one that is too old, the call
   * fails with HO_UNSUPPORTED, which says what is missing. */
  int32_t device;
  /* What errors and lines of the log call this rank, for a communicator whose ranks have other
   * numbers in the program: "global rank 5" or the like, at most 64 bytes. NULL: "rank 5". */
  const char* rank_name;
  /* Of which larger job of the program's this communicator is a group, as a process group of a
   * training is one: `horing status` and the records of HORING_RECORD_DIR show all groups of one
   * job together, each rank once and by its number in the job. Nothing else changes. All ranks of
   * the communicator give the same, and all groups of the job the same number and size. */
  uint64_t job;     /* a random number, the same on all ranks of the job; 0: it is a job of its own,
                     * and the fields below are not looked at */
  int32_t job_size; /* ranks of the job, at most 65536 */
  /* The numbers in the job of the communicator's ranks, this one's own among them, by rank: as many
   * as world_size, all different, each below job_size. Copied; must stay until ho_comm_create
   * returns. */
  const int32_t* job_ranks;
  size_t job_rank_count; /* of job_ranks */
} ho_comm_options;
#define HO_DEVICE_NONE (-1)
/* Of the devices that CUDA_VISIBLE_DEVICES leaves: the one whose number is the local rank, modulo
 * how many there are. Needs a local rank. */
#define HO_DEVICE_LOCAL_RANK (-2)
#define HO_COMM_OPTIONS_INIT                                                                       \
  {                                                                                                \
    sizeof(ho_comm_options), -1, -1, -1, NULL, NULL, NULL, 0, NULL, 0, HO_DEVICE_NONE, NULL, 0, 0, \
        NULL, 0                                                                                    \
  }

typedef struct ho_call_options {
  size_t size;
  ho_algorithm algorithm;
  uint64_t timeout_ms; /* 0: the communicator's */
  /* 1: 16-bit data (HO_FLOAT16, HO_BFLOAT16) is summed in fp32. It is rounded only where a partial
   * sum is sent (with HO_ALGORITHM_HO_RING between groups) and at the end. For reductions with
   * HO_SUM, HO_AVG and HO_PREMUL_SUM, with every algorithm except HO_ALGORITHM_DIRECT, which sends
   * partial sums more than once: both together, also through HORING_ALGORITHM, are HO_UNSUPPORTED,
   * and HO_ALGORITHM_AUTO uses another algorithm. */
  int32_t fp32_sums;
  /* Of this rank's input, for HO_PREMUL_SUM; not looked at with another operation. Ranks may have
   * different ones, NaN and infinity included. */
  double scale;
  /* 1: with a request: the operation moves while some call waits for it or tests it, and need not
   * move otherwise. Cheaper where the caller waits at once, because no thread of the library wakes.
   * 0: it goes on by itself. */
  int32_t foreground;
  /* The CUDA stream (cudaStream_t, CUstream) of a call with device memory; NULL: the default
   * stream. See "Device memory". */
  void* stream;
  /* Of a collective: what the caller makes it for, as a number of its own; 0: not said. Ranks
   * compare it (by 16 bits of a hash). Collectives with a label are one more sequence, whatever
   * their kind: a rank that calls an all-gather where another calls a reduce-scatter gets
   * HO_MISMATCH as for another call of one kind. */
  uint64_t label;
} ho_call_options;
#define HO_CALL_OPTIONS_INIT \
  { sizeof(ho_call_options), HO_ALGORITHM_AUTO, 0, 0, 1.0, 0, NULL, 0 }

/* What one operation moved and where its time went, for this rank. Times in nanoseconds. A call
 * whose report has no sensible size (set it with HO_OP_REPORT_INIT) fails before anything is sent.
 */
typedef struct ho_op_report {
  size_t size;
  ho_algorithm algorithm;
  uint64_t intra_sent_bytes; /* payload */
  uint64_t intra_received_bytes;
  uint64_t inter_sent_bytes;
  uint64_t inter_received_bytes;
  uint64_t total_ns;
  uint64_t inter_ns;   /* some message between groups was under way */
  uint64_t intra_ns;   /* spent moving or adding pieces inside the group */
  uint64_t overlap_ns; /* the part of intra_ns within inter_ns */
  uint64_t wait_ns;    /* asleep */
} ho_op_report;
#define HO_OP_REPORT_INIT \
  { sizeof(ho_op_report), HO_ALGORITHM_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A measured link of this rank (ho_comm_measure_links). */
typedef struct ho_link_rate {
  size_t size;
  int32_t peer;
  int32_t rail;            /* -1: inside the group */
  double bytes_per_second; /* payload, this rank to peer, while all links of the job are equally
                            * busy; inside the group the best of five probes */
  double round_trip_ns;    /* 8 bytes, median */
} ho_link_rate;

HO_API const char* ho_version(void);
HO_API const char* ho_status_name(ho_status status);
/* Valid until the calling thread's next call into the library. Never NULL. */
HO_API const char* ho_last_error_message(void);
/* Sets what ho_last_error_message() returns in the calling thread from now on. For libraries built
 * on this one, so that a program finds all errors in one place. Copied; NULL is "". */
HO_API void ho_set_last_error_message(const char* message);
HO_API size_t ho_dtype_bytes(ho_dtype dtype);

/* Collective. options may be NULL. On success *comm is ready: all ranks are connected and agree on
 * groups, rails and settings. On failure *comm is NULL. */
HO_API ho_status ho_comm_create(const ho_comm_options* options, ho_comm** comm);
/* Not collective. Waits for this rank's own requests at most until their deadlines, and up to a
 * second for its last bytes to reach the others. What this rank has completed completes on slower
 * ranks too. What it has not completed fails there at once, with an error that names this rank as
 * the one that left. Requests that are left may be ended afterwards (ho_request_wait), and say how
 * they ended: a receive for which nothing came fails alone. NULL is allowed. */
HO_API void ho_comm_destroy(ho_comm* comm);
/* Collective. Ranks with the same color form a communicator, ordered by key, then by rank. A rank
 * with a color below 0 takes part and gets NULL. If one rank cannot make its part, the call returns
 * its error on all ranks of that color, and `comm` stays usable. The ranks find each other through
 * the process of the job's rank 0, even if that is no member. Once it has ended, or has destroyed
 * its last communicator, a split fails at once with HO_PEER_LOST. So does a split that the other
 * ranks have begun and not ended. */
HO_API ho_status ho_comm_split(ho_comm* comm, int32_t color, int32_t key, ho_comm** split);
/* Ends every wait of this communicator, and of all that were split from it, on every rank, with
 * HO_ABORTED and the reason (may be NULL). If a communicator split from it has failed before, with
 * that failure's status and text. Any thread. Returns when all of this rank's waits have ended:
 * usually after 0.2 s, after 2 s if a rank does not answer that others wait for, at most after 6 s
 * if rank 0 of the job does not answer. The other ranks' waits end as late.
 * Afterwards all operations return the error; destroy works. The rank that calls does not wait for
 * the others' text: its own operations end at once with HO_ABORTED, its rank and the reason. The
 * text on the others also names the process that reported it first. */
HO_API ho_status ho_comm_abort(ho_comm* comm, const char* reason);

HO_API int32_t ho_comm_rank(const ho_comm* comm);
HO_API int32_t ho_comm_world_size(const ho_comm* comm);
HO_API int32_t ho_comm_group_count(const ho_comm* comm);
HO_API int32_t ho_comm_rail_count(const ho_comm* comm);
/* Below 0 for a rank out of range; ho_comm_rail_of also for an extra rank. */
HO_API int32_t ho_comm_group_of(const ho_comm* comm, int32_t rank);
HO_API int32_t ho_comm_group_rank_of(const ho_comm* comm, int32_t rank);
HO_API int32_t ho_comm_group_size(const ho_comm* comm, int32_t group);
HO_API int32_t ho_comm_rail_of(const ho_comm* comm, int32_t rank);
/* The number of this rank's CUDA device, also where it was made for HO_DEVICE_LOCAL_RANK;
 * HO_DEVICE_NONE: it has none. */
HO_API int32_t ho_comm_device(const ho_comm* comm);
/* Bytes of memory that the library holds for this communicator on this rank, now. */
HO_API uint64_t ho_comm_memory_bytes(const ho_comm* comm);

/* Collective. Measures every link that the plans of this communicator use. */
HO_API ho_status ho_comm_measure_links(ho_comm* comm);
/* Writes at most `capacity` entries (the library sets each entry's `size`), and to *count how many
 * links there are: 0 before ho_comm_measure_links. */
HO_API ho_status ho_comm_link_rates(const ho_comm* comm,
                                    ho_link_rate* rates,
                                    size_t capacity,
                                    size_t* count);

/* Device memory. A communicator with ho_comm_options.device takes pointers to that device's memory
 * wherever a collective takes a buffer. Ranks may pass host and device memory in one call, and a
 * rank one of each: the host's is pinned memory then, or registered here. As soon as one rank has a
 * device, data moves in larger pieces on all ranks, also that of host memory.
 *
 * A call reads and writes its buffers after all that options.stream was given before it. Without a
 * request it returns when all its work is on the device: it waits until the stream has got to the
 * call, and may wait for data from other ranks, but not for the end of its own work there. What the
 * stream is given afterwards comes after the call. An error that is found
 * later is in ho_comm_status(). With a report it returns when the operation has ended. With a
 * request, ho_request_join() does the same for any stream; ho_request_wait() returns when the
 * operation has ended on the device, too.
 *
 * HO_UNSUPPORTED: sends and receives, managed memory, and streams that are captured into a graph.
 */

/* Pins memory of the program's own; [memory, memory + bytes) must stay until it is deregistered.
 * Slow: once, not for each call. */
HO_API ho_status ho_comm_register(ho_comm* comm, void* memory, size_t bytes);
/* Not while a call with that memory is under way. */
HO_API ho_status ho_comm_deregister(ho_comm* comm, void* memory);
/* HO_OK, or why the communicator has failed. Any thread; does not wait. */
HO_API ho_status ho_comm_status(ho_comm* comm);
/* HO_OK, or HO_PEER_LOST with the first rank that has destroyed its part of the communicator, as
 * far as is known here; the text is in ho_last_error_message(). Any thread; does not wait. */
HO_API ho_status ho_comm_left(ho_comm* comm);
/* How errors of other communicators that share no ho_comm_split name this one: name is "group 'a'"
 * or the like; id is not 0, the same on all its ranks, and no other communicator's. Ranks of
 * several communicators then tell in which of them they wait. Any thread. */
HO_API ho_status ho_comm_set_name(ho_comm* comm, const char* name, uint64_t id);

/* Collectives. All ranks of the communicator call them in the same order (per kind: all-gathers,
 * reduce-scatters and the rest are three independent sequences). Counts are elements. Where a rank
 * makes another call in a place of a sequence, all get HO_MISMATCH, which names two ranks and their
 * calls: at once, or where no message shows it, when one has waited for a second (or for a quarter
 * of its deadline, if that is less).
 * options may be NULL; report may be NULL. request NULL: blocks. Otherwise the call returns at once
 * and *request must be ended by ho_request_wait (until it returns anything but HO_IN_PROGRESS);
 * buffers and counts arrays must stay until then.
 * The report is written when the operation ends.
 * A call without elements ends at once and waits for nobody, but for ho_all_to_all_counts, which
 * all ranks enter.
 *
 * all_gather: send has count elements, recv world_size * count; in place when
 *   send == recv + rank * count elements.
 * reduce_scatter: send has world_size * count, recv count; in place when
 *   recv == send + rank * count elements.
 * all_reduce, broadcast: count each; in place when send == recv. Broadcast reads send on root only.
 *   All ranks pass the same root; a rank whose part is over may hear of a different one in its next
 *   operation.
 * all_to_all: send and recv have world_size * count elements; block r of send goes to rank r, block
 *   r of recv is from rank r. Not in place. At most 16384 ranks, 4096 with counts.
 * gather: send has count elements, recv on root world_size * count; in place when, on root,
 *   send == recv + root * count elements. Elsewhere recv is not used and may be NULL.
 * scatter: send on root has world_size * count elements, recv count; in place when, on root,
 *   recv == send + root * count elements. Elsewhere send is not used and may be NULL.
 * reduce: count each; in place when, on root, send == recv. Elsewhere recv is not used and may be
 *   NULL.
 *   These three need the same root on all ranks. A rank that has sent all that it has to send ends
 *   before the others: that another rank named another root it hears, with all ranks, as
 *   HO_MISMATCH in its next operation. If it has left by then, the ranks that wait for it get the
 *   deadline's HO_TIMEOUT.
 * ..._counts: counts[r] elements of rank r, one after the other, the same array on all ranks.
 * all_to_all_counts: send_counts[r] elements to rank r, recv_counts[r] from rank r, each one after
 *   the other and all within 64 TiB. recv_counts[r] is send_counts[own rank] of rank r; else all
 *   ranks get the same HO_MISMATCH, which names two ranks and both counts. Counts may be 0. The
 *   ranks exchange their counts first, within the same operation. */
HO_API ho_status ho_all_gather(ho_comm* comm,
                               const void* send,
                               void* recv,
                               size_t count,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request);
HO_API ho_status ho_all_gather_counts(ho_comm* comm,
                                      const void* send,
                                      void* recv,
                                      const size_t* counts,
                                      ho_dtype dtype,
                                      const ho_call_options* options,
                                      ho_op_report* report,
                                      ho_request** request);
HO_API ho_status ho_reduce_scatter(ho_comm* comm,
                                   const void* send,
                                   void* recv,
                                   size_t count,
                                   ho_dtype dtype,
                                   ho_op op,
                                   const ho_call_options* options,
                                   ho_op_report* report,
                                   ho_request** request);
HO_API ho_status ho_reduce_scatter_counts(ho_comm* comm,
                                          const void* send,
                                          void* recv,
                                          const size_t* counts,
                                          ho_dtype dtype,
                                          ho_op op,
                                          const ho_call_options* options,
                                          ho_op_report* report,
                                          ho_request** request);
HO_API ho_status ho_all_reduce(ho_comm* comm,
                               const void* send,
                               void* recv,
                               size_t count,
                               ho_dtype dtype,
                               ho_op op,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request);
HO_API ho_status ho_broadcast(ho_comm* comm,
                              const void* send,
                              void* recv,
                              size_t count,
                              ho_dtype dtype,
                              int32_t root,
                              const ho_call_options* options,
                              ho_op_report* report,
                              ho_request** request);
HO_API ho_status ho_all_to_all(ho_comm* comm,
                               const void* send,
                               void* recv,
                               size_t count,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request);
HO_API ho_status ho_all_to_all_counts(ho_comm* comm,
                                      const void* send,
                                      const size_t* send_counts,
                                      void* recv,
                                      const size_t* recv_counts,
                                      ho_dtype dtype,
                                      const ho_call_options* options,
                                      ho_op_report* report,
                                      ho_request** request);
HO_API ho_status ho_gather(ho_comm* comm,
                           const void* send,
                           void* recv,
                           size_t count,
                           ho_dtype dtype,
                           int32_t root,
                           const ho_call_options* options,
                           ho_op_report* report,
                           ho_request** request);
HO_API ho_status ho_scatter(ho_comm* comm,
                            const void* send,
                            void* recv,
                            size_t count,
                            ho_dtype dtype,
                            int32_t root,
                            const ho_call_options* options,
                            ho_op_report* report,
                            ho_request** request);
HO_API ho_status ho_reduce(ho_comm* comm,
                           const void* send,
                           void* recv,
                           size_t count,
                           ho_dtype dtype,
                           ho_op op,
                           int32_t root,
                           const ho_call_options* options,
                           ho_op_report* report,
                           ho_request** request);
/* Ends when all ranks have entered it. In the sequence of all_reduce and the rest. */
HO_API ho_status ho_barrier(ho_comm* comm, const ho_call_options* options, ho_request** request);

/* Point to point. A receive takes the first message of its peer, in the order of sending, that has
 * its tag; of several receives that could take a message, the one that was posted first does. Tags
 * are any int32_t; no receive takes all tags. Messages with one tag between two ranks do not
 * overtake each other, and a message that waits blocks none with another tag. A message and the
 * receive that takes it must have the same count and type: else HO_MISMATCH, which fails the
 * communicator as any error of an operation does. A message of 0 elements is one like any other.
 *
 * Messages that come before their receive. The receiver holds those of one peer up to 1 MiB, each
 * counted with 64 bytes more. What is larger, or does not fit, waits at the sender until its
 * receive is posted. (Beyond 16384 that wait for one peer, later ones wait behind them.) So a send
 * ends
 *   - of a message that is held, when its memory has been read: soon, but a large one may need the
 *     receiver to be in a call of this library, on any operation of this communicator, or to have a
 *     request under way;
 *   - else when its receive was posted and has its data.
 * Programs must not count on the first: two ranks that both send before they receive may wait for
 * each other; requests avoid it. A rank that leaves drops what it holds.
 *
 * Any source. HO_ANY_SOURCE receives from any rank, this one included. Of peers that have messages
 * each gets its turn, so that none can starve another. It waits until its deadline, unless all
 * other ranks have left.
 *
 * To oneself. Such messages match as others do; they are held up to 1 MiB in all, and a larger one
 * ends when its receive is posted. */
#define HO_ANY_SOURCE (-1)
HO_API ho_status ho_send(ho_comm* comm,
                         const void* data,
                         size_t count,
                         ho_dtype dtype,
                         int32_t peer,
                         int32_t tag,
                         const ho_call_options* options,
                         ho_request** request);
/* *source (may be NULL) is the sender's rank once the receive has ended well, and not written
 * otherwise; with a request it must stay valid until then. */
HO_API ho_status ho_recv(ho_comm* comm,
                         void* data,
                         size_t count,
                         ho_dtype dtype,
                         int32_t peer,
                         int32_t tag,
                         const ho_call_options* options,
                         int32_t* source,
                         ho_request** request);

/* *done becomes 1 when the operation has ended; the status is then what ho_request_wait returns. */
HO_API ho_status ho_request_test(ho_request* request, int32_t* done);
/* Waits until the operation ends, at most timeout_ms; 0: until the operation's own deadline.
 * HO_IN_PROGRESS: it is not over after timeout_ms. It goes on and the request stays valid.
 * Any other status: the operation is over and the request is freed. HO_TIMEOUT is one of these: the
 *   operation's own deadline has passed. Only a null request and a forked child are refused with
 *   HO_INVALID_ARGUMENT, and then nothing is freed. */
HO_API ho_status ho_request_wait(ho_request* request, uint64_t timeout_ms);
/* waiting not 0: the calling thread counts as waiting for the request until waiting is 0 or the
 * request is freed, also between its calls. For who waits in several calls with a limit, so as to
 * look at signals in between, and does nothing else until the operation ends: ranks that wait for
 * each other in a circle are found only among threads that wait without a limit. One thread of a
 * request at a time. */
HO_API ho_status ho_request_set_waiting(ho_request* request, int32_t waiting);
/* Of a call with device memory: what `stream` (NULL: the default stream) is given from now on comes
 * after the call. Returns when all of the call's work is on the device; may wait for data from
 * other ranks, at most timeout_ms; 0: until the operation's own deadline. HO_IN_PROGRESS: not yet,
 * and the stream is as it was. The request stays valid in any case: it must still be ended, and
 * that may be done much later. Of a call with host memory it waits as ho_request_wait does. */
HO_API ho_status ho_request_join(ho_request* request, void* stream, uint64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HORING_H_ */
