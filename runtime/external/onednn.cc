// oneDNN's matmul primitive on plain strides. Releases 2 and 3 create descriptors differently: 2 fills
// structs that the caller allocates, 3 allocates them. The declarations follow dnnl.h and dnnl_types.h.
// Objects are opaque, and functions return 0 on success.
#include "runtime/external/onednn.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/per_process.h"

namespace lathe::onednn {
namespace {

constexpr int kCpu = 1, kInOrder = 1;
constexpr int kOpenMp = 2, kSequential = 1;                                     // dnnl_version_t::cpu_runtime
constexpr int kSource = 1, kWeights = 33, kDestination = 17, kScratchpad = 80;  // DNNL_ARG_*
constexpr int kUserScratchpad = 1, kStrictMath = 0, kScratchpadDescription = 136;
constexpr int kAdd = 0x1fff0;
// DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1.
constexpr int post_op_operand(int major, int index) { return (major == 2 ? 16384 : 32768) * (index + 1) | 2; }

int type_of(DType t) {
  switch (t) {
    case DType::kBF16: return 2;
    case DType::kF32: return 3;
    case DType::kI32: return 4;
    case DType::kI8: return 5;
    default: return 0;
  }
}

// Sets the number of threads of this thread's next OpenMP region, and restores it. Other threads are not
// affected.
class OpenMpThreads {
 public:
  OpenMpThreads(const Functions& f, int count) : f_(f) {
    if (f_.set_threads == nullptr) return;
    before_ = f_.threads();
    if (before_ != count) f_.set_threads(count);
    changed_ = before_ != count;
  }
  ~OpenMpThreads() {
    if (changed_) f_.set_threads(before_);
  }

 private:
  const Functions& f_;
  int before_ = 0;
  bool changed_ = false;
};

// A memory descriptor in either release.
class Description {
 public:
  Description(const Functions& f, const std::vector<int64_t>& sizes, DType type,
              const std::vector<int64_t>& strides)
      : f_(f) {
    const auto dims = static_cast<int>(sizes.size());
    if (f.major == 2) {
      struct_.resize(4096 / sizeof(uint64_t));  // larger than release 2 needs
      status_ = f.init_by_strides(struct_.data(), dims, sizes.data(), type_of(type), strides.data());
    } else {
      status_ = f.create_with_strides(&made_, dims, sizes.data(), type_of(type), strides.data());
    }
  }
  Description(const Description&) = delete;
  ~Description() {
    if (made_ != nullptr) f_.description_destroy(made_);
  }
  const void* get() const { return made_ != nullptr ? made_ : struct_.data(); }
  int status() const { return status_; }

 private:
  const Functions& f_;
  std::vector<uint64_t> struct_;
  void* made_ = nullptr;
  int status_;
};

}  // namespace

// A primitive and the memory objects it runs with. Used by one thread at a time.
class Primitive {
 public:
  Primitive(const Functions& f, const Shape& shape) : f_(f), shape_(shape) {}
  Primitive(const Primitive&) = delete;
  ~Primitive() {
    for (void* memory : memories_) f_.memory_destroy(memory);
    if (primitive_ != nullptr) f_.primitive_destroy(primitive_);
    if (description_ != nullptr) f_.primitive_description_destroy(description_);
    if (attributes_ != nullptr) f_.attributes_destroy(attributes_);
    if (post_ops_ != nullptr) f_.post_ops_destroy(post_ops_);
  }
  const Shape& shape() const { return shape_; }

