// The module lathe._core. lathe/__init__.py and lathe/_core.pyi describe what it offers.
#include <sys/mman.h>

#include <memory>
#include <optional>

#include "docs.h"
#include "process.h"
#include "request.h"

namespace lathe_python {
namespace {

using nb::literals::operator""_a;

void append_text(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

nb::object matmul(nb::handle a, nb::handle b, nb::handle out, nb::handle bias, nb::handle activation,
                  nb::handle residual, double alpha, double beta, nb::handle math, nb::handle determinism,
                  nb::handle a_scale, nb::handle b_scale) {
  MatmulRequest request(
      {a, b, out, bias, activation, residual, alpha, beta, math, determinism, false, a_scale, b_scale});
  run(request.target,
      [&](lathe_device* device, lathe_stream stream) { return lathe_matmul(device, stream, &request.desc); });
  return std::move(request.result);
}

nb::object grouped_matmul(nb::handle a, nb::handle b, nb::handle routing, nb::handle grouping,
                          nb::handle router_weights, nb::handle gate, nb::handle gate_layout, nb::handle bias,
                          nb::handle activation, double alpha, nb::handle math, nb::handle determinism,
                          nb::handle a_scale, nb::handle b_scale) {
  GroupedMatmulRequest request({a, b, routing, grouping, router_weights, gate, gate_layout, bias, activation,
                                alpha, math, determinism, a_scale, b_scale});
  run(request.target, [&](lathe_device* device, lathe_stream stream) {
    return lathe_grouped_matmul(device, stream, &request.desc);
  });
  return std::move(request.result);
}

void linear(nb::handle x, nb::handle weight, nb::handle bias, nb::handle out, nb::handle math) {
  LinearRequest request(x, weight, bias, out, math);
  run(request.target,
      [&](lathe_device* device, lathe_stream stream) { return lathe_matmul(device, stream, &request.desc); });
}

nb::object with_values(nb::object indices, nb::object values, bool want_values) {
  return want_values ? nb::object(nb::make_tuple(indices, values)) : std::move(indices);
}

nb::object argmax(nb::handle x, bool values) {
  ArgmaxRequest request(x, values);
  run(request.target,
      [&](lathe_device* device, lathe_stream stream) { return lathe_argmax(device, stream, &request.desc); });
  return with_values(std::move(request.indices), std::move(request.values), values);
}

nb::object matmul_argmax(nb::handle a, nb::handle b, nb::handle bias, nb::handle logits_dtype, bool values,
                         nb::handle math, nb::handle determinism) {
  ProductArguments arguments;
  arguments.a = a;
  arguments.b = b;
  arguments.bias = bias;
  arguments.math = math;
  arguments.determinism = determinism;
  MatmulArgmaxRequest request(arguments, logits_dtype, values);
  run(request.target, [&](lathe_device* device, lathe_stream stream) {
    return lathe_matmul_argmax(device, stream, &request.desc);
  });
  return with_values(std::move(request.indices), std::move(request.values), values);
}

// ---- Packed weights

void allocate(PackedWeight& packed, size_t bytes) {
  // Mapped memory is aligned to a page, and takes huge pages if the system has them. A size of 0 is no mapping.
  packed.bytes = bytes == 0 ? 1 : bytes;
  void* memory = mmap(nullptr, packed.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, packed.bytes, MADV_HUGEPAGE);
  packed.data = static_cast<char*>(memory);
}

PackedWeight* pack(nb::handle weight, nb::handle a_dtype, nb::handle math) {
  if (nb::isinstance<PackedWeight>(weight)) value_error("the weight is packed already");
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  WeightMemory memory;
  Target target;
  const WeightForm form = read_weight(target, desc.b, memory, weight);
  if (form.ndim == 1) value_error("a weight has two dimensions (K, N), or three with a batch");
  desc.n = form.n;
  desc.k = form.k;
  desc.batch = form.batch;
  desc.a.dtype = dtype_argument(a_dtype, block_of(desc.b.dtype).elements > 1 ? LATHE_F32 : desc.b.dtype);
  desc.d.dtype = LATHE_F32;
  desc.m = 1;
  desc.d.batch_stride = form.n;
  desc.math = math_of(math);
  if (math.is_none() && block_of(desc.b.dtype).elements > 1) desc.math = LATHE_MATH_INT8;
  if (form.batch > 1 && desc.b.batch_stride == 0) value_error("a packed batch needs distinct matrices");

  auto packed = std::make_unique<PackedWeight>();
  size_t bytes = 0;
  check(lathe_packed_layout(device(target.place()), &desc, &packed->layout, &bytes));
  allocate(*packed, bytes);
  run(target, [&](lathe_device* device, lathe_stream) {
    return lathe_pack_weights(device, &desc, packed->layout, const_cast<char*>(packed->data), bytes);
  });
  packed->n = form.n;
  packed->k = form.k;
  packed->batch = form.batch;
  packed->batched = form.ndim == 3;
  packed->dtype = desc.b.dtype;
  packed->a_dtype = desc.a.dtype;
  packed->math = desc.math;
  const Block block = block_of(desc.b.dtype);
  if (form.batch > 1)
    packed->batch_stride = static_cast<int64_t>(bytes) / form.batch / block.bytes * block.elements;
  return packed.release();  // Python owns it
}

// The packed bytes as an array that keeps the weight alive.
nb::ndarray<nb::numpy, int8_t> packed_data(nb::handle self) {
  const auto& packed = *nb::inst_ptr<PackedWeight>(self);
  return nb::ndarray<nb::numpy, int8_t>(const_cast<char*>(packed.data), {packed.bytes}, self);
}

// A PackedWeight over `data`, the bytes of a matrix that lathe.pack packed as `layout`. Not copied.
PackedWeight* packed_view(nb::handle data, uint32_t layout, int64_t n, int64_t k, const std::string& dtype,
                          const std::string& a_dtype, nb::handle math) {
  Target target;
  Array bytes;
  bytes.read(target, data, "data");
  auto packed = std::make_unique<PackedWeight>();
  packed->owner = nb::borrow(data);
  packed->n = n;
  packed->k = k;
  packed->dtype = dtype_of_name(dtype);
  packed->data = static_cast<const char*>(bytes.data);
  packed->layout = layout;
  packed->a_dtype = dtype_of_name(a_dtype);
  packed->math = math_of(math);

  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1;
  desc.n = n;
  desc.k = k;
  desc.a.dtype = packed->a_dtype;
  desc.b.dtype = packed->dtype;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.d.dtype = LATHE_F32;
  desc.math = packed->math;
  uint32_t expected = 0;
  check(lathe_packed_layout(device(target.place()), &desc, &expected, &packed->bytes));
  const int64_t size =
      bytes.ndim == 1 && bytes.stride[0] == 1 && bytes.dtype == LATHE_I8 ? bytes.shape[0] : -1;
  if (layout != expected || size != static_cast<int64_t>(packed->bytes))
    value_error("data is " + bytes.describe() + " in layout " + std::to_string(layout) +
                ", but this weight has " + std::to_string(packed->bytes) + " bytes in layout " +
                std::to_string(expected));
  return packed.release();
}

bool has_avx2() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2");
#else
  return true;  // not asked of other processors
#endif
}

void set_miss_policy(const std::string& name) {
  if (name == "block") return use_miss_policy(LATHE_MISS_BLOCK);
  if (name == "fallback") return use_miss_policy(LATHE_MISS_FALLBACK);
  if (name == "error") return use_miss_policy(LATHE_MISS_ERROR);
  value_error("the miss policy is '" + name + "', but must be 'block', 'fallback' or 'error'");
}

// ---- Plans and statistics

std::string explain(nb::handle a, nb::handle b, nb::handle out, nb::handle bias, nb::handle activation,
                    nb::handle residual, double alpha, double beta, nb::handle math, nb::handle determinism,
                    nb::handle a_scale, nb::handle b_scale, const std::string& op) {
  std::string json;
  ProductArguments arguments{a,    b,    out,         bias, activation, residual, alpha,
                             beta, math, determinism, true, a_scale,    b_scale};
  if (op == "argmax") {
    ArgmaxRequest request(a, false, true);
    check(lathe_explain_argmax(device(request.target.place()), &request.desc, append_text, &json));
  } else if (op == "matmul_argmax") {
    MatmulArgmaxRequest request(arguments, nb::none(), false);
    check(lathe_explain_matmul_argmax(device(request.target.place()), &request.desc, append_text, &json));
  } else if (op == "matmul") {
    MatmulRequest request(arguments);
    check(lathe_explain_matmul(device(request.target.place()), &request.desc, append_text, &json));
  } else {
    value_error("op is '" + op + "', but must be 'matmul', 'argmax' or 'matmul_argmax'");
  }
  return json;
}

nb::dict statistics() {
  lathe_statistics s = LATHE_STATISTICS_INIT;
  check(lathe_context_statistics(context(), &s));
  nb::dict result;
#define FIELD(name) result[#name] = s.name
  FIELD(dispatch_hits);
  FIELD(dispatch_misses);
  FIELD(memory_hits);
  FIELD(disk_hits);
  FIELD(compiles);
  FIELD(compile_failures);
  FIELD(disk_rejects);
  FIELD(compile_milliseconds);
  FIELD(compiler_load_milliseconds);
  FIELD(disk_load_milliseconds);
  FIELD(link_milliseconds);
  FIELD(artifact_bytes);
  FIELD(disk_bytes_read);
  FIELD(disk_bytes_written);
  FIELD(compiler_loaded);
  FIELD(fallback_runs);
  FIELD(bundle_hits);
  FIELD(evictions);
  FIELD(kernel_loads);
  FIELD(background_compiles);
  FIELD(background_refused);
  FIELD(background_waiting);
  FIELD(remote_hits);
  FIELD(remote_rejects);
#undef FIELD
  return result;
}

std::string calibrate(double seconds, const std::string& output) {
  lathe_calibrate_options options = LATHE_CALIBRATE_OPTIONS_INIT;
  if (!(seconds >= 0 && seconds <= 10)) value_error("seconds must be from 0 (the default, 6) to 10");
  options.nanoseconds = static_cast<uint64_t>(seconds * 1e9);
  options.output = output.empty() ? nullptr : output.c_str();
  std::string json;
  options.text = append_text;
  options.text_user = &json;
  lathe_context* used = context();
  lathe_status status;
  {
    Running running;
    status = lathe_calibrate(used, &options, nullptr);
  }
  check(status);
  close_devices();  // the next call opens a device with the new facts
  return json;
}

// ---- Warming up

struct Manifest {
  Manifest() { check(lathe_manifest_create(&manifest)); }
  ~Manifest() { lathe_manifest_destroy(manifest); }
  Manifest(const Manifest&) = delete;
  // Throws ValueError unless every weight lies on one device.
  void add(const std::string& weight, Place place) {
    if (first && !(place == this->place))
      value_error("weight '" + *first + "' is on " + device_name(this->place) + ", but '" + weight +
                  "' is on " + device_name(place) + ". Warm up one device after the other");
    if (!first) first = weight;
    this->place = place;
  }
  lathe_manifest* manifest = nullptr;
  Place place;                       // of the weights
  std::optional<std::string> first;  // a weight's name
};

void parse_manifest(Manifest& self, const std::string& text) {
  check(lathe_manifest_parse(self.manifest, text.data(), text.size()));
}

void add_matmul(Manifest& self, const std::string& name, int64_t m_max, nb::handle a, nb::handle b,
                nb::handle out, nb::handle bias, nb::handle activation, nb::handle residual, double alpha,
                double beta, nb::handle math, nb::handle determinism, nb::handle b_scale) {
  MatmulRequest request(
      {a, b, out, bias, activation, residual, alpha, beta, math, determinism, true, {}, b_scale});
  self.add(name, request.target.place());
  check(lathe_manifest_add_matmul(self.manifest, name.c_str(), &request.desc, m_max));
}

void add_matmul_argmax(Manifest& self, const std::string& name, int64_t m_max, nb::handle a, nb::handle b,
                       nb::handle bias, nb::handle math, nb::handle determinism) {
  ProductArguments arguments;
  arguments.a = a;
  arguments.b = b;
  arguments.bias = bias;
  arguments.math = math;
  arguments.determinism = determinism;
  arguments.describe_only = true;
  MatmulArgmaxRequest request(arguments, nb::none(), false);
  self.add(name, request.target.place());
  check(lathe_manifest_add_matmul_argmax(self.manifest, name.c_str(), &request.desc, m_max));
}

std::string manifest_text(const Manifest& self) {
  std::string text;
  check(lathe_manifest_text(self.manifest, append_text, &text));
  return text;
}

struct Progress {
  nb::object function;
  std::unique_ptr<nb::python_error> error;  // what the function raised
};

// Called on the warm-up's threads, one call at a time.
int32_t report_progress(void* user, const lathe_warmup_progress* progress) {
  auto& self = *static_cast<Progress*>(user);
  nb::gil_scoped_acquire gil;
  try {
    self.function(progress->done, progress->total, progress->name, progress->problem, progress->error);
    return 0;
  } catch (nb::python_error& error) {
    self.error = std::make_unique<nb::python_error>(std::move(error));
    return 1;
  }
}

// `on`: the name of a device. None: that of the weights.
nb::dict warmup(const Manifest& manifest, nb::object progress, nb::handle on) {
  Progress told{std::move(progress), nullptr};
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  if (!told.function.is_none()) {
    options.progress = report_progress;
    options.progress_user = &told;
  }
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  lathe_device* used =
      device(on.is_none() ? manifest.place : place_of_name(nb::cast<std::string>(nb::str(on))));
  lathe_status status;
  {
    Running running;
    status = lathe_warmup(used, manifest.manifest, &options, &report);
  }
  if (told.error) throw nb::python_error(std::move(*told.error));
  check(status);
  nb::dict result;
  result["classes"] = report.classes;
  result["compiled"] = report.compiled;
  result["loaded"] = report.loaded;
  result["present"] = report.present;
  result["milliseconds"] = report.milliseconds;
  return result;
}

nb::tuple weight_shape(const Weight& weight) {
  return weight.batched ? nb::make_tuple(weight.batch, weight.n, weight.k)
                        : nb::make_tuple(weight.n, weight.k);
}

void define_weights(nb::module_& module) {
  nb::class_<PackedWeight>(module, "PackedWeight",
                           "A weight from lathe.pack. It stands for b in every product.")
      .def_prop_ro(
          "N", [](const PackedWeight& w) { return w.n; }, "Outputs: columns of b.")
      .def_prop_ro(
          "K", [](const PackedWeight& w) { return w.k; }, "Inputs: rows of b.")
      .def_prop_ro(
          "shape", [](const PackedWeight& w) { return weight_shape(w); }, "(N, K), or (batch, N, K).")
      .def_prop_ro("dtype", [](const PackedWeight& w) { return dtype_name(w.dtype); })
      .def_prop_ro("a_dtype", [](const PackedWeight& w) { return dtype_name(w.a_dtype); })
      .def_prop_ro("math", [](const PackedWeight& w) { return math_name(w.math); })
      .def_prop_ro("nbytes", [](const PackedWeight& w) { return w.bytes; })
      .def_prop_ro("data", packed_data, "The packed bytes, as an int8 array over the same memory.")
      .def_prop_ro(
          "layout", [](const PackedWeight& w) { return w.layout; }, "Lathe's id of the packed layout.");
  nb::class_<QuantisedWeight>(
      module, "QuantisedWeight",
      "QuantisedWeight(buffer, dtype, shape)\n\nA weight in the form of a GGUF file: N rows "
      "of K elements in whole blocks. It stands for b in every product, and no byte is "
      "copied.\n\nbuffer: bytes-like, kept alive. dtype: \"q4_k\", \"q8_0\", ... or a "
      "float dtype's name. shape: (N, K), or (batch, N, K).\nRaises ValueError if the size "
      "of the buffer does not match.")
      .def(nb::init<nb::object, const std::string&, nb::tuple>(), "buffer"_a, "dtype"_a, "shape"_a)
      .def_prop_ro(
          "N", [](const QuantisedWeight& w) { return w.n; }, "Outputs: columns of b.")
      .def_prop_ro(
          "K", [](const QuantisedWeight& w) { return w.k; }, "Inputs: rows of b.")
      .def_prop_ro(
          "shape", [](const QuantisedWeight& w) { return w.shape; },
          "(N, K), or the shape that it was given.")
      .def_prop_ro("dtype", [](const QuantisedWeight& w) { return w.dtype_text; })
      .def_prop_ro("nbytes", [](const QuantisedWeight& w) { return w.bytes; })
      .def_prop_ro(
          "data", [](const QuantisedWeight& w) { return w.buffer; }, "The buffer that was given.");
  nb::class_<Scales>(module, "Scales", kScalesDoc)
      .def(nb::init<nb::object, const std::string&, bool, nb::object>(), "array"_a, "format"_a, nb::kw_only(),
           "tiled"_a = false, "global_scale"_a = nb::none())
      .def_prop_ro(
          "array", [](const Scales& s) { return s.array; }, "The scales that were given.")
      .def_prop_ro("format", [](const Scales& s) { return s.format->name; })
      .def_prop_ro("elements_per_byte", [](const Scales& s) { return s.format->per_byte(); });
}

}  // namespace

NB_MODULE(_core, module) {
  import_numpy();
  nb::set_leak_warnings(false);  // a model may live until the process ends
  define_weights(module);
  module.def("matmul", matmul, "a"_a.none(), "b"_a.none(), nb::kw_only(), "out"_a = nb::none(),
             "bias"_a = nb::none(), "activation"_a = nb::none(), "residual"_a = nb::none(), "alpha"_a = 1.0,
             "beta"_a = 0.0, "math"_a = nb::none(), "determinism"_a = nb::none(), "a_scale"_a = nb::none(),
             "b_scale"_a = nb::none(), nb::sig(kMatmulSignature), kMatmulDoc);
  module.def("grouped_matmul", grouped_matmul, "a"_a.none(), "b"_a.none(), "routing"_a.none(), nb::kw_only(),
             "grouping"_a = nb::none(), "router_weights"_a = nb::none(), "gate"_a = nb::none(),
             "gate_layout"_a = nb::none(), "bias"_a = nb::none(), "activation"_a = nb::none(),
             "alpha"_a = 1.0, "math"_a = nb::none(), "determinism"_a = nb::none(), "a_scale"_a = nb::none(),
             "b_scale"_a = nb::none(), nb::sig(kGroupedMatmulSignature), kGroupedMatmulDoc);
  module.def("argmax", argmax, "x"_a.none(), nb::kw_only(), "values"_a = false, nb::sig(kArgmaxSignature),
             kArgmaxDoc);
  module.def("matmul_argmax", matmul_argmax, "a"_a.none(), "b"_a.none(), nb::kw_only(), "bias"_a = nb::none(),
             "logits_dtype"_a = nb::none(), "values"_a = false, "math"_a = nb::none(),
             "determinism"_a = nb::none(), nb::sig(kMatmulArgmaxSignature), kMatmulArgmaxDoc);
  module.def("pack", pack, "weight"_a.none(), nb::kw_only(), "a_dtype"_a = nb::none(), "math"_a = nb::none(),
             nb::sig(kPackSignature), kPackDoc);
  module.def("explain", explain, "a"_a.none(), "b"_a = nb::none(), "out"_a = nb::none(),
             "bias"_a = nb::none(), "activation"_a = nb::none(), "residual"_a = nb::none(), "alpha"_a = 1.0,
             "beta"_a = 0.0, "math"_a = nb::none(), "determinism"_a = nb::none(), "a_scale"_a = nb::none(),
             "b_scale"_a = nb::none(), "op"_a = "matmul");
  module.def("statistics", statistics, nb::sig(kStatisticsSignature), kStatisticsDoc);
  module.def("calibrate", calibrate, "seconds"_a, "output"_a);
  nb::class_<Manifest>(module, "Manifest")
      .def(nb::init<>())
      .def("parse", parse_manifest, "text"_a)
      .def("add_matmul", add_matmul, "name"_a, "m_max"_a, "a"_a, "b"_a, "out"_a = nb::none(),
           "bias"_a = nb::none(), "activation"_a = nb::none(), "residual"_a = nb::none(), "alpha"_a = 1.0,
           "beta"_a = 0.0, "math"_a = nb::none(), "determinism"_a = nb::none(), "b_scale"_a = nb::none())
      .def("add_matmul_argmax", add_matmul_argmax, "name"_a, "m_max"_a, "a"_a, "b"_a, "bias"_a = nb::none(),
           "math"_a = nb::none(), "determinism"_a = nb::none())
      .def("text", manifest_text);
  module.def("warmup", warmup, "manifest"_a, "progress"_a = nb::none(), "device"_a = nb::none());
  // For lathe.torch.
  module.def("linear", linear, "x"_a, "weight"_a, "bias"_a.none(), "out"_a, "math"_a.none());
  module.def("packed_view", packed_view, "data"_a, "layout"_a, "n"_a, "k"_a, "dtype"_a, "a_dtype"_a,
             "math"_a.none());
  module.def("use_openmp", use_openmp, "library"_a, "workers"_a);
  module.def("has_avx2", has_avx2);
  module.def("set_miss_policy", set_miss_policy, "policy"_a, nb::sig(kSetMissPolicySignature),
             kSetMissPolicyDoc);
  module.def("version", lathe_version);
  module.def("close_devices", close_devices);
  module.def("forget_devices", forget_devices);
}

}  // namespace lathe_python
