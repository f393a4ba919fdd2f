// The kernels of kernel_list.hpp: nothing but which thread takes which steps.
#include "device/kernels/kernel_list.hpp"

namespace ho::device {
namespace {

__device__ inline uint64_t this_thread() {
  return static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ inline uint64_t all_threads() {
  return static_cast<uint64_t>(gridDim.x) * kThreads;
}

// The sum over a block's threads, in the first thread.
template <class Part>
__device__ inline Part sum_of_block(const Part& of_thread) {
  __shared__ Part thread_parts[kThreads];
  thread_parts[threadIdx.x] = of_thread;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    add_pair(thread_parts, threadIdx.x, distance);
    __syncthreads();
  }
  return thread_parts[0];
}

template <class Reduction, class Arguments>
__device__ inline void run_tiles(const Arguments& arguments) {
  using Part = typename Reduction::Part;
  const uint64_t tiles = tile_count(arguments.elements);
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Part part = sum_of_block(Reduction::part_of(arguments, tile, threadIdx.x));
    if (threadIdx.x == 0) {
      memory_at<Part>(arguments.parts)[tile] = part;
    }
    __syncthreads();
  }
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

#define HORING_TILES(name, Arguments, Reduction)                                           \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const Arguments arguments) { \
    run_tiles<Reduction>(arguments);                                                       \
  }
HORING_TILE_KERNELS(HORING_TILES)

#define HORING_FINISH(name, Part)                                                                \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const FinishArguments arguments) { \
    const Part all = sum_of_block(Finish<Part>::part_of(arguments, 0, threadIdx.x));                \
    if (threadIdx.x == 0) {                                                                      \
      *memory_at<Part>(arguments.result) = all;                                                  \
    }                                                                                            \
  }
HORING_FINISH_KERNELS(HORING_FINISH)

// A row of the grid for each range.
extern "C" __global__ void __launch_bounds__(kThreads)
    ho_copy_ranges(const __grid_constant__ CopyArguments arguments) {
  run_copy(arguments.range[blockIdx.y], this_thread(), all_threads());
}

}  // namespace ho::device
