#!/usr/bin/env python3
"""One rank of a job over torch's NCCL on the first GPU, for machines without CUDA's and NCCL's headers: what
nccl_collectives does, as far as torch offers it. Every element of every result is compared.

usage: torch_collectives.py --probe | RANK RANKS ID_FILE SECONDS thorough|brief

--probe prints NCCL's version (22809: 2.28.9). Status 77 where there is no GPU, or a torch without CUDA.
"""
import os
import signal
import sys

SKIPPED = 77
COUNTS = (1, 7, 1024, 65537, 1 << 20)
MORE_COUNTS = (5 << 20,)


def probe():
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    if not torch.cuda.is_available():
        print(f"skipped: no GPU is visible to torch {torch.__version__}")
        return SKIPPED
    major, minor, patch = torch.cuda.nccl.version()[:3]
    print(major * 10000 + minor * 100 + patch)
    return 0


class Job:
    """What rank r contributes are small integers, which all types hold exactly, and their sums too."""

    def __init__(self, torch, rank, ranks):
        self.torch = torch
        self.rank = rank
        self.ranks = ranks

    def values(self, rank, count, dtype):
        return ((self.torch.arange(count, device="cuda") % 13) + rank).to(dtype)

    @staticmethod
    def expect(what, found, wanted):
        wrong = int((found != wanted).sum())
        if wrong:
            raise AssertionError(f"{what} of {found.numel()} {found.dtype}: {wrong} elements are wrong")

    def check(self, count, dtype):
        torch, dist = self.torch, self.torch.distributed
        ranks = range(self.ranks)
        every = [self.values(rank, count * self.ranks, dtype) for rank in ranks]
        total = torch.stack(every).sum(0, dtype=torch.float32).to(dtype)
        mine = every[self.rank]

        summed = mine.clone()
        dist.all_reduce(summed)
        self.expect("all_reduce", summed, total)

        part = mine[:count].clone()
        gathered = torch.empty(count * self.ranks, device="cuda", dtype=dtype)
        dist.all_gather_into_tensor(gathered, part)
        self.expect("all_gather", gathered, torch.cat([each[:count] for each in every]))

        scattered = torch.empty(count, device="cuda", dtype=dtype)
        dist.reduce_scatter_tensor(scattered, mine)
        self.expect("reduce_scatter", scattered, total[self.rank * count:(self.rank + 1) * count])

        sent = mine.clone()
        dist.broadcast(sent, self.ranks - 1)
        self.expect("broadcast", sent, every[-1])

        received = torch.empty_like(mine)
        following, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, following),
                                               dist.P2POp(dist.irecv, received, before)]):
            request.wait()
        self.expect("send and recv", received, every[before])


def run(rank, ranks, id_file, counts):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, store=dist.FileStore(id_file, ranks))
    job = Job(torch, rank, ranks)
    for count in counts:
        for dtype in (torch.float32, torch.bfloat16, torch.int32):
            job.check(count, dtype)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(f"rank {rank}: {len(counts)} sizes, 3 types, 5 calls: all elements are right")


def main():
    os.environ.pop("CUDA_MODULE_LOADING", None)  # torch has too many kernels to load all of them
    if sys.argv[1:] == ["--probe"]:
        return probe()
    if len(sys.argv) != 6 or sys.argv[5] not in ("thorough", "brief"):
        print("usage: " + __doc__.split("usage: ")[1].split("\n")[0], file=sys.stderr)
        return 2
    signal.alarm(int(sys.argv[4]))
    run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], COUNTS + (MORE_COUNTS if sys.argv[5] == "thorough" else ()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
