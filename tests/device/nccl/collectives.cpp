// One rank of a job that runs the collectives of the installed NCCL on one GPU and checks every
// byte of every result. run_suite.py starts several of them as nodes of their own.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "element.hpp"

namespace nccl_check {
namespace {

constexpr int kSkipped = 77;
constexpr std::array<size_t, 6> kCounts{1, 7, 1024, 65537, 1U << 20U, 5U << 20U};

void must(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) {
    throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result) + ": " +
                             ncclGetLastError(nullptr));
  }
}

void must(cudaError_t result, const char* what) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
  }
}

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) : size_(bytes) {
    must(cudaMalloc(&data_, bytes), "cudaMalloc");
    must(cudaMemset(data_, 0xa5, bytes), "cudaMemset");
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }
  [[nodiscard]] std::byte* at(size_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  void write(size_t offset, const std::vector<std::byte>& bytes) const {
    must(cudaMemcpy(at(offset), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "to the GPU");
  }
  [[nodiscard]] std::vector<std::byte> read(size_t offset, size_t bytes) const {
    std::vector<std::byte> copy(bytes);
    must(cudaMemcpy(copy.data(), at(offset), bytes, cudaMemcpyDeviceToHost), "from the GPU");
    return copy;
  }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_;
};

// Our own table of NCCL's numbers, against NCCL's own header.
static_assert(static_cast<int>(DataType::kInt8) == ncclInt8 &&
              static_cast<int>(DataType::kUint64) == ncclUint64 &&
              static_cast<int>(DataType::kFloat16) == ncclFloat16 &&
              static_cast<int>(DataType::kFloat64) == ncclFloat64 &&
              static_cast<int>(DataType::kBfloat16) == ncclBfloat16);
ncclDataType_t nccl_type(const Type& type) {
  return static_cast<ncclDataType_t>(type.type);
}

struct Operation {
  ncclRedOp_t op;
  const char* name;
};
constexpr std::array kOperations{Operation{ncclSum, "sum"},
                                 Operation{ncclProd, "prod"},
                                 Operation{ncclMax, "max"},
                                 Operation{ncclMin, "min"},
                                 Operation{ncclAvg, "avg"}};

class Job {
 public:
  Job(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks) {
    must(cudaStreamCreate(&stream_), "cudaStreamCreate");
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { cudaStreamDestroy(stream_); }

  void check_communicator(ncclComm_t comm, bool thorough) {
    comm_ = comm;
    for (const size_t count : kCounts) {
      for (const Type& type : kTypes) {
        if (!thorough && type.type != DataType::kFloat32) {
          continue;
        }
        for (const bool in_place : {false, true}) {
          all_gather(type, count, in_place);
          for (const Operation& operation : kOperations) {
            if (count > 65537 && operation.op != ncclSum) {
              continue;
            }
            all_reduce(type, count, operation, in_place);
            reduce_scatter(type, count, operation, in_place);
          }
        }
      }
    }
    follow_one_another();
  }
  [[nodiscard]] size_t checks() const { return checks_; }
  [[nodiscard]] size_t wrong() const { return wrong_; }

 private:
  // What a rank gives for element i: multiples of the world size, so that averages are whole, and
  // 0, 1 or 2 where products are made. All results of up to five ranks fit an int8.
  [[nodiscard]] uint32_t input(const Operation& operation, uint32_t rank, size_t i) const {
    const auto mixed = static_cast<uint32_t>((i * 7 + i / 5 + size_t{rank} * 3) % 5);
    return operation.op == ncclProd ? mixed % 2 + (rank == 0 ? 1 : 0) : mixed * ranks_;
  }
  [[nodiscard]] uint32_t reduced(const Operation& operation, size_t i) const {
    uint32_t result = input(operation, 0, i);
    for (uint32_t rank = 1; rank < ranks_; ++rank) {
      const uint32_t next = input(operation, rank, i);
      switch (operation.op) {
        case ncclProd:
          result *= next;
          break;
        case ncclMax:
          result = std::max(result, next);
          break;
        case ncclMin:
          result = std::min(result, next);
          break;
        default:
          result += next;
      }
    }
    return operation.op == ncclAvg ? result / ranks_ : result;
  }

  void note(const char* what,
            const Type& type,
            size_t count,
            const char* operation,
            bool in_place,
            const std::vector<std::byte>& is,
            const std::vector<std::byte>& should) {
    ++checks_;
    if (is == should) {
      return;
    }
    ++wrong_;
    size_t at = 0;
    while (is[at] == should[at]) {
      ++at;
    }
    std::printf("WRONG rank %u: %s of %zu %s %s%s: byte %zu of %zu is %02x, not %02x\n",
                rank_,
                what,
                count,
                type.name,
                operation,
                in_place ? " in place" : "",
                at,
                is.size(),
                std::to_integer<unsigned>(is[at]),
                std::to_integer<unsigned>(should[at]));
  }
  void wait() { must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  void all_reduce(const Type& type, size_t count, const Operation& operation, bool in_place) {
    const size_t bytes = count * type.bytes;
    const DeviceBytes from(bytes);
    const DeviceBytes other(bytes);
    const DeviceBytes& to = in_place ? from : other;
    from.write(0, elements(type, count, [&](size_t i) { return input(operation, rank_, i); }));
    must(ncclAllReduce(from.at(0), to.at(0), count, nccl_type(type), operation.op, comm_, stream_),
         "ncclAllReduce");
    wait();
    note("all-reduce",
         type,
         count,
         operation.name,
         in_place,
         to.read(0, bytes),
         elements(type, count, [&](size_t i) { return reduced(operation, i); }));
  }

  void all_gather(const Type& type, size_t count, bool in_place) {
    const size_t block = count * type.bytes;
    const DeviceBytes all(block * ranks_);
    const DeviceBytes other(block);
    const auto mine =
        elements(type, count, [&](size_t i) { return input(kOperations[0], rank_, i); });
    std::byte* const from = in_place ? all.at(rank_ * block) : other.at(0);
    (in_place ? all : other).write(in_place ? rank_ * block : 0, mine);
    must(ncclAllGather(from, all.at(0), count, nccl_type(type), comm_, stream_), "ncclAllGather");
    wait();
    note("all-gather",
         type,
         count,
         "",
         in_place,
         all.read(0, block * ranks_),
         elements(type, count * ranks_, [&](size_t i) {
           return input(kOperations[0], static_cast<uint32_t>(i / count), i % count);
         }));
  }

  void reduce_scatter(const Type& type, size_t count, const Operation& operation, bool in_place) {
    const size_t block = count * type.bytes;
    const DeviceBytes all(block * ranks_);
    const DeviceBytes other(block);
    all.write(0,
              elements(type, count * ranks_, [&](size_t i) { return input(operation, rank_, i); }));
    const DeviceBytes& to = in_place ? all : other;
    const size_t offset = in_place ? rank_ * block : 0;
    must(ncclReduceScatter(
             all.at(0), to.at(offset), count, nccl_type(type), operation.op, comm_, stream_),
         "ncclReduceScatter");
    wait();
    note("reduce-scatter",
         type,
         count,
         operation.name,
         in_place,
         to.read(offset, block),
         elements(type, count, [&](size_t i) { return reduced(operation, rank_ * count + i); }));
  }

  // Several in a group and several in a row, none waited for.
  void follow_one_another() {
    constexpr size_t kEach = 40000;
    constexpr size_t kTimes = 12;
    const Type& type = kTypes[7];
    const Operation& sum = kOperations[0];
    const DeviceBytes from(kEach * type.bytes);
    const DeviceBytes reduced_to(kTimes * kEach * type.bytes);
    const DeviceBytes gathered(ranks_ * kEach * type.bytes);
    const auto mine = elements(type, kEach, [&](size_t i) { return input(sum, rank_, i); });
    from.write(0, mine);
    for (size_t time = 0; time < kTimes; ++time) {
      must(ncclGroupStart(), "ncclGroupStart");
      must(ncclAllReduce(from.at(0),
                         reduced_to.at(time * kEach * type.bytes),
                         kEach,
                         nccl_type(type),
                         sum.op,
                         comm_,
                         stream_),
           "ncclAllReduce");
      must(ncclAllGather(from.at(0), gathered.at(0), kEach, nccl_type(type), comm_, stream_),
           "ncclAllGather");
      must(ncclGroupEnd(), "ncclGroupEnd");
    }
    wait();
    note("all-reduces in a row",
         type,
         kTimes * kEach,
         sum.name,
         false,
         reduced_to.read(0, reduced_to.size()),
         elements(type, kTimes * kEach, [&](size_t i) { return reduced(sum, i % kEach); }));
    note("all-gathers in a row",
         type,
         kEach,
         "",
         false,
         gathered.read(0, gathered.size()),
         elements(type, ranks_ * kEach, [&](size_t i) {
           return input(sum, static_cast<uint32_t>(i / kEach), i % kEach);
         }));
  }

  uint32_t rank_;
  uint32_t ranks_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  size_t checks_ = 0;
  size_t wrong_ = 0;
};

// Rank 0 writes it, whole at once; the others wait for it.
ncclUniqueId share_id(uint32_t rank, const std::string& path) {
  ncclUniqueId id;
  if (rank == 0) {
    must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::ofstream(path + ".part", std::ios::binary)
        .write(reinterpret_cast<const char*>(&id), sizeof id);
    if (std::rename((path + ".part").c_str(), path.c_str()) != 0) {
      throw std::runtime_error("cannot write " + path);
    }
    return id;
  }
  while (true) {  // the alarm ends it
    std::ifstream file(path, std::ios::binary);
    if (file.read(reinterpret_cast<char*>(&id), sizeof id)) {
      return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int run(uint32_t rank, uint32_t ranks, const std::string& id_path, bool thorough) {
  must(cudaSetDevice(0), "cudaSetDevice");
  Job job(rank, ranks);
  // The second communicator shows whether NCCL still has the plugin when all others have gone.
  for (const char* suffix : {".first", ".second"}) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = share_id(rank, id_path + suffix);
    must(ncclCommInitRank(&comm, static_cast<int>(ranks), id, static_cast<int>(rank)),
         "ncclCommInitRank");
    job.check_communicator(comm, thorough && suffix == std::string(".first"));
    ncclComm_t half = nullptr;
    must(ncclCommSplit(comm, 0, static_cast<int>(rank), &half, nullptr), "ncclCommSplit");
    job.check_communicator(half, false);
    must(ncclCommDestroy(half), "ncclCommDestroy");
    must(ncclCommDestroy(comm), "ncclCommDestroy");
  }
  std::printf("rank %u: %zu checks, %zu wrong\n", rank, job.checks(), job.wrong());
  return job.wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nccl_check

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU here: skipped");
    return nccl_check::kSkipped;
  }
  if (argc == 2 && std::string(argv[1]) == "--probe") {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? (std::printf("%d\n", version), 0) : 1;
  }
  if (argc != 6) {
    std::fprintf(stderr,
                 "usage: nccl_collectives --probe | RANK RANKS ID_FILE SECONDS thorough|brief\n");
    return 2;
  }
  ::alarm(static_cast<unsigned>(std::atoi(argv[4])));
  try {
    return nccl_check::run(static_cast<uint32_t>(std::atoi(argv[1])),
                           static_cast<uint32_t>(std::atoi(argv[2])),
                           argv[3],
                           std::string(argv[5]) == "thorough");
  } catch (const std::exception& error) {
    std::printf("rank %s: %s\n", argv[1], error.what());
    return 1;
  }
}
