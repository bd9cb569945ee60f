// Lathe's context and CPU device for one number of threads, and the kernels that it has ready.
#pragma once

#include <lathe/lathe.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "attention.h"
#include "ggml.h"
#include "product.h"

namespace lathe_ggml {

// What happens if the kernel of a product that multiplies no weight is missing. Weights are warmed up.
enum class Miss {
  kBlock,      // wait until it is compiled
  kBackground  // ggml's CPU backend computes the product, and a thread compiles the kernel for later graphs
};

// $LATHE_GGML_MISS; else kBlock until a model's weights are known, because a test should run on Lathe.
Miss miss_policy();
// Whether weights of this type are packed, if Lathe can pack them ($LATHE_GGML_PACK: 0 none, 1 all). By default those in
// block formats: packing makes products of one row by f32, f16 and bf16 weights slower (docs/quantised-weights.md).
bool packing_pays(ggml_type type);

class Engine {
 public:
  // Engines are shared by the whole process and stay until it ends. NULL: Lathe could not be opened; the reason was
  // logged.
  static Engine* of(int threads);
  // The engine that was used last, else one for all processors: for calls that do not depend on threads.
  static Engine* any();

  lathe_device* device() const { return device_; }
  int threads() const { return threads_; }

  // Prepares the kernels of all weights that graphs multiply, in parallel, with one line of progress, and then those of
  // attention. Does nothing if none is new.
  void warm_up();
  // Whether the kernel of `product` is ready. If not, follows the miss policy.
  bool prepare(const Product& product);
  bool prepare(const lathe_argmax_desc& desc);
  bool prepare(const Attention& attention);
  // A grouped product needs the kernels that its routing asks for, which is not known yet. Those of weights are warmed
  // up; those of other products follow the miss policy when they run.
  void prepare(const ggml_tensor* node, lathe_grouped_matmul_desc* desc) const;
  // Grows when a kernel became ready in the background.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  explicit Engine(int threads) : threads_(threads) {}
  bool open();
  void enqueue(const Product& product);
  void compile_in_background();
  void stop_background();
  static void stop_all();  // when the process ends

  const int threads_;
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  std::mutex warm_up_mutex_;
  uint64_t warmed_ = 0;  // guarded by warm_up_mutex_: changes of weights and attention at the last warm-up
  std::atomic<uint64_t> changes_{0};

  std::mutex queue_mutex_;  // guards the rest
  std::condition_variable queue_filled_;
  std::deque<lathe_matmul_desc> queue_;
  std::set<std::string> queued_;  // what was ever queued
  std::thread background_;
  bool stopping_ = false;
};

}  // namespace lathe_ggml
