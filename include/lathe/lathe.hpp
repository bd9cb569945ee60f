// Lathe for C++17: owning handles, matrix views and exceptions over lathe.h. Header-only; it adds no state, and no cost
// except filling a descriptor. Every failure throws lathe::Error. lathe.h says what each call does, which threads may
// make it and what it costs. Objects can be moved but not copied. Destroy a Plan, Buffer or Stream before its Device,
// and a Device before its Context.
//
//   lathe::Context context;
//   lathe::Device cpu = context.open("cpu");
//   // x: tokens by k; weight: n by k, as PyTorch's Linear stores it; y: tokens by n
//   lathe::Epilogue relu;
//   relu.bias = bias.data();
//   relu.bias_dtype = LATHE_F32;
//   relu.activation = LATHE_ACTIVATION_RELU;
//   lathe::matmul(cpu, lathe::row_major(x.data(), tokens, k), lathe::row_major(weight.data(), n, k).transposed(),
//                 lathe::row_major(y.data(), tokens, n), relu);
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/views.hpp"

namespace lathe {

// ---- Handles

namespace internal {

// Collects the pieces that a lathe_text_fn receives. No exception may pass through the library's stack frames, so the
// first one is stored here and thrown by take().
class TextCollector {
 public:
  using Pieces = std::vector<std::pair<std::string, std::string>>;  // name, text

  static void receive(void* user, const char* name, const char* text, size_t size) {
    auto* self = static_cast<TextCollector*>(user);
    try {
      self->pieces_.emplace_back(name, std::string(text, size));
    } catch (...) {
      if (!self->exception_) self->exception_ = std::current_exception();
    }
  }
  Pieces take(lathe_status status) {
    check(status);
    if (exception_) std::rethrow_exception(exception_);
    return std::move(pieces_);
  }
  // For calls that pass a single piece.
  std::string take_text(lathe_status status) {
    std::string all;
    for (auto& piece : take(status)) all += piece.second;
    return all;
  }

 private:
  Pieces pieces_;
  std::exception_ptr exception_;
};

// Owns one C handle. Movable, not copyable.
template <typename Handle, void (*destroy)(Handle*)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle* handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (handle_ != nullptr) destroy(handle_);
  }
  // The C handle. This object still owns it.
  Handle* get() const { return handle_; }

 private:
  Handle* handle_ = nullptr;
};

}  // namespace internal

// A parsed program of an elementwise op (elementwise.h).
class Program {
 public:
  explicit Program(const std::string& text) {
    lathe_program* program = nullptr;
    check(lathe_program_create(text.data(), text.size(), &program));
    program_ = internal::Owner<lathe_program, lathe_program_destroy>(program);
  }
  lathe_program* get() const { return program_.get(); }

 private:
  internal::Owner<lathe_program, lathe_program_destroy> program_;
};

// A problem class planned once and run many times. Destroy it before its device.
class Plan {
 public:
  explicit Plan(lathe_plan* plan) : plan_(plan) {}
  lathe_plan* get() const { return plan_.get(); }

  void run(const lathe_matmul_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_plan_run_matmul(get(), stream, &desc));
  }
  void run(const lathe_argmax_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_plan_run_argmax(get(), stream, &desc));
  }
  void run(const lathe_matmul_argmax_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_plan_run_matmul_argmax(get(), stream, &desc));
  }
  void run(const lathe_elementwise_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_plan_run_elementwise(get(), stream, &desc));
  }
  size_t workspace_bytes() const {
    size_t bytes = 0;
    check(lathe_plan_workspace_bytes(get(), &bytes));
    return bytes;
  }

  int32_t phases() const {
    int32_t phases = 0;
    check(lathe_plan_phases(get(), &phases));
    return phases;
  }
  size_t slice_workspace_bytes(int32_t workers) const {
    size_t bytes = 0;
    check(lathe_plan_slice_workspace_bytes(get(), workers, &bytes));
    return bytes;
  }
  void run_slice(const lathe_matmul_desc& desc, int32_t phase, int32_t worker, int32_t workers) const {
    check(lathe_plan_run_matmul_slice(get(), &desc, phase, worker, workers));
  }
  void run_slice(const lathe_argmax_desc& desc, int32_t phase, int32_t worker, int32_t workers) const {
    check(lathe_plan_run_argmax_slice(get(), &desc, phase, worker, workers));
  }
  void run_slice(const lathe_matmul_argmax_desc& desc, int32_t phase, int32_t worker, int32_t workers) const {
    check(lathe_plan_run_matmul_argmax_slice(get(), &desc, phase, worker, workers));
  }
  void run_slice(const lathe_elementwise_desc& desc, int32_t phase, int32_t worker, int32_t workers) const {
    check(lathe_plan_run_elementwise_slice(get(), &desc, phase, worker, workers));
  }

  // JSON; lathe_plan_explain documents it.
  std::string explain() const {
    internal::TextCollector text;
    return text.take_text(lathe_plan_explain(get(), internal::TextCollector::receive, &text));
  }
  // Pairs {stage, IR} in the order of the stages. `pipeline_yaml` null: the built-in pipeline.
  std::vector<std::pair<std::string, std::string>> dump(const char* pipeline_yaml = nullptr) const {
    internal::TextCollector text;
    return text.take(lathe_plan_dump(get(), pipeline_yaml, internal::TextCollector::receive, &text));
  }

 private:
  internal::Owner<lathe_plan, lathe_plan_destroy> plan_;
};

