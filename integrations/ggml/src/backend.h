// The backend: computes whole graphs on the threads of ggml's CPU backend. Nodes that Lathe takes become custom
// operations of that backend; ggml's own code computes the others. So a graph is one piece, and one set of threads does
// all work.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "attention.h"
#include "engine.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "product.h"
#include "team.h"

namespace lathe_ggml {

class Backend {
 public:
  // `device` is a copy of the device that the new backend reports; its context becomes the backend.
  static ggml_backend_t create(const ggml_backend_device& device);
  // Whether `backend` is of this class. This library's other backends are those of GPUs.
  static bool is(ggml_backend_t backend);
  static Backend& of(ggml_backend_t backend) { return *static_cast<Backend*>(backend->context); }
  ~Backend();

  void set_threads(int threads);
  void set_abort_callback(ggml_abort_callback callback, void* data);
  ggml_status compute(ggml_cgraph* graph);
  // Whether this backend takes the operation now.
  bool takes(const ggml_tensor* op);

 private:
  // A node of the graph that Lathe computes.
  struct Call {
    Backend* backend;
    int64_t number;  // from 1, in the order of the graph
    std::variant<Product, lathe_grouped_matmul_desc, lathe_argmax_desc, Attention> request;
  };

  Backend() = default;
  bool open();
  void use_own_threads();
  bool translate(const ggml_cgraph& graph);
  bool is_translated(const ggml_cgraph& graph) const;
  bool add_call(ggml_tensor* node);
  void replace(ggml_tensor* node, ggml_custom_op_t function, void* user);
  static void run_call(ggml_tensor* node, int thread, int threads, void* call);
  static void take_time(ggml_tensor* node, int thread, int threads, void* backend);
  void add_stamp(const ggml_tensor* node, bool by_lathe);

  ggml_backend_device device_ = {};
  ggml_backend_t cpu_ = nullptr;
  ggml_threadpool_t pool_ = nullptr;  // only if ggml was built without OpenMP
  int threads_ = 0;
  Engine* engine_ = nullptr;
  Team team_;
  std::atomic<bool> failed_{false};

  // llama.cpp uses flash attention by default only if a first graph, which it never computes, has it on the CPU's
  // device. So attention is refused until a graph with another number of rows comes, or until a graph is computed.
  std::atomic<int64_t> first_rows_{-1};
  std::atomic<bool> takes_attention_{false};

  // The translation of the last graph.
  uint64_t graph_ = 0;  // its uid; 0: none
  const Engine* for_engine_ = nullptr;
  uint64_t engine_changes_ = 0;
  std::deque<Call> calls_;
  std::deque<ggml_tensor> custom_;  // copies of the replaced nodes
  std::vector<ggml_tensor*> nodes_;

  // With LATHE_GGML_VERBOSE: a custom operation after each node takes the time.
  struct Stamp {
    const ggml_tensor* node;
    bool by_lathe;
  };
  std::vector<Stamp> stamps_;
  size_t next_stamp_ = 0;
  int64_t last_time_ = 0;
};

// Whether a backend can take the operation: by Lathe or by ggml's CPU backend.
bool takes(const ggml_tensor* op);
// ggml's CPU device; NULL if there is none.
ggml_backend_dev_t cpu_device();

}  // namespace lathe_ggml
