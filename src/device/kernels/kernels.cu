// The kernels of kernel_list.hpp: nothing but which thread takes which steps.
#include "device/kernels/kernel_list.hpp"

namespace ho::device {
namespace {

constexpr unsigned kMaxThreads = 2048;  // of a multiprocessor at once

__device__ inline uint64_t this_thread() {
  return static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ inline uint64_t all_threads() {
  return static_cast<uint64_t>(gridDim.x) * kThreads;
}

template <class Codec>
__device__ inline void run_norm(const NormArguments& arguments) {
  __shared__ GradientSums columns[kThreads];
  const uint64_t tiles = norm_tiles(arguments.elements);
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    columns[threadIdx.x] = column_of_tile<Codec>(arguments, tile, threadIdx.x);
    __syncthreads();
    add_columns(columns, threadIdx.x);
    __syncthreads();
    add_blocks(columns, threadIdx.x);
    if (threadIdx.x == 0) {
      memory_at<GradientSums>(arguments.parts)[tile] = columns[0];
    }
    __syncthreads();
  }
}

// The sum over a block's threads, in the first thread.
__device__ inline uint64_t sum_of_block(uint64_t of_thread) {
  __shared__ uint64_t sums[kThreads];
  sums[threadIdx.x] = of_thread;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    add_pair(sums, threadIdx.x, distance);
    __syncthreads();
  }
  return sums[0];
}

}  // namespace

// A row of the grid for each range.
#define HORING_SUM(name, Dst, Src, Incoming)                                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                              \
      name(const __grid_constant__ SumArguments arguments) {                          \
    run_sum<Dst, Src, Incoming>(arguments, blockIdx.y, this_thread(), all_threads()); \
  }
HORING_SUM_KERNELS(HORING_SUM)

#define HORING_PREMULTIPLY(name, Codec)                              \
  extern "C" __global__ void __launch_bounds__(kThreads)             \
      name(const PremultiplyArguments arguments) {                   \
    run_premultiply<Codec>(arguments, this_thread(), all_threads()); \
  }
HORING_PREMULTIPLY_KERNELS(HORING_PREMULTIPLY)

#define HORING_CONVERT(name, Dst, Src)                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const ConvertArguments arguments) { \
    run_convert<Dst, Src>(arguments, this_thread(), all_threads());                               \
  }
HORING_CONVERT_KERNELS(HORING_CONVERT)

#define HORING_ADAMW(name, Gradient)                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const AdamWArguments arguments) { \
    run_adamw<Gradient>(arguments, this_thread(), all_threads());                               \
  }
HORING_ADAMW_KERNELS(HORING_ADAMW)

#define HORING_SGD(name, Gradient)                                                            \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const SgdArguments arguments) { \
    run_sgd<Gradient>(arguments, this_thread(), all_threads());                               \
  }
HORING_SGD_KERNELS(HORING_SGD)

#define HORING_NORM(name, Codec)                                                 \
  extern "C" __global__ void __launch_bounds__(kThreads, kMaxThreads / kThreads) \
      name(const NormArguments arguments) {                                      \
    run_norm<Codec>(arguments);                                                  \
  }
HORING_NORM_KERNELS(HORING_NORM)

// By one block.
extern "C" __global__ void __launch_bounds__(kThreads)
    ho_finish_norm(const FinishNormArguments arguments) {
  __shared__ NormSection sections[kSectionsAtOnce];
  GradientSums sums = *memory_at<const GradientSums>(arguments.sums);
  for (uint64_t tile = 0; tile < arguments.count; tile += kSectionsAtOnce * kNormSectionTiles) {
    read_sections(arguments, tile, sections, threadIdx.x);
    __syncthreads();
    if (threadIdx.x < kSectionsAtOnce) {
      add_tiles(sections[threadIdx.x]);
    }
    __syncthreads();
    add_sections(sections, sums);
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *memory_at<GradientSums>(arguments.sums) = sums;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) ho_decide(const DecideArguments arguments) {
  if (this_thread() == 0) {
    decide(arguments.limits, *memory_at<StepControl>(arguments.control));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) ho_hash(const HashArguments arguments) {
  const uint64_t tiles = hash_tiles(arguments.bytes);
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint64_t part = sum_of_block(hash_of_thread(arguments, tile, threadIdx.x));
    if (threadIdx.x == 0) {
      memory_at<uint64_t>(arguments.parts)[tile] = part;
    }
    __syncthreads();
  }
}

// By one block.
extern "C" __global__ void __launch_bounds__(kThreads)
    ho_finish_hash(const FinishHashArguments arguments) {
  const uint64_t all = sum_of_block(hash_of_parts(arguments, threadIdx.x));
  if (threadIdx.x == 0) {
    *memory_at<uint64_t>(arguments.result) = all;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) ho_zero(const ZeroArguments arguments) {
  run_zero(arguments, this_thread(), all_threads());
}

// A row of the grid for each range.
extern "C" __global__ void __launch_bounds__(kThreads)
    ho_copy_ranges(const __grid_constant__ CopyArguments arguments) {
  run_copy(arguments.range[blockIdx.y], this_thread(), all_threads());
}

}  // namespace ho::device
