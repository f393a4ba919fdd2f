// Trains a small language model on GPUs. Built where nvcc is found (meson.build has the command).
//   build/examples/gpu/train_gpu                                one GPU, without libparo
//   horing run -n 2x4 -- build/examples/gpu/train_gpu IIG       eight, sharded
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "alone.hpp"
#include "sharded.hpp"

namespace example {
namespace {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
  }
}

template <auto kFunction, class... Parameters>
__global__ void kernel(uint32_t threads, Parameters... parameters) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < threads) {
    kFunction(i, parameters...);
  }
}

// Arguments become what the function takes.
template <auto kFunction>
struct Launch;
template <class... Parameters, void (*kFunction)(uint32_t, Parameters...)>
struct Launch<kFunction> {
  static void on(cudaStream_t stream, uint32_t threads, Parameters... parameters) {
    constexpr uint32_t kBlock = 128;
    kernel<kFunction, Parameters...>
        <<<(threads + kBlock - 1) / kBlock, kBlock, 0, stream>>>(threads, parameters...);
    check(cudaGetLastError(), "launch");
  }
};

class CudaGpu {
 public:
  explicit CudaGpu(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;
  ~CudaGpu() {
    cudaStreamSynchronize(stream_);
    for (void* const each : memory_) {
      cudaFree(each);
    }
    cudaStreamDestroy(stream_);
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  template <class T>
  [[nodiscard]] Array<T> allocate(uint32_t count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
    memory_.push_back(memory);
    return {static_cast<T*>(memory), count};
  }
  template <class T>
  void upload(Array<T> to, const std::vector<T>& from) const {
    const size_t bytes = from.size() * sizeof(T);
    check(cudaMemcpyAsync(to.data, from.data(), bytes, cudaMemcpyDefault, stream_), "upload");
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(Array<T> from) const {
    std::vector<T> to(from.count);
    const size_t bytes = to.size() * sizeof(T);
    check(cudaMemcpyAsync(to.data(), from.data, bytes, cudaMemcpyDefault, stream_), "download");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return to;
  }
  template <auto kFunction, class... Arguments>
  void launch(uint32_t threads, Arguments... arguments) const {
    Launch<kFunction>::on(stream_, threads, arguments...);
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
};

struct DestroyComm {
  void operator()(ho_comm* comm) const { ho_comm_destroy(comm); }
};

void train(const char* strategy) {
  const Settings settings;
  if (strategy == nullptr) {
    CudaGpu gpu(0);
    static_cast<void>(train_alone(gpu, settings));
    return;
  }
  ho_comm_options options = HO_COMM_OPTIONS_INIT;
  options.device = HO_DEVICE_LOCAL_RANK;
  ho_comm* made = nullptr;
  must(ho_comm_create(&options, &made));
  const std::unique_ptr<ho_comm, DestroyComm> comm(made);
  CudaGpu gpu(ho_comm_device(made));
  static_cast<void>(train_sharded(gpu, made, strategy, settings));
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  try {
    example::train(argc > 1 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
