#include "gpu.h"

#include <lathe/lathe.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "product.h"
#include "statistics.h"

namespace lathe_ggml {
namespace {

constexpr size_t kAlignment = 256;

struct Gpu {
  std::string name;  // "Lathe-cuda:0"
  std::string description;
  lathe_context* context = nullptr;
  lathe_device* device = nullptr;
  lathe_stream stream = nullptr;
  ggml_backend_buffer_type buffers = {};
  ggml_backend_device ggml = {};

  std::mutex mutex;                   // guards the rest
  std::map<std::string, bool> known;  // whether the device has kernels for a class
  void* converted = nullptr;          // activations in the weight's dtype
  size_t converted_bytes = 0;
};

Gpu& of(ggml_backend_dev_t device) { return *static_cast<Gpu*>(device->context); }
Gpu& of(ggml_backend_buffer_t buffer) { return of(buffer->buft->device); }
Gpu& of(ggml_backend_t backend) { return *static_cast<Gpu*>(backend->context); }

bool succeeded(lathe_status status) {
  if (status != LATHE_OK) GGML_LOG_ERROR("lathe: %s\n", lathe_last_error());
  return status == LATHE_OK;
}

// ---- Buffers in the device's memory

// ggml's buffers have no way to report that a copy failed.
void copy(Gpu& gpu, void* to, const void* from, size_t bytes, lathe_copy_kind kind) {
  if (bytes == 0) return;
  lathe_status status = lathe_device_copy(gpu.device, gpu.stream, to, from, bytes, kind);
  if (status == LATHE_OK) status = lathe_stream_synchronize(gpu.device, gpu.stream);
  if (status != LATHE_OK) GGML_ABORT("lathe: a copy of %zu bytes failed: %s\n", bytes, lathe_last_error());
}

void fill(Gpu& gpu, char* to, uint8_t value, size_t bytes) {
  const std::vector<uint8_t> piece(std::min(bytes, size_t{1} << 24), value);
  for (size_t done = 0; done < bytes; done += piece.size())
    copy(gpu, to + done, piece.data(), std::min(piece.size(), bytes - done), LATHE_COPY_TO_DEVICE);
}

ggml_backend_buffer_i buffer_interface() {
  ggml_backend_buffer_i iface = {};
  iface.free_buffer = [](ggml_backend_buffer_t b) { lathe_device_free(of(b).device, b->context); };
  iface.get_base = [](ggml_backend_buffer_t b) { return b->context; };
  iface.memset_tensor = [](ggml_backend_buffer_t b, ggml_tensor* t, uint8_t value, size_t offset,
                           size_t size) { fill(of(b), static_cast<char*>(t->data) + offset, value, size); };
  iface.set_tensor = [](ggml_backend_buffer_t b, ggml_tensor* t, const void* data, size_t offset,
                        size_t size) {
    copy(of(b), static_cast<char*>(t->data) + offset, data, size, LATHE_COPY_TO_DEVICE);
  };
  iface.get_tensor = [](ggml_backend_buffer_t b, const ggml_tensor* t, void* data, size_t offset,
                        size_t size) {
    copy(of(b), data, static_cast<const char*>(t->data) + offset, size, LATHE_COPY_TO_HOST);
  };
  iface.clear = [](ggml_backend_buffer_t b, uint8_t value) {
    fill(of(b), static_cast<char*>(b->context), value, b->size);
  };
  return iface;
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
  void* memory = nullptr;
  if (!succeeded(lathe_device_alloc(of(type->device).device, std::max<size_t>(size, 1), &memory)))
    return nullptr;
  return ggml_backend_buffer_init(type, buffer_interface(), memory, size);
}

// ---- Operations

// Reads a product for a GPU, whose kernels multiply one dtype: activations in f32 are converted to the dtype of an f16
// or bf16 weight, as ggml's CPU backend does.
const char* read(const ggml_tensor* node, Product* product) {
  if (is_block_format(node->src[0]->type)) return "weights in blocks are left to the CPU";
  if (const char* why = read_product(node, product)) return why;
  product->desc.math = LATHE_MATH_STRICT;
  const bool converts = product->desc.a.dtype != product->desc.b.dtype;
  if (converts && ggml_get_op_params_i32(node, 0) == GGML_PREC_F32)
    return "f32 by another dtype without rounding";
  if (converts && product->desc.a.layout != LATHE_ROW_MAJOR) return "activations in f32 that are transposed";
  return nullptr;
}

// The product with its activations in the dtype of the weight, which `data` will hold.
lathe_matmul_desc converted(const lathe_matmul_desc& desc, void* data) {
  lathe_matmul_desc d = desc;
  d.a = LATHE_OPERAND_INIT;
  d.a.data = data;
  d.a.dtype = desc.b.dtype;
  d.a.batch_stride = desc.a.batch_stride == 0 ? 0 : desc.m * desc.k;
  return d;
}

// The program that converts f32 to `to`. Made once.
const lathe_program* conversion(lathe_dtype to) {
  const auto make = [](const std::string& dtype) {
    const std::string text = "{\"d\":\"" + dtype + "\",\"inputs\":[{\"dims\":\"bmn\",\"dtype\":\"f32\"}]," +
                             "\"nodes\":[[\"arith.truncf\",\"" + dtype + "\",0]],\"yield\":1}";
    lathe_program* program = nullptr;
    return succeeded(lathe_program_create(text.data(), text.size(), &program)) ? program : nullptr;
  };
  static const lathe_program *const f16 = make("f16"), *const bf16 = make("bf16");
  return to == LATHE_BF16 ? bf16 : f16;
}

// Makes gpu.converted at least `bytes` long.
lathe_status reserve(Gpu& gpu, size_t bytes) {
  if (bytes <= gpu.converted_bytes) return LATHE_OK;
  lathe_status status = lathe_stream_synchronize(gpu.device, gpu.stream);
  if (status == LATHE_OK) status = lathe_device_free(gpu.device, gpu.converted);
  if (status != LATHE_OK) return status;
  gpu.converted = nullptr, gpu.converted_bytes = 0;
  status = lathe_device_alloc(gpu.device, bytes, &gpu.converted);
  if (status == LATHE_OK) gpu.converted_bytes = bytes;
  return status;
}

lathe_status multiply(Gpu& gpu, const lathe_matmul_desc& desc) {
  if (desc.a.dtype == desc.b.dtype) return lathe_matmul(gpu.device, gpu.stream, &desc);
  const int64_t batch = desc.a.batch_stride == 0 ? 1 : desc.batch;
  const size_t elements = static_cast<size_t>(batch * desc.m * desc.k);
  if (const lathe_status status = reserve(gpu, elements * sizeof(ggml_fp16_t)); status != LATHE_OK)
    return status;
  const lathe_matmul_desc product = converted(desc, gpu.converted);
  if (elements > 0) {
    lathe_elementwise_desc convert = LATHE_ELEMENTWISE_DESC_INIT;
    convert.program = conversion(desc.b.dtype);
    convert.m = desc.m, convert.n = desc.k, convert.batch = batch;
    convert.inputs[0] = desc.a;
    convert.d = product.a;
    const lathe_status status = lathe_elementwise(gpu.device, gpu.stream, &convert);
    if (status != LATHE_OK) return status;
  }
  return lathe_matmul(gpu.device, gpu.stream, &product);
}

void drop(void*, const char*, const char*, size_t) {}

// Why the device cannot compute the operation; NULL if it can.
const char* refusal(Gpu& gpu, const ggml_tensor* op) {
  lathe_argmax_desc argmax;
  if (op->op == GGML_OP_ARGMAX) return read_argmax(op, &argmax);
  if (op->op != GGML_OP_MUL_MAT) return "not an operation of Lathe's GPUs";
  Product product;
  if (const char* why = read(op, &product)) return why;
  const lathe_matmul_desc& d = product.desc;
  const std::string text = std::to_string(d.b.dtype) + "." + std::to_string(d.a.layout) + "." +
                           std::to_string(d.b.layout) + " n" + std::to_string(d.n) + " k" +
                           std::to_string(d.k) + " batch" + std::to_string(d.batch > 1);
  const std::lock_guard<std::mutex> lock(gpu.mutex);
  const auto [known, added] = gpu.known.emplace(text, false);
  if (added) {
    const bool converts = d.a.dtype != d.b.dtype;
    const lathe_matmul_desc asked = converts ? converted(d, nullptr) : d;
    known->second = lathe_explain_matmul(gpu.device, &asked, drop, nullptr) == LATHE_OK;
  }
  return known->second ? nullptr : "Lathe has no kernel for it on this device";
}

bool compute_node(Gpu& gpu, const ggml_tensor* node) {
  if (node->op == GGML_OP_ARGMAX) {
    lathe_argmax_desc desc;
    const char* why = read_argmax(node, &desc);
    return why == nullptr && succeeded(lathe_argmax(gpu.device, gpu.stream, &desc));
  }
  Product product;
  return node->op == GGML_OP_MUL_MAT && read(node, &product) == nullptr &&
         succeeded(run_product(product, [&](const lathe_matmul_desc& d) { return multiply(gpu, d); }));
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph* graph) {
  Gpu& gpu = of(backend);
  const std::lock_guard<std::mutex> lock(gpu.mutex);
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* node = graph->nodes[i];
    const bool computed = (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 && !ggml_op_is_empty(node->op);
    if (computed && !compute_node(gpu, node)) return GGML_STATUS_FAILED;
  }
  return succeeded(lathe_stream_synchronize(gpu.device, gpu.stream)) ? GGML_STATUS_SUCCESS
                                                                     : GGML_STATUS_FAILED;
}

// ---- The device

ggml_guid guid = {0x6c, 0x61, 0x74, 0x68, 0x65, 0x2d, 0x67, 0x67,
                  0x6d, 0x6c, 0x2d, 0x67, 0x70, 0x75, 0x30, 0x31};

ggml_backend_t make_backend(ggml_backend_dev_t device, const char*) {
  ggml_backend_i iface = {};
  iface.get_name = [](ggml_backend_t b) { return of(b).name.c_str(); };
  iface.free = [](ggml_backend_t b) { delete b; };
  iface.graph_compute = compute;
  return new ggml_backend{&guid, iface, device, &of(device)};
}

ggml_backend_device_i device_interface() {
  ggml_backend_device_i iface = {};
  iface.get_name = [](ggml_backend_dev_t d) { return of(d).name.c_str(); };
  iface.get_description = [](ggml_backend_dev_t d) { return of(d).description.c_str(); };
  iface.get_memory = [](ggml_backend_dev_t, size_t* free, size_t* total) { *free = *total = 0; };
  iface.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
  iface.get_props = [](ggml_backend_dev_t d, ggml_backend_dev_props* properties) {
    *properties = {};
    properties->name = of(d).name.c_str(), properties->description = of(d).description.c_str();
    properties->type = GGML_BACKEND_DEVICE_TYPE_GPU;
  };
  iface.init_backend = make_backend;
  iface.get_buffer_type = [](ggml_backend_dev_t d) { return &of(d).buffers; };
  iface.supports_op = [](ggml_backend_dev_t d, const ggml_tensor* op) {
    if (ggml_op_is_empty(op->op)) return true;
    const char* why = refusal(of(d), op);
    count_refusal(op, why);
    return why == nullptr;
  };
  iface.supports_buft = [](ggml_backend_dev_t d, ggml_backend_buffer_type_t type) {
    return type == &of(d).buffers;
  };
  return iface;
}

// NULL if Lathe cannot open it.
ggml_backend_dev_t open(ggml_backend_reg_t reg, const std::string& name) {
  auto gpu = std::make_unique<Gpu>();
  gpu->name = "Lathe-" + name;
  gpu->description = std::string("Lathe ") + lathe_version() + " on " + name;
  if (lathe_context_create(nullptr, &gpu->context) != LATHE_OK ||
      lathe_device_open(gpu->context, name.c_str(), &gpu->device) != LATHE_OK ||
      lathe_stream_create(gpu->device, &gpu->stream) != LATHE_OK) {
    GGML_LOG_ERROR("lathe: LATHE_GGML_GPUS: %s: %s\n", name.c_str(), lathe_last_error());
    lathe_device_close(gpu->device);
    lathe_context_destroy(gpu->context);
    return nullptr;
  }
  gpu->ggml = {device_interface(), reg, gpu.get()};
  gpu->buffers.iface.get_name = [](ggml_backend_buffer_type_t t) { return of(t->device).name.c_str(); };
  gpu->buffers.iface.alloc_buffer = alloc_buffer;
  gpu->buffers.iface.get_alignment = [](ggml_backend_buffer_type_t) { return kAlignment; };
  gpu->buffers.device = &gpu->ggml;
  return &gpu.release()->ggml;
}

}  // namespace

const std::vector<ggml_backend_dev_t>& gpu_devices(ggml_backend_reg_t reg) {
  static const auto* const devices = [&] {
    auto* opened = new std::vector<ggml_backend_dev_t>;
    const char* const names = std::getenv("LATHE_GGML_GPUS");
    std::istringstream list(names == nullptr ? "" : names);
    for (std::string name; std::getline(list, name, ',');)
      if (ggml_backend_dev_t device = open(reg, name)) opened->push_back(device);
    return opened;
  }();
  return *devices;
}

}  // namespace lathe_ggml