// Device memory. Destroy it before its device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(lathe_device* device, size_t bytes) : device_(device), bytes_(bytes) {
    check(lathe_device_alloc(device, bytes, &data_));
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) lathe_device_free(device_, data_);
  }

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

  // Copy `bytes` from or to host memory, in stream order. On a GPU the copy is done when synchronize(stream) returns.
  void upload(const void* from, size_t bytes, lathe_stream stream = nullptr) const {
    check(lathe_device_copy(device_, stream, data_, from, bytes, LATHE_COPY_TO_DEVICE));
  }
  void download(void* to, size_t bytes, lathe_stream stream = nullptr) const {
    check(lathe_device_copy(device_, stream, to, data_, bytes, LATHE_COPY_TO_HOST));
  }

 private:
  lathe_device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// A stream; null on the CPU. Destroy it before its device.
class Stream {
 public:
  explicit Stream(lathe_device* device) : device_(device) { check(lathe_stream_create(device, &stream_)); }
  Stream(Stream&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) lathe_stream_destroy(device_, stream_);
  }
  lathe_stream get() const { return stream_; }
  operator lathe_stream() const { return stream_; }
  void synchronize() const { check(lathe_stream_synchronize(device_, stream_)); }

 private:
  lathe_device* device_ = nullptr;
  lathe_stream stream_ = nullptr;
};

// A list of problem classes for a warm-up. Independent of devices.
class Manifest {
 public:
  Manifest() {
    lathe_manifest* manifest = nullptr;
    check(lathe_manifest_create(&manifest));
    manifest_ = internal::Owner<lathe_manifest, lathe_manifest_destroy>(manifest);
  }
  lathe_manifest* get() const { return manifest_.get(); }

  void parse(const std::string& text) { check(lathe_manifest_parse(get(), text.data(), text.size())); }
  void add(const lathe_matmul_desc& weight, int64_t m_max, const char* name = nullptr) {
    check(lathe_manifest_add_matmul(get(), name, &weight, m_max));
  }
  void add(const lathe_argmax_desc& rows, const char* name = nullptr) {
    check(lathe_manifest_add_argmax(get(), name, &rows));
  }
  void add(const lathe_grouped_matmul_desc& weight, int64_t m_max, const char* name = nullptr) {
    check(lathe_manifest_add_grouped_matmul(get(), name, &weight, m_max));
  }
  void add(const lathe_matmul_argmax_desc& weight, int64_t m_max, const char* name = nullptr) {
    check(lathe_manifest_add_matmul_argmax(get(), name, &weight, m_max));
  }
  void add(const lathe_elementwise_desc& op, const char* name = nullptr) {
    check(lathe_manifest_add_elementwise(get(), name, &op));
  }
  void note(const char* name, const char* value) { check(lathe_manifest_note(get(), name, value)); }
  // The text that parse() reads back.
  std::string text() const {
    internal::TextCollector text;
    return text.take_text(lathe_manifest_text(get(), internal::TextCollector::receive, &text));
  }

 private:
  internal::Owner<lathe_manifest, lathe_manifest_destroy> manifest_;
};

