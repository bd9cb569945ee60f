// Descriptors with any fields must either be planned, explained and put into a manifest, or be rejected with
// a message. Two runs must give the same result. The devices are only described, so no pointer is
// dereferenced.
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/json.h"
#include "core/manifest.h"
#include "lathe/lathe.h"

namespace lathe::fuzz {
namespace {

// Reads the input byte by byte; returns zeros after its end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  uint8_t byte() { return at_ < end_ ? *at_++ : 0; }
  bool flag() { return (byte() & 1) != 0; }
  uint64_t whole() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  // Returns a small size, a size at which something changes, or any value.
  int64_t size() {
    static constexpr int64_t kEdges[] = {0,
                                         1,
                                         2,
                                         15,
                                         16,
                                         17,
                                         31,
                                         32,
                                         33,
                                         64,
                                         4096,
                                         51234,
                                         131071,
                                         131072,
                                         -1,
                                         INT32_MAX,
                                         INT64_MAX,
                                         INT64_MIN,
                                         int64_t{INT32_MAX} + 1};
    const uint8_t kind = byte();
    if (kind < 160) return kind;
    if (kind < 250) return kEdges[kind % (sizeof(kEdges) / sizeof(kEdges[0]))];
    return static_cast<int64_t>(whole());
  }
  // Returns a known enum value in most cases.
  int32_t pick(int known) {
    const uint8_t value = byte();
    return value < 240 ? value % known : static_cast<int>(value) - 248;
  }
  // Returns a pointer, usually distinct for each operand.
  void* pointer() {
    const uint8_t kind = byte();
    if (kind < 16) return nullptr;
    if (kind < 240) return reinterpret_cast<void*>((uint64_t{kind} << 36) + (kind % 3 == 0 ? byte() : 0));
    return reinterpret_cast<void*>(whole());
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// Writes any number to an enum field, as a C caller may.
template <typename E>
void put(E* field, int32_t value) {
  static_assert(sizeof(E) == sizeof(value));
  memcpy(field, &value, sizeof(value));
}

// What operands and chains point to during a call.
struct Storage {
  lathe_scale scales[2];
  lathe_workspace workspace;
  lathe_tuning tuning;
};

// Makes about half of the scales those of a format.
void read_block_scales(Bytes& in, lathe_scale* scale) {
  const uint8_t unusual = in.byte();
  if (unusual & 1) {
    scale->granularity = LATHE_PER_BLOCK;
    scale->block_size = int64_t{16} << in.byte() % 4;
  }
  if (unusual & 2) put(&scale->layout, in.pick(4));
  if (unusual & 4) scale->block_lines = unusual & 8 ? 128 : in.size();
  if (unusual & 16) scale->leading_dimension = in.size();
  if (unusual & 32) scale->batch_stride = in.size();
  if (unusual & 64) scale->global = static_cast<const float*>(in.pointer());
}

void read_operand(Bytes& in, lathe_operand* o, lathe_scale* scale) {
  o->data = in.pointer();
  put(&o->dtype, in.pick(34));
  put(&o->layout, in.pick(2));
  const uint8_t unusual = in.byte();
  if (unusual & 1) o->leading_dimension = in.size();
  if (unusual & 2) o->batch_stride = in.size();
  if (scale != nullptr && (unusual & 4)) {
    *scale = LATHE_SCALE_INIT;
    scale->data = in.pointer();
    put(&scale->dtype, in.pick(24));
    put(&scale->granularity, in.pick(3));
    scale->block_size = in.flag() ? in.size() : 0;
    read_block_scales(in, scale);
    o->scale = scale;
  }
  if (unusual & 8) o->zero_point = in.pointer();
  if (unusual & 16)
    o->packed_layout = in.flag() ? 0x10101u + in.byte() % 2 * 0x100 : static_cast<uint32_t>(in.whole());
  if (unusual == 32) o->struct_size = static_cast<size_t>(in.size());
  if (unusual == 64) o->reserved = in.byte();
}

const lathe_chain* read_chain(Bytes& in, Storage* storage) {
  const uint8_t kind = in.byte();
  const lathe_chain* chain = nullptr;
  if (kind & 1) {
    storage->tuning = LATHE_TUNING_INIT;
    storage->tuning.split_k = static_cast<int32_t>(in.size());
    storage->tuning.candidate = static_cast<int32_t>(in.size());
    if (kind & 16) storage->tuning.kind = in.byte();
    chain = reinterpret_cast<const lathe_chain*>(&storage->tuning);
  }
  if (kind & 2) {
    storage->workspace = LATHE_WORKSPACE_INIT;
    storage->workspace.data = in.pointer();
    storage->workspace.bytes = static_cast<size_t>(in.size());
    storage->workspace.next = chain;
    if (kind & 32) storage->workspace.struct_size = in.byte();
    chain = reinterpret_cast<const lathe_chain*>(&storage->workspace);
  }
  return chain;
}

// About half of the descriptors get consistent dtypes, because otherwise hardly any would be planned.
void read_desc(Bytes& in, Storage* storage, lathe_matmul_desc* d) {
  d->m = in.size(), d->n = in.size(), d->k = in.size();
  if (in.flag()) d->batch = in.size();
  lathe_operand* const operands[] = {&d->a, &d->b, &d->c, &d->d};
  for (int i = 0; i < 4; ++i) read_operand(in, operands[i], i < 2 ? &storage->scales[i] : nullptr);
  d->epilogue.alpha = static_cast<float>(in.byte()) / 16;
  d->epilogue.beta = static_cast<float>(in.byte() % 4) / 2;
  if (in.flag()) {
    d->epilogue.bias = in.pointer();
    put(&d->epilogue.bias_dtype, in.pick(4));
    put(&d->epilogue.activation, in.pick(5));
  }
  if (in.flag()) read_operand(in, &d->epilogue.residual, nullptr);
  if (in.flag()) {
    const int32_t dtype = in.pick(4);
    for (lathe_operand* o : {&d->a, &d->b, &d->d}) put(&o->dtype, dtype);
    d->c.layout = d->d.layout = LATHE_ROW_MAJOR;
  }
  put(&d->determinism, in.pick(3));
  put(&d->miss_policy, in.pick(4));
  put(&d->math, in.pick(3));
  put(&d->dependent_launch, in.pick(3));
  if (in.byte() == 1) d->m_device = static_cast<const int32_t*>(in.pointer());
  d->next = read_chain(in, storage);
}

void read_desc(Bytes& in, Storage* storage, lathe_argmax_desc* d) {
  d->rows = in.size(), d->n = in.size();
  read_operand(in, &d->x, &storage->scales[0]);
  d->indices = in.pointer();
  put(&d->index_dtype, in.flag() ? LATHE_I64 : in.pick(12));
  if (in.flag()) d->index_offset = in.size();
  d->values = static_cast<float*>(in.pointer());
  put(&d->determinism, in.pick(3));
  put(&d->miss_policy, in.pick(4));
  put(&d->dependent_launch, in.pick(3));
  d->next = read_chain(in, storage);
}

void read_desc(Bytes& in, Storage* storage, lathe_matmul_argmax_desc* d) {
  d->m = in.size(), d->n = in.size(), d->k = in.size();
  read_operand(in, &d->a, &storage->scales[0]);
  read_operand(in, &d->b, &storage->scales[1]);
  if (in.flag()) {
    d->bias = in.pointer();
    put(&d->bias_dtype, in.pick(4));
  }
  put(&d->logits_dtype, in.pick(4));
  if (in.flag()) {
    const int32_t dtype = in.pick(4);
    put(&d->a.dtype, dtype);
    put(&d->b.dtype, dtype);
  }
  d->indices = in.pointer();
  put(&d->index_dtype, in.flag() ? LATHE_I64 : in.pick(12));
  if (in.flag()) d->index_offset = in.size();
  d->values = static_cast<float*>(in.pointer());
  put(&d->determinism, in.pick(3));
  put(&d->miss_policy, in.pick(4));
  put(&d->math, in.pick(3));
  put(&d->dependent_launch, in.pick(3));
  d->next = read_chain(in, storage);
}

// Checks that the status is known and not INTERNAL, and that a failure has a message.
lathe_status checked(lathe_status status) {
  if (strcmp(lathe_status_name(status), "UNKNOWN_STATUS") == 0 || status == LATHE_INTERNAL) abort();
  if (status != LATHE_OK && *lathe_last_error() == 0) abort();
  return status;
}

void take(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

struct Devices {
  Devices() {
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.cache_dir = "";
    options.log = [](void*, lathe_log_level, const char*) {};
    if (lathe_context_create(&options, &context) != LATHE_OK) abort();
    const char* const facts[] = {"ryzen-7-5800u.json", "h200.json", "mi300x.json"};
    for (int i = 0; i < 3; ++i) {
      const std::string path = std::string(LATHE_FACTS_DIR) + "/" + facts[i];
      if (lathe_device_describe(context, path.c_str(), nullptr, &device[i]) != LATHE_OK) abort();
    }
  }
  lathe_context* context = nullptr;
  lathe_device* device[3] = {};
};

lathe_status plan_of(lathe_device* d, const lathe_matmul_desc* desc, lathe_plan** plan) {
  return lathe_plan_matmul(d, desc, plan);
}
lathe_status plan_of(lathe_device* d, const lathe_argmax_desc* desc, lathe_plan** plan) {
  return lathe_plan_argmax(d, desc, plan);
}
lathe_status plan_of(lathe_device* d, const lathe_matmul_argmax_desc* desc, lathe_plan** plan) {
  return lathe_plan_matmul_argmax(d, desc, plan);
}
lathe_status explain(lathe_device* d, const lathe_matmul_desc* desc, std::string* text) {
  return lathe_explain_matmul(d, desc, take, text);
}
lathe_status explain(lathe_device* d, const lathe_argmax_desc* desc, std::string* text) {
  return lathe_explain_argmax(d, desc, take, text);
}
lathe_status explain(lathe_device* d, const lathe_matmul_argmax_desc* desc, std::string* text) {
  return lathe_explain_matmul_argmax(d, desc, take, text);
}
lathe_status run(lathe_device* d, const lathe_matmul_desc* desc) { return lathe_matmul(d, nullptr, desc); }
lathe_status run(lathe_device* d, const lathe_argmax_desc* desc) { return lathe_argmax(d, nullptr, desc); }
lathe_status run(lathe_device* d, const lathe_matmul_argmax_desc* desc) {
  return lathe_matmul_argmax(d, nullptr, desc);
}
lathe_status note(lathe_manifest* m, const lathe_matmul_desc* desc, int64_t rows) {
  return lathe_manifest_add_matmul(m, "w", desc, rows);
}
lathe_status note(lathe_manifest* m, const lathe_argmax_desc* desc, int64_t) {
  return lathe_manifest_add_argmax(m, "w", desc);
}
lathe_status note(lathe_manifest* m, const lathe_matmul_argmax_desc* desc, int64_t rows) {
  return lathe_manifest_add_matmul_argmax(m, "w", desc, rows);
}

template <typename Desc>
std::string plan_and_explain(lathe_device* device, const Desc& desc) {
  lathe_plan* plan = nullptr;
  if (checked(plan_of(device, &desc, &plan)) != LATHE_OK) {
    if (plan != nullptr) abort();
    return lathe_last_error();
  }
  std::string text;
  if (checked(lathe_plan_explain(plan, take, &text)) != LATHE_OK || !parse_json(text, "explain").ok())
    abort();
  lathe_plan_destroy(plan);
  // The device is only described, so even a plan loads nothing, and both explanations must be equal.
  std::string unplanned;
  if (checked(explain(device, &desc, &unplanned)) != LATHE_OK || unplanned != text) abort();
  return text;
}

// A manifest must return what was added to it, and a device must list its classes or give a reason.
template <typename Desc>
void put_into_manifest(lathe_device* device, const Desc& desc, int64_t rows) {
  lathe_manifest* manifest = nullptr;
  if (checked(lathe_manifest_create(&manifest)) != LATHE_OK) abort();
  if (checked(note(manifest, &desc, rows)) == LATHE_OK) {
    std::string text, classes;
    if (checked(lathe_manifest_text(manifest, take, &text)) != LATHE_OK || !parse_manifest(text).ok())
      abort();
    if (checked(lathe_manifest_classes(device, manifest, take, &classes)) != LATHE_OK) abort();
  }
  lathe_manifest_destroy(manifest);
}

template <typename Desc>
void try_request(Bytes& in, lathe_device* device, Desc desc) {
  Storage storage;
  read_desc(in, &storage, &desc);
  const uint8_t unusual = in.byte();
  if (unusual == 1) desc.struct_size = static_cast<size_t>(in.size());
  const lathe_status ran = checked(run(device, &desc));
  if (ran == LATHE_OK) abort();  // a described device cannot run anything
  if (plan_and_explain(device, desc) != plan_and_explain(device, desc)) abort();
  put_into_manifest(device, desc, in.size() % 4096);
}

}  // namespace
}  // namespace lathe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe::fuzz;
  static const Devices devices;
  Bytes in(data, size);
  const uint8_t first = in.byte();
  lathe_device* const device = devices.device[first / 3 % 3];
  switch (first % 3) {
    case 0: {
      const lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
      try_request(in, device, desc);
      break;
    }
    case 1: {
      const lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
      try_request(in, device, desc);
      break;
    }
    default: {
      const lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
      try_request(in, device, desc);
    }
  }
  return 0;
}