  // Returns 0 or oneDNN's status.
  int build(void* engine, const ProblemClass& c) {
    const Shape& s = shape_;
    const Description a = matrices(s.m, s.k, c.trans_a, s.lda, s.stride_a, c.a);
    const Description b = matrices(s.k, s.n, c.trans_b, s.ldb, s.stride_b, c.b);
    const Description d = matrices(s.m, s.n, 0, s.ldd, s.stride_d, c.d);
    const Description bias(f_, {1, s.n}, c.bias == DType::kNone ? DType::kF32 : c.bias, {s.n, 1});
    for (const Description* made : {&a, &b, &d, &bias})
      if (made->status() != 0) return made->status();
    if (int status = set_attributes(c, bias.get()); status != 0) return status;
    int status;
    if (f_.major == 2) {
      std::vector<uint64_t> operation(16384 / sizeof(uint64_t));  // larger than release 2 needs
      status = f_.matmul_init(operation.data(), a.get(), b.get(), nullptr, d.get());
      if (status == 0) status = f_.create2(&description_, operation.data(), attributes_, engine, nullptr);
    } else {
      status = f_.create3(&description_, engine, a.get(), b.get(), nullptr, d.get(), attributes_);
    }
    if (status == 0) status = f_.primitive_create(&primitive_, description_);
    if (status == 0) status = add(kSource, a.get(), engine);
    if (status == 0) status = add(kWeights, b.get(), engine);
    if (status == 0) status = add(kDestination, d.get(), engine);
    const void* scratch = f_.query_description(description_, kScratchpadDescription, 0);
    scratch_.resize((scratch != nullptr ? f_.description_bytes(scratch) : 0) + kLine);
    if (status == 0 && scratch != nullptr) status = add(kScratchpad, scratch, engine);
    if (status == 0 && bias_at_ >= 0) status = add(post_op_operand(f_.major, bias_at_), bias.get(), engine);
    if (bias_at_ >= 0) bias_.resize(static_cast<size_t>(s.n) * size_of(c.bias) + kLine);
    return status;
  }

  int execute(void* stream, const void* a, const void* b, void* d, const void* bias) {
    for (Argument& argument : arguments_) {
      const void* data = nullptr;
      switch (argument.index) {
        case kSource: data = a; break;
        case kWeights: data = b; break;
        case kDestination: data = d; break;
        case kScratchpad: {
          const uintptr_t at = reinterpret_cast<uintptr_t>(scratch_.data());
          data = scratch_.data() + ((at + kLine - 1) / kLine * kLine - at);
          break;
        }
        default:
          // Pass a padded copy, because release 2.6 reads whole vectors beyond the end of the bias.
          std::memcpy(bias_.data(), bias, bias_.size() - kLine);
          data = bias_.data();
      }
      if (int status = f_.memory_set(argument.memory, const_cast<void*>(data)); status != 0) return status;
    }
    const int status = f_.execute(primitive_, stream, static_cast<int>(arguments_.size()), arguments_.data());
    return status != 0 ? status : f_.stream_wait(stream);
  }

 private:
  static constexpr size_t kLine = 64;

  Description matrices(int64_t rows, int64_t columns, int32_t transposed, int64_t leading, int64_t stride,
                       DType type) const {
    const int64_t down = transposed ? 1 : leading, across = transposed ? leading : 1;
    if (shape_.batch > 1) return Description(f_, {shape_.batch, rows, columns}, type, {stride, down, across});
    return Description(f_, {rows, columns}, type, {down, across});
  }

  // The epilogue in Lathe's order: alpha * AB, + beta * D (which holds C), + bias.
  int set_attributes(const ProblemClass& c, const void* bias) {
    int status = f_.attributes_create(&attributes_);
    if (status == 0) status = f_.post_ops_create(&post_ops_);
    int count = 0;
    if (status == 0 && shape_.alpha != 1) {
      ++count;
      status = f_.major == 2 ? f_.append_eltwise2(post_ops_, 1, 0x7f, shape_.alpha, 0)
                             : f_.append_eltwise3(post_ops_, 0x26, shape_.alpha, 0);
    }
    if (status == 0 && c.c != DType::kNone) {
      ++count;
      status = f_.major == 2 ? f_.append_sum2(post_ops_, shape_.beta)
                             : f_.append_sum3(post_ops_, shape_.beta, 0, 0);
    }
    if (status == 0 && c.bias != DType::kNone) {
      bias_at_ = count++;
      status = f_.append_binary(post_ops_, kAdd, bias);
    }
    if (status == 0) status = f_.set_post_ops(attributes_, post_ops_);
    if (status == 0) status = f_.set_scratchpad(attributes_, kUserScratchpad);
    // Set explicitly, because the environment may have changed the default.
    if (status == 0) status = f_.set_math(attributes_, kStrictMath);
    return status;
  }

  int add(int index, const void* description, void* engine) {
    void* memory = nullptr;
    const int status = f_.memory_create(&memory, description, engine, nullptr);
    if (status != 0) return status;
    memories_.push_back(memory);
    arguments_.push_back({index, memory});
    return 0;
  }

  const Functions& f_;
  const Shape shape_;
  void *attributes_ = nullptr, *post_ops_ = nullptr, *description_ = nullptr, *primitive_ = nullptr;
  std::vector<void*> memories_;
  std::vector<Argument> arguments_;
  std::vector<char> scratch_, bias_;
  int bias_at_ = -1;
};

namespace {

class Matmul final : public ExternalCall {
 public:
  Matmul(const Functions& f, void* engine, void* stream, const ProblemClass& problem)
      : f_(f), engine_(engine), stream_(stream), problem_(problem) {}

