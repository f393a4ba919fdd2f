/* HO-Ring: hierarchical overlapping ring collectives. C interface, C11.
 *
 * Ranks form groups (nodes); ranks of equal group rank form rails: as many as the NICs can use, at
 * most the ranks of the smallest group. The other ranks are extra: they have no rail of their own,
 * and the rails share their data evenly. Every collective moves data between groups on all rails at
 * once while pieces that have arrived move inside each group.
 *
 * Every function that can fail returns ho_status; HO_OK is 0. After an error,
 * ho_last_error_message() says what failed, where, and what to do next (calling thread's last
 * error).
 *
 * Threads: a communicator may be used by one thread at a time, except ho_comm_abort and the
 * getters, which any thread may call at any time. Different communicators are independent.
 *
 * Failures: an error of an operation, a deadline that passes, or an abort ends the communicator and
 * all that were split from it (their own splits too), on all of their ranks and with one text: the
 * first cause. Its siblings and what it was split from go on. A rank whose process is gone ends the
 * communicators that it is in, no others; without rank 0 of the job, the ranks of the others cannot
 * be told of failures any more, and find out by their own deadlines; nor can they be split. To end
 * many communicators together, split them from one that you abort: if one of them has failed on the
 * rank that calls ho_comm_abort, the others get that failure's status and text.
 *
 * fork: a communicator belongs to the process that made it. A child forked afterwards may call
 * nothing but exec (the library's descriptors close then) or _exit, and should do so soon: while it
 * lives it keeps the parent's connections open, so that the other ranks would not notice the
 * parent's death. In the child every call with the communicator or one of its requests fails with
 * HO_INVALID_ARGUMENT and touches nothing of the parent's; ho_comm_destroy does nothing; of the
 * getters, those that need a lock (ho_comm_memory_bytes) give 0.
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
  HO_IN_PROGRESS = 13 /* no error, and of ho_request_wait alone: not over yet */
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
  HO_FLOAT8_E4M3 = 10, /* not with HO_AVG */
  HO_FLOAT8_E5M2 = 11  /* likewise */
} ho_dtype;

/* HO_AVG divides by the world size once, after the sum is complete. */
typedef enum ho_op { HO_SUM = 0, HO_PROD = 1, HO_MAX = 2, HO_MIN = 3, HO_AVG = 4 } ho_op;

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
} ho_comm_options;
#define HO_COMM_OPTIONS_INIT \
  { sizeof(ho_comm_options), -1, -1, -1, NULL, NULL, NULL, 0 }

typedef struct ho_call_options {
  size_t size;
  ho_algorithm algorithm;
  uint64_t timeout_ms; /* 0: the communicator's */
  /* 1: 16-bit data (HO_FLOAT16, HO_BFLOAT16) is summed in fp32 and rounded only where a partial sum
   * goes on the wire (with HO_ALGORITHM_HO_RING between groups) and at the end. Reductions with
   * HO_SUM and HO_AVG, by every algorithm but HO_ALGORITHM_DIRECT, which sends partial sums more
   * than once: asking for both, also through HORING_ALGORITHM, is HO_UNSUPPORTED, and
   * HO_ALGORITHM_AUTO takes another. */
  int32_t fp32_sums;
} ho_call_options;
#define HO_CALL_OPTIONS_INIT \
  { sizeof(ho_call_options), HO_ALGORITHM_AUTO, 0, 0 }

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
  double bytes_per_second; /* payload, this rank to peer, all links of the job busy alike; inside
                            * the group the best of five streams */
  double round_trip_ns;    /* 8 bytes, median */
} ho_link_rate;

HO_API const char* ho_version(void);
HO_API const char* ho_status_name(ho_status status);
/* Valid until the calling thread's next call into the library. Never NULL. */
HO_API const char* ho_last_error_message(void);
/* For libraries over this one, whose errors a program then finds in one place: what
 * ho_last_error_message() says to the calling thread from now on. Copied; NULL is "". */
HO_API void ho_set_last_error_message(const char* message);
HO_API size_t ho_dtype_bytes(ho_dtype dtype);

/* Collective. options may be NULL. On success *comm is ready: all ranks have met, agreed on groups,
 * rails and settings. On failure *comm is NULL. */