// An open device. Destroy it before its context.
class Device {
 public:
  explicit Device(lathe_device* device) : device_(device) {}
  lathe_device* get() const { return device_.get(); }

  void run(const lathe_matmul_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_matmul(get(), stream, &desc));
  }
  void run(const lathe_grouped_matmul_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_grouped_matmul(get(), stream, &desc));
  }
  void run(const lathe_argmax_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_argmax(get(), stream, &desc));
  }
  void run(const lathe_matmul_argmax_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_matmul_argmax(get(), stream, &desc));
  }
  void run(const lathe_elementwise_desc& desc, lathe_stream stream = nullptr) const {
    check(lathe_elementwise(get(), stream, &desc));
  }
  Plan plan(const lathe_matmul_desc& desc) const {
    lathe_plan* plan = nullptr;
    check(lathe_plan_matmul(get(), &desc, &plan));
    return Plan(plan);
  }
  Plan plan(const lathe_argmax_desc& desc) const {
    lathe_plan* plan = nullptr;
    check(lathe_plan_argmax(get(), &desc, &plan));
    return Plan(plan);
  }
  Plan plan(const lathe_matmul_argmax_desc& desc) const {
    lathe_plan* plan = nullptr;
    check(lathe_plan_matmul_argmax(get(), &desc, &plan));
    return Plan(plan);
  }
  Plan plan(const lathe_elementwise_desc& desc) const {
    lathe_plan* plan = nullptr;
    check(lathe_plan_elementwise(get(), &desc, &plan));
    return Plan(plan);
  }

  // JSON; lathe_plan_explain documents it. Nothing is compiled or loaded.
  std::string explain(const lathe_matmul_desc& desc) const {
    internal::TextCollector text;
    return text.take_text(lathe_explain_matmul(get(), &desc, internal::TextCollector::receive, &text));
  }
  std::string explain(const lathe_argmax_desc& desc) const {
    internal::TextCollector text;
    return text.take_text(lathe_explain_argmax(get(), &desc, internal::TextCollector::receive, &text));
  }
  std::string explain(const lathe_matmul_argmax_desc& desc) const {
    internal::TextCollector text;
    return text.take_text(lathe_explain_matmul_argmax(get(), &desc, internal::TextCollector::receive, &text));
  }
  std::string explain(const lathe_elementwise_desc& desc) const {
    internal::TextCollector text;
    return text.take_text(lathe_explain_elementwise(get(), &desc, internal::TextCollector::receive, &text));
  }

  // Calls lathe_warmup. If it throws, the classes that were prepared stay prepared.
  lathe_warmup_report warm(const Manifest& manifest,
                           const lathe_warmup_options& options = LATHE_WARMUP_OPTIONS_INIT) const {
    lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
    check(lathe_warmup(get(), manifest.get(), &options, &report));
    return report;
  }
  // Prepares the classes of one weight with M up to m_max; below, those of an argmax.
  template <typename Desc>
  lathe_warmup_report warm(const Desc& weight, int64_t m_max) const {
    Manifest manifest;
    manifest.add(weight, m_max);
    return warm(manifest);
  }
  lathe_warmup_report warm(const lathe_argmax_desc& rows) const {
    Manifest manifest;
    manifest.add(rows);
    return warm(manifest);
  }
  // Calls lathe_tune. If it throws, the records that were stored stay stored.
  lathe_tune_report tune(const Manifest& manifest,
                         const lathe_tune_options& options = LATHE_TUNE_OPTIONS_INIT) const {
    lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
    check(lathe_tune(get(), manifest.get(), &options, &report));
    return report;
  }
  // Tunes the class of one request.
  lathe_tune_report tune(const lathe_matmul_desc& desc,
                         const lathe_tune_options& options = LATHE_TUNE_OPTIONS_INIT) const {
    lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
    check(lathe_tune_matmul(get(), &desc, &options, &report));
    return report;
  }
  lathe_tune_report tune(const lathe_argmax_desc& desc,
                         const lathe_tune_options& options = LATHE_TUNE_OPTIONS_INIT) const {
    lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
    check(lathe_tune_argmax(get(), &desc, &options, &report));
    return report;
  }
  lathe_tune_report tune(const lathe_matmul_argmax_desc& desc,
                         const lathe_tune_options& options = LATHE_TUNE_OPTIONS_INIT) const {
    lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
    check(lathe_tune_matmul_argmax(get(), &desc, &options, &report));
    return report;
  }
  // The classes that warm() would prepare, each as JSON text.
  std::vector<std::string> classes(const Manifest& manifest) const {
    internal::TextCollector text;
    std::vector<std::string> classes;
    for (auto& piece :
         text.take(lathe_manifest_classes(get(), manifest.get(), internal::TextCollector::receive, &text))) {
      classes.push_back(std::move(piece.second));
    }
    return classes;
  }
  Buffer allocate(size_t bytes) const { return Buffer(get(), bytes); }
  Stream stream() const { return Stream(get()); }
  void synchronize(lathe_stream stream = nullptr) const { check(lathe_stream_synchronize(get(), stream)); }

  uint64_t fingerprint() const {
    uint64_t fingerprint = 0;
    check(lathe_device_fingerprint(get(), &fingerprint));
    return fingerprint;
  }

 private:
  internal::Owner<lathe_device, lathe_device_close> device_;
};