  absl::Status run(const ArgumentBlock& args, const ExternalSite& site) override {
    if (absl::Status s = check_block(problem_, args); !s.ok()) return s;
    // Run the products of a batch one by one if they share A or B, because a primitive without a batch dimension is
    // faster, or if there is a bias, because release 2.6 reads it again for each product.
    const bool each =
        args.batch > 1 && (args.stride_a == 0 || args.stride_b == 0 || problem_.bias != DType::kNone);
    const Shape shape = {args.m,
                         args.n,
                         args.k,
                         each ? 1 : args.batch,
                         args.lda,
                         args.ldb,
                         args.ldd,
                         args.stride_a,
                         args.stride_b,
                         args.stride_d,
                         site.threads,
                         args.alpha,
                         problem_.c == DType::kNone ? 0.0f : args.beta};
    const OpenMpThreads threads(f_, site.threads);
    absl::StatusOr<std::unique_ptr<Primitive>> primitive = take(shape);
    if (!primitive.ok()) return primitive.status();
    copy_c_to_d(problem_, args);
    int status = 0;
    for (int64_t b = 0; b < (each ? args.batch : 1) && status == 0; ++b)
      status = (*primitive)
                   ->execute(stream_, at(args.a, b * args.stride_a, problem_.a),
                             at(args.b, b * args.stride_b, problem_.b),
                             at(args.d, b * args.stride_d, problem_.d), args.bias);
    if (status != 0) return failed_call(args, absl::StrCat("oneDNN's matmul failed with status ", status));
    give_back(*std::move(primitive));
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMostIdle = 64;
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<Primitive>> primitives;  // under mutex; the most recently used is last
  };

  static char* at(const void* p, int64_t elements, DType t) {
    return static_cast<char*>(const_cast<void*>(p)) + elements * static_cast<int64_t>(size_of(t));
  }

  // Returns a primitive that no thread uses, or a new one.
  absl::StatusOr<std::unique_ptr<Primitive>> take(const Shape& shape) {
    Idle& idle = idle_.get();
    {
      const std::lock_guard<std::mutex> lock(idle.mutex);
      auto& all = idle.primitives;
      const auto found =
          std::find_if(all.rbegin(), all.rend(), [&](const auto& p) { return p->shape() == shape; });
      if (found != all.rend()) {
        std::unique_ptr<Primitive> taken = std::move(*found);
        all.erase(std::next(found).base());
        return taken;
      }
    }
    auto made = std::make_unique<Primitive>(f_, shape);
    if (int status = made->build(engine_, problem_); status != 0)
      return absl::UnavailableError(absl::StrCat("oneDNN has no such matmul: status ", status));
    return made;
  }
  void give_back(std::unique_ptr<Primitive> primitive) {
    Idle& idle = idle_.get();
    const std::lock_guard<std::mutex> lock(idle.mutex);
    if (idle.primitives.size() == kMostIdle) idle.primitives.erase(idle.primitives.begin());
    idle.primitives.push_back(std::move(primitive));
  }

  const Functions& f_;
  void *const engine_, *const stream_;
  const ProblemClass problem_;
  PerProcess<Idle> idle_;
};

class OneDnn final : public ExternalLibrary {
 public:
  OneDnn(const Functions& f, std::string version, void* engine, void* stream)
      : f_(f), version_(std::move(version)), engine_(engine), stream_(stream) {}
  ~OneDnn() override {
    f_.stream_destroy(stream_);
    f_.engine_destroy(engine_);
  }

  std::string version() const override { return version_; }
  absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const ExternalCallFacts& facts) override {
    const ProblemClass& c = facts.problem;
    if (facts.routine != "matmul" || c.op != Op::kMatmul || c.b != c.a || type_of(c.a) == 0 ||
        type_of(c.d) == 0)
      return absl::UnavailableError(absl::StrCat("no routine ", facts.routine, " for this op"));
    return std::unique_ptr<ExternalCall>(std::make_unique<Matmul>(f_, engine_, stream_, c));
  }