HO_API ho_status ho_comm_create(const ho_comm_options* options, ho_comm** comm);
/* Not collective; waits for this rank's own requests at most until their deadlines, and up to a
 * second for its last bytes to reach the others. What this rank has completed completes on slower
 * ranks too; what it has not fails there at once, saying that this rank has left. NULL is fine. */
HO_API void ho_comm_destroy(ho_comm* comm);
/* Collective. Ranks with the same color form a communicator, ordered by key, then by rank. A color
 * below 0 takes part and gets NULL. Where one rank cannot make its part, all ranks of that color
 * are told why, and `comm` goes on. The ranks meet through the process of the job's rank 0, also
 * where that is no member: once it has ended, or has destroyed its last communicator, a split fails
 * at once with HO_PEER_LOST. So does a split that the other ranks have begun and not ended. */
HO_API ho_status ho_comm_split(ho_comm* comm, int32_t color, int32_t key, ho_comm** split);
/* Ends every wait of this communicator, and of all that were split from it, on every rank within
 * about a second, with HO_ABORTED and the reason (may be NULL); after a failure of what was split
 * from it, with that failure's status and text. Any thread. Returns when all of this rank's waits
 * have ended, usually after 0.2 s, at most after 3 s where rank 0 of the job does not answer.
 * Afterwards all operations return the error; destroy works. The rank that calls does not wait for
 * the others' text: its own operations end at once with HO_ABORTED, its rank and the reason. The
 * others' text adds by which process it was first reported. */
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
/* Bytes of memory that the library holds for this communicator on this rank, now. */
HO_API uint64_t ho_comm_memory_bytes(const ho_comm* comm);

/* Collective. Measures every link that the plans of this communicator use. */
HO_API ho_status ho_comm_measure_links(ho_comm* comm);
/* Writes at most `capacity` entries (each entry's `size` set by the library) and the number there
 * is to *count. Zero before ho_comm_measure_links. */
HO_API ho_status ho_comm_link_rates(const ho_comm* comm,
                                    ho_link_rate* rates,
                                    size_t capacity,
                                    size_t* count);

/* Collectives. All ranks of the communicator call them in the same order (per kind: all-gathers,
 * reduce-scatters and the rest are three independent sequences). Counts are elements.
 * options may be NULL; report may be NULL. request NULL: blocks. Otherwise the call returns at once
 * and *request must be ended by ho_request_wait (waiting until it says anything but
 * HO_IN_PROGRESS); buffers and counts arrays must stay until then.
 * The report is written when the operation ends.
 *
 * all_gather: send has count elements, recv world_size * count; in place when
 *   send == recv + rank * count elements.
 * reduce_scatter: send has world_size * count, recv count; in place when
 *   recv == send + rank * count elements.
 * all_reduce, broadcast: count each; in place when send == recv. Broadcast reads send on root only;
 *   all ranks name the same root (in a small broadcast another root may show only in the next
 *   operation, as HO_MISMATCH).
 * ..._counts: counts[r] elements of rank r, one after the other, the same array on all ranks. */
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
HO_API ho_status ho_barrier(ho_comm* comm, const ho_call_options* options);

/* Point to point. Messages between two ranks arrive in the order in which they were sent; sizes and
 * types must agree. Sends and receives of one rank do not wait for each other. The peer is another
 * rank: a message to oneself is refused with HO_INVALID_ARGUMENT, and so every message in a
 * communicator of one rank, such as a split can make. */
HO_API ho_status ho_send(ho_comm* comm,
                         const void* data,
                         size_t count,
                         ho_dtype dtype,
                         int32_t peer,
                         const ho_call_options* options,
                         ho_request** request);
HO_API ho_status ho_recv(ho_comm* comm,
                         void* data,
                         size_t count,
                         ho_dtype dtype,
                         int32_t peer,
                         const ho_call_options* options,
                         ho_request** request);

/* *done becomes 1 when the operation has ended; the status is then what ho_request_wait returns. */
HO_API ho_status ho_request_test(ho_request* request, int32_t* done);
/* Waits until the operation ends, at most timeout_ms; 0: until the operation's own deadline.
 * HO_IN_PROGRESS: it is not over after timeout_ms. It goes on and the request stays valid.
 * Any other status: the operation is over and the request is freed. HO_TIMEOUT is one of these: the
 *   operation's own deadline has passed. Only a null request and a forked child are refused with
 *   HO_INVALID_ARGUMENT, and then nothing is freed. */
HO_API ho_status ho_request_wait(ho_request* request, uint64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* HORING_H_ */