class Context {
 public:
  Context() : Context(lathe_context_options(LATHE_CONTEXT_OPTIONS_INIT)) {}
  // Initialise `options` with LATHE_CONTEXT_OPTIONS_INIT first.
  explicit Context(const lathe_context_options& options) {
    lathe_context* context = nullptr;
    check(lathe_context_create(&options, &context));
    context_ = internal::Owner<lathe_context, lathe_context_destroy>(context);
  }
  lathe_context* get() const { return context_.get(); }

  Device open(const std::string& name) const {
    lathe_device* device = nullptr;
    check(lathe_device_open(get(), name.c_str(), &device));
    return Device(device);
  }
  // A device that is only described: it can plan, explain and fill the cache, but not run. `target` "": the target in
  // the facts file.
  Device describe(const std::string& facts_path, const std::string& target = "") const {
    lathe_device* device = nullptr;
    check(
        lathe_device_describe(get(), facts_path.c_str(), target.empty() ? nullptr : target.c_str(), &device));
    return Device(device);
  }
  // JSON; lathe_devices documents it.
  std::string devices() const {
    internal::TextCollector text;
    return text.take_text(lathe_devices(get(), internal::TextCollector::receive, &text));
  }

  // Calls lathe_calibrate. If it throws, the result may still be in one of two files.
  lathe_calibrate_report calibrate(
      const lathe_calibrate_options& options = LATHE_CALIBRATE_OPTIONS_INIT) const {
    lathe_calibrate_report report = LATHE_CALIBRATE_REPORT_INIT;
    check(lathe_calibrate(get(), &options, &report));
    return report;
  }

  // Sets the policy for misses and the function that is told of them, as in lathe_context_set_miss. `callback` must not
  // throw.
  void set_miss(lathe_miss_policy policy, lathe_miss_fn callback = nullptr, void* user = nullptr) const {
    check(lathe_context_set_miss(get(), policy, callback, user));
  }
  // A payload read as a program: JSON; lathe_payload_inspect documents it.
  std::string inspect(const std::string& name, const std::string& payload) const {
    internal::TextCollector text;
    return text.take_text(lathe_payload_inspect(get(), name.c_str(), payload.data(), payload.size(),
                                                internal::TextCollector::receive, &text));
  }

  lathe_statistics statistics() const {
    lathe_statistics statistics = LATHE_STATISTICS_INIT;
    check(lathe_context_statistics(get(), &statistics));
    return statistics;
  }
  // The statistics in Prometheus' text format.
  std::string metrics() const {
    internal::TextCollector text;
    return text.take_text(lathe_context_metrics(get(), internal::TextCollector::receive, &text));
  }
  // JSON; lathe_cache_list documents it.
  std::string cache_list() const {
    internal::TextCollector text;
    return text.take_text(lathe_cache_list(get(), internal::TextCollector::receive, &text));
  }
  // Empties the disk cache. Returns the number of removed entries.
  uint64_t cache_clear() const {
    uint64_t removed = 0;
    check(lathe_cache_clear(get(), &removed));
    return removed;
  }
  // Copies a bundle's artifacts into the cache directory.
  lathe_bundle_report cache_import(const std::string& path) const {
    lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
    check(lathe_cache_import(get(), path.c_str(), &report));
    return report;
  }
  // Removes the least recently used entries until the rest takes at most `bytes`. Returns the number of removed
  // entries.
  uint64_t cache_prune(uint64_t bytes) const {
    uint64_t removed = 0;
    check(lathe_cache_prune(get(), bytes, &removed));
    return removed;
  }