 private:
  const Functions f_;
  const std::string version_;
  void *const engine_, *const stream_;
};

// Finds all functions. Returns "" or the name of the first one that is missing.
std::string resolve(const SharedObject& object, Functions* f) {
  std::string missing;
  const auto need = [&](const char* name, auto* function) { object.need(name, function, &missing); };
  if (f->major == 2) {
    need("dnnl_memory_desc_init_by_strides", &f->init_by_strides);
    need("dnnl_matmul_desc_init", &f->matmul_init);
    need("dnnl_primitive_desc_create", &f->create2);
    need("dnnl_post_ops_append_eltwise", &f->append_eltwise2);
    need("dnnl_post_ops_append_sum", &f->append_sum2);
  } else {
    need("dnnl_memory_desc_create_with_strides", &f->create_with_strides);
    need("dnnl_memory_desc_destroy", &f->description_destroy);
    need("dnnl_matmul_primitive_desc_create", &f->create3);
    need("dnnl_post_ops_append_eltwise", &f->append_eltwise3);
    need("dnnl_post_ops_append_sum", &f->append_sum3);
  }
  need("dnnl_engine_create", &f->engine_create);
  need("dnnl_engine_destroy", &f->engine_destroy);
  need("dnnl_stream_create", &f->stream_create);
  need("dnnl_stream_destroy", &f->stream_destroy);
  need("dnnl_stream_wait", &f->stream_wait);
  need("dnnl_primitive_attr_create", &f->attributes_create);
  need("dnnl_primitive_attr_destroy", &f->attributes_destroy);
  need("dnnl_primitive_attr_set_post_ops", &f->set_post_ops);
  need("dnnl_primitive_attr_set_scratchpad_mode", &f->set_scratchpad);
  need("dnnl_primitive_attr_set_fpmath_mode", &f->set_math);
  need("dnnl_post_ops_create", &f->post_ops_create);
  need("dnnl_post_ops_destroy", &f->post_ops_destroy);
  need("dnnl_post_ops_append_binary", &f->append_binary);
  need("dnnl_primitive_desc_destroy", &f->primitive_description_destroy);
  need("dnnl_primitive_desc_query_md", &f->query_description);
  need("dnnl_memory_desc_get_size", &f->description_bytes);
  need("dnnl_primitive_create", &f->primitive_create);
  need("dnnl_primitive_destroy", &f->primitive_destroy);
  need("dnnl_memory_create", &f->memory_create);
  need("dnnl_memory_destroy", &f->memory_destroy);
  need("dnnl_memory_set_data_handle", &f->memory_set);
  need("dnnl_primitive_execute", &f->execute);
  return missing;
}

}  // namespace
}  // namespace lathe::onednn

namespace lathe {

absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_onednn() {
  using namespace onednn;
  auto object = SharedObject::open({"libdnnl.so.3", "libdnnl.so.2"});
  if (!object.ok()) return object.status();
  const auto refuse = [&](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat(object->name(), why));
  };
  std::string missing;
  const Version* (*version_of)() = nullptr;
  object->need("dnnl_version", &version_of, &missing);
  if (!missing.empty()) return refuse(absl::StrCat(" has no ", missing));
  const Version& v = *version_of();
  const std::string version = absl::StrCat(v.major, ".", v.minor, ".", v.patch);
  if (v.major != 2 && v.major != 3)
    return refuse(absl::StrCat(" is version ", version, ", but Lathe supports only versions 2 and 3"));
  Functions f;
  f.major = v.major;
  if (missing = resolve(*object, &f); !missing.empty())
    return refuse(absl::StrCat(" ", version, " has no ", missing));
  if (v.cpu_runtime == kOpenMp) {
    // Found through the library, so that they belong to the OpenMP runtime it was linked with.
    f.set_threads = reinterpret_cast<void (*)(int)>(object->find("omp_set_num_threads"));
    f.threads = reinterpret_cast<int (*)()>(object->find("omp_get_max_threads"));
    if (f.set_threads == nullptr || f.threads == nullptr)
      return refuse(" does not give access to its OpenMP runtime");
  } else if (v.cpu_runtime != kSequential) {
    return refuse(" uses threads whose number cannot be set: its runtime is neither OpenMP nor sequential");
  }
  void *engine = nullptr, *stream = nullptr;
  if (const int status = f.engine_create(&engine, kCpu, 0); status != 0)
    return refuse(absl::StrCat(" cannot create an engine: status ", status));
  if (const int status = f.stream_create(&stream, engine, kInOrder); status != 0) {
    f.engine_destroy(engine);
    return refuse(absl::StrCat(" cannot create a stream: status ", status));
  }
  return std::unique_ptr<ExternalLibrary>(std::make_unique<OneDnn>(f, version, engine, stream));
}

}  // namespace lathe
