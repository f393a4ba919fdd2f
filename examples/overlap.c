/* An all-gather under way while the rank computes: the request form of the C interface.
 *   horing run -n 2x2 -- ./overlap
 * Build: cc -std=c11 overlap.c $(pkg-config --cflags --libs horing) -o overlap */
#include <horing.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ho_last_error_message());
  return 1;
}

/* Something to do meanwhile: counts how often it could work until the operation was over. */
static long work_until_done(ho_request* request) {
  long rounds = 0;
  int32_t done = 0;
  while (ho_request_test(request, &done) == HO_OK && done == 0) {
    ++rounds;
  }
  return rounds;
}

static int gather(ho_comm* comm, int32_t* mine, int32_t* all, size_t count) {
  const int32_t rank = ho_comm_rank(comm);
  for (size_t i = 0; i < count; ++i) {
    mine[i] = rank;
  }
  ho_request* request = NULL;
  if (ho_all_gather(comm, mine, all, count, HO_INT32, NULL, NULL, &request) != HO_OK) {
    return fail("ho_all_gather");
  }
  const long rounds = work_until_done(request);
  if (ho_request_wait(request, 0) != HO_OK) {
    return fail("ho_request_wait");
  }
  const size_t last = (size_t)ho_comm_world_size(comm) * count - 1;
  printf("rank %d worked %ld rounds; the last element is from rank %d\n", rank, rounds, all[last]);
  return 0;
}

int main(void) {
  const size_t count = 1 << 18;
  ho_comm* comm = NULL;
  if (ho_comm_create(NULL, &comm) != HO_OK) {
    return fail("ho_comm_create");
  }
  int32_t* mine = malloc(count * sizeof *mine);
  int32_t* all = malloc((size_t)ho_comm_world_size(comm) * count * sizeof *all);
  const int status = mine != NULL && all != NULL ? gather(comm, mine, all, count) : 1;
  free(mine);
  free(all);
  ho_comm_destroy(comm);
  return status;
}
