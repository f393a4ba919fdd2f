// Times Gloo's collectives: one context per interface, each with its share of the data, all at
// once from threads, since a Gloo context speaks over one interface. An operation has ended when
// all shares have; operations run back to back.
//
// Algorithms: ring (all three collectives; reduce_scatter has none of its own in Gloo and uses
// halving_doubling), bcube and halving_doubling (all_reduce). RANK and WORLD_SIZE are taken from
// the environment.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "bench/comparison/peer.hpp"

namespace {

using ho::comparison::Arguments;
using ho::comparison::Collective;
using ho::comparison::Result;
using ho::comparison::Run;
using ContextPtr = std::shared_ptr<gloo::rendezvous::Context>;
using Sum = gloo::ReductionFunction<float>;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int environment_number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) {
    throw std::runtime_error(std::string(name) + " is not set; start this with horing run");
  }
  return std::atoi(text);
}

std::vector<ContextPtr> connect(const Arguments& arguments, int rank, int world) {
  gloo::rendezvous::FileStore store(arguments.store);
  std::vector<ContextPtr> contexts;
  for (const std::string& interface : arguments.interfaces) {
    gloo::transport::tcp::attr attr;
    attr.iface = interface;
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::PrefixStore prefixed(interface, store);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    context->setTimeout(std::chrono::seconds(120));
    context->connectFullMesh(prefixed, device);
    contexts.push_back(std::move(context));
  }
  return contexts;
}

// One context's share of the data of one operation, and how to run it.
class Share {
 public:
  Share(ContextPtr context, const Run& run, const std::string& algorithm, uint64_t count)
      : context_(std::move(context)), collective_(run.collective), count_(count) {
    const auto world = static_cast<size_t>(context_->size);
    const bool gather = collective_ == Collective::kAllGather;
    const bool scatter = collective_ == Collective::kReduceScatter;
    send_.resize(scatter ? count * world : count);
    recv_.resize(gather ? count * world : count);
    fill();
    prepare(algorithm);
  }

  void fill() {
    std::fill(send_.begin(), send_.end(), static_cast<float>(context_->rank + 1));
    std::fill(recv_.begin(), recv_.end(), static_cast<float>(context_->rank + 1));
  }
  void operate() { operate_(); }

  [[nodiscard]] uint64_t wrong_elements() const {
    const auto world = static_cast<size_t>(context_->size);
    const size_t whole_sum = world * (world + 1) / 2;
    const auto sum = static_cast<float>(whole_sum);
    // reduce_scatter leaves the result at the front of its input
    const std::vector<float>& output = collective_ == Collective::kReduceScatter ? send_ : recv_;
    const size_t elements = collective_ == Collective::kReduceScatter ? count_ : output.size();
    uint64_t wrong = 0;
    for (size_t i = 0; i < elements; ++i) {
      const size_t owner = i / count_;
      const auto gathered = static_cast<float>(owner + 1);
      const float expected = collective_ == Collective::kAllGather ? gathered : sum;
      wrong += output[i] != expected ? 1U : 0U;
    }
    return wrong;
  }

 private:
  void prepare(const std::string& algorithm) {
    if (collective_ == Collective::kAllGather) {
      operate_ = [this] {
        gloo::AllgatherOptions options(context_);
        options.setInput(send_.data(), send_.size());
        options.setOutput(recv_.data(), recv_.size());
        gloo::allgather(options);
      };
    } else if (collective_ == Collective::kReduceScatter) {
      const std::vector<int> counts(static_cast<size_t>(context_->size), static_cast<int>(count_));
      algorithm_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_,
          std::vector<float*>{send_.data()},
          static_cast<int>(send_.size()),
          counts,
          Sum::sum);
      operate_ = [this] { algorithm_->run(); };
    } else if (algorithm == "halving_doubling") {
      algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{recv_.data()}, static_cast<int>(count_), Sum::sum);
      operate_ = [this] { algorithm_->run(); };
    } else {
      const bool bcube = algorithm == "bcube";
      operate_ = [this, bcube] { all_reduce(bcube); };
    }
  }

  void all_reduce(bool bcube) {
    using Implementation = gloo::detail::AllreduceOptionsImpl;
    gloo::AllreduceOptions options(context_);
    options.setInput(send_.data(), send_.size());
    options.setOutput(recv_.data(), recv_.size());
    options.setAlgorithm(bcube ? Implementation::BCUBE : Implementation::RING);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

  ContextPtr context_;
  Collective collective_;
  uint64_t count_;
  std::vector<float> send_;
  std::vector<float> recv_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  std::function<void()> operate_;
};

// Runs the shares `times` times, a thread for each, every operation ended by a barrier of them.
double operate_all(std::vector<std::unique_ptr<Share>>& shares, int times) {
  const double start = now_seconds();
  if (shares.size() == 1) {
    for (int i = 0; i < times; ++i) {
      shares.front()->operate();
    }
    return now_seconds() - start;
  }
  std::barrier<> ended(static_cast<std::ptrdiff_t>(shares.size()));
  std::vector<std::thread> threads;
  threads.reserve(shares.size());
  for (const auto& share : shares) {
    threads.emplace_back([&ended, &share, times] {
      for (int i = 0; i < times; ++i) {
        share->operate();
        ended.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return now_seconds() - start;
}

template <typename T>
std::vector<T> gather(const ContextPtr& context, T mine) {
  std::vector<T> all(static_cast<size_t>(context->size));
  gloo::AllgatherOptions options(context);
  options.setInput(&mine, 1);
  options.setOutput(all.data(), all.size());
  gloo::allgather(options);
  return all;
}

Result measure(const std::vector<ContextPtr>& contexts,
               const Arguments& arguments,
               const Run& run) {
  const uint64_t count =
      ho::comparison::count_for(run, static_cast<uint64_t>(contexts.front()->size));
  const size_t used = std::min<size_t>(contexts.size(), count);
  std::vector<std::unique_ptr<Share>> shares;
  for (size_t i = 0; i < used; ++i) {
    const uint64_t share = count * (i + 1) / used - count * i / used;
    shares.push_back(std::make_unique<Share>(contexts[i], run, arguments.algorithm, share));
  }
  Result result;
  result.run = run;
  operate_all(shares, 1);
  for (const auto& share : shares) {
    result.wrong += share->wrong_elements();
  }
  uint64_t wrong = 0;
  for (const uint64_t of_rank : gather(contexts.front(), result.wrong)) {
    wrong += of_rank;
  }
  result.wrong = wrong;
  const double probe = operate_all(shares, ho::comparison::kProbes) / ho::comparison::kProbes;
  const double slowest_probe = gather(contexts.front(), probe).front();
  result.iterations = ho::comparison::choose_iterations(run, arguments, slowest_probe);
  operate_all(shares, ho::comparison::kWarmup);
  const double seconds = operate_all(shares, result.iterations);
  const auto all = gather(contexts.front(), seconds);
  result.time_us = *std::max_element(all.begin(), all.end()) * 1e6 / result.iterations;
  return result;
}

void run_all(const Arguments& arguments) {
  const int rank = environment_number("RANK");
  std::optional<ho::comparison::ResultFile> file;
  if (rank == 0) {
    file.emplace(arguments.json_file);
  }
  const auto contexts = connect(arguments, rank, environment_number("WORLD_SIZE"));
  for (const Run& run : arguments.runs) {
    const Result result = measure(contexts, arguments, run);
    if (file) {
      file->add(result);
    }
  }
  gloo::BarrierOptions barrier(contexts.front());
  gloo::barrier(barrier);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run_all(ho::comparison::read_arguments(argc, argv));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_perf: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