 private:
  internal::Owner<lathe_context, lathe_context_destroy> context_;
};

// ---- Bundles

// Writes the contents of cache directories and bundles to the bundle `path`; either the whole file appears or none.
// `target` "": the entries of every target.
inline lathe_bundle_report write_bundle(const std::string& path, const std::vector<std::string>& sources,
                                        const std::string& target = "") {
  std::vector<const char*> paths;
  for (const std::string& source : sources) paths.push_back(source.c_str());
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  check(lathe_bundle_write(path.c_str(), paths.data(), paths.size(),
                           target.empty() ? nullptr : target.c_str(), &report));
  return report;
}
// JSON; lathe_bundle_list documents it.
inline std::string list_bundle(const std::string& path) {
  internal::TextCollector text;
  return text.take_text(lathe_bundle_list(path.c_str(), internal::TextCollector::receive, &text));
}

// ---- Packed weights

// A copy of a K by N weight in the layout that the device's kernels prefer, for every M. For a Linear weight [N, K],
// pass row_major(w, n, k).transposed(). Use matrix() as `b`. The original weight is no longer needed. Destroy a
// PackedWeight before its device.
class PackedWeight {
 public:
  // Packs `batch` weights that are weight.batch_stride apart. With a batch_stride of 0 there is one weight, which every
  // product of the batch uses.
  PackedWeight(const Device& device, const Matrix& weight, int64_t batch = 1) : matrix_(weight) {
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = 1;
    desc.n = weight.columns;
    desc.k = weight.rows;
    desc.batch = batch;
    desc.a.dtype = desc.b.dtype = weight.dtype;
    desc.d.dtype = LATHE_F32;
    desc.d.batch_stride = weight.columns;
    desc.b = weight.operand();
    size_t bytes = 0;
    check(lathe_packed_layout(device.get(), &desc, &matrix_.packed_layout, &bytes));
    memory_ = device.allocate(bytes);
    check(lathe_pack_weights(device.get(), &desc, matrix_.packed_layout, memory_.data(), bytes));
    matrix_.data = memory_.data();
    matrix_.leading_dimension = 0;
    const int64_t size = weight.dtype == LATHE_F32 ? 4 : weight.dtype == LATHE_I8 ? 1 : 2;
    if (weight.batch_stride != 0 && batch > 0)
      matrix_.batch_stride = static_cast<int64_t>(bytes) / batch / size;
  }
  const Matrix& matrix() const { return matrix_; }
  size_t bytes() const { return memory_.bytes(); }

 private:
  Matrix matrix_;
  Buffer memory_;
};

// ---- Calls

// d = program(inputs). m and n are the size of d; the program says how each input is laid out.
inline void elementwise(const Device& device, const Program& program, const std::vector<Matrix>& inputs,
                        const Matrix& d, const CallOptions& options = {}) {
  device.run(elementwise_desc(program.get(), inputs, d, options), options.stream);
}

// d = epilogue(a b). m and n are the size of d, k is the number of columns of a.
inline void matmul(const Device& device, const Matrix& a, const Matrix& b, const Matrix& d,
                   const Epilogue& epilogue = {}, const CallOptions& options = {}) {
  device.run(matmul_desc(a, b, d, epilogue, options), options.stream);
}

// The column of the maximum of each row of x.
template <typename Index>
void argmax(const Device& device, const Matrix& x, Index* indices, float* values = nullptr,
            const CallOptions& options = {}) {
  device.run(argmax_desc(x, indices, values, 0, options), options.stream);
}

// The column of the greatest logit of each row of a b.
template <typename Index>
void matmul_argmax(const Device& device, const Matrix& a, const Matrix& b, Index* indices,
                   const Logits& logits = {}, const CallOptions& options = {}) {
  device.run(matmul_argmax_desc(a, b, indices, logits, options), options.stream);
}

}  // namespace lathe
