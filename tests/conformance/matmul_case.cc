#include "matmul_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "case_limits.h"
#include "device.h"

namespace lathe::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const char* name_of(lathe_activation activation) {
  switch (activation) {
    case LATHE_ACTIVATION_RELU: return "relu";
    case LATHE_ACTIVATION_GELU: return "gelu";
    case LATHE_ACTIVATION_GELU_TANH: return "gelu_tanh";
    case LATHE_ACTIVATION_SILU: return "silu";
    case LATHE_ACTIVATION_SILU_CLAMPED: return "silu_clamped";
    case LATHE_ACTIVATION_CLAMP_PLUS_ONE: return "clamp_plus_one";
    default: return "none";
  }
}

}  // namespace

std::string MatmulCase::describe() const {
  std::ostringstream s;
  s << "matmul " << conformance::name_of(in);
  if (b != LATHE_DTYPE_NONE) s << " by " << conformance::name_of(b);
  if (scale_a || scale_b || has_zero_point || zero_b)
    s << " scales=" << scale_a << scale_b << " zero=" << (has_zero_point ? zero_point : 0)
      << " zero_b=" << zero_b;
  s << "->" << conformance::name_of(out) << " m=" << m << " n=" << n << " k=" << k << " batch=" << batch
    << " layout=" << (trans_a ? 't' : 'n') << (trans_b ? 't' : 'n') << " alpha=" << alpha << " beta=" << beta
    << " c=" << conformance::name_of(c) << "/" << static_cast<int>(c_mode)
    << " bias=" << conformance::name_of(bias) << " act=" << name_of(activation)
    << " residual=" << conformance::name_of(residual) << "/" << static_cast<int>(residual_mode)
    << (multiply ? " multiply" : "") << " determinism=" << determinism << " math=" << math
    << " split_k=" << split_k << " candidate=" << candidate << " padding=" << padding
    << (aligned_lines ? " aligned" : "") << " broadcast=" << broadcast_a << broadcast_b << broadcast_c
    << broadcast_residual << " misalign=" << misalign << " flush=" << (flush == Flush::kEnd ? "end" : "start")
    << " values=" << static_cast<int>(values);
  return s.str();
}

uint8_t* Operand::at(int64_t b, int64_t i, int64_t j) const {
  const int64_t inside = transposed ? j * leading_dimension + i : i * leading_dimension + j;
  return memory->data() +
         (b * batch_stride + inside) / elements_of(dtype) * static_cast<int64_t>(bytes_of(dtype));
}

lathe_operand Operand::operand() const {
  lathe_operand o = LATHE_OPERAND_INIT;
  o.data = memory->address();
  o.dtype = dtype;
  o.layout = transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  o.leading_dimension = leading_dimension;
  o.batch_stride = batch_stride;
  return o;
}

Operand MatmulRequest::make_operand(lathe_dtype dtype, bool transposed, int64_t rows, int64_t columns,
                                    bool broadcast, int64_t pad_extra) {
  Operand o;
  o.dtype = dtype;
  o.transposed = transposed;
  o.rows = rows;
  o.columns = columns;
  o.batch = broadcast ? std::min<int64_t>(1, case_.batch) : case_.batch;
  const int64_t lines = transposed ? columns : rows, line = transposed ? rows : columns;
  const int64_t piece = elements_of(dtype);  // 1, or the size of a block; lines start with whole blocks
  const int64_t step = case_.aligned_lines ? 16 : piece;
  const auto whole = [step](int64_t elements) { return (elements + step - 1) / step * step; };
  o.leading_dimension =
      (case_.aligned_lines ? whole(line) : line) + (case_.padding ? whole(case_.padding + pad_extra) : 0);
  // Leading dimension 0 means packed, and that is the value of a packed empty operand.
  o.batch_stride =
      broadcast || case_.batch <= 1 ? 0 : lines * o.leading_dimension + (case_.padding ? whole(3) : 0);
  // The last line has no padding; the guard page follows it.
  const bool empty = o.batch == 0 || lines == 0 || line == 0;
  const int64_t elements =
      empty ? 0 : (o.batch - 1) * o.batch_stride + (lines - 1) * o.leading_dimension + line;
  o.memory = std::make_unique<GuardedMemory>(static_cast<size_t>(elements / piece) * bytes_of(dtype),
                                             case_.flush, case_.misalign);
  if (piece > 1) {  // all scales are NaN
    std::memset(o.memory->data(), 0xff, o.memory->bytes());
    return o;
  }
  for (int64_t e = 0; e < elements; ++e) {
    store(dtype, kNan, o.memory->data() + e * static_cast<int64_t>(bytes_of(dtype)));
  }
  return o;
}

double MatmulRequest::draw(lathe_dtype dtype) {
  if (case_.values == Values::kSmallIntegers) return static_cast<double>(random_->between(-4, 4));
  if (dtype == LATHE_I8) return static_cast<double>(random_->between(-128, 127));
  return round_to(dtype, random_->normal());
}

std::vector<double> MatmulRequest::fill_blocks(const Operand& o) {
  for (int64_t b = 0; b < o.batch; ++b)
    draw_blocks({*reference::block_format(o.dtype), o.rows, o.columns,
                 [&](int64_t k, int64_t j) { return o.at(b, k, j); }},
                case_.values, random_, &b_terms_);
  return b_terms_.values;
}

std::vector<double> MatmulRequest::scale_values(int kind, int64_t channels,
                                                std::unique_ptr<GuardedMemory>* memory, lathe_scale* scale,
                                                const lathe_scale** where) {
  if (kind == 0) return {};
  const int64_t count = kind == 1 ? 1 : channels;
  *memory = std::make_unique<GuardedMemory>(static_cast<size_t>(count) * 4, case_.flush, case_.misalign);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    // With small integers the scales are powers of two, so that results stay exact.
    const double x = case_.values == Values::kSmallIntegers
                         ? std::ldexp(1.0, static_cast<int>(random_->between(-3, 3)))
                         : static_cast<float>(random_->normal() / 64);
    store(LATHE_F32, x, (*memory)->data() + i * 4);
    values.push_back(x);
  }
  (*memory)->write_protect();
  scale->data = (*memory)->address();
  scale->dtype = LATHE_F32;
  scale->granularity = kind == 1 ? LATHE_PER_TENSOR : LATHE_PER_CHANNEL;
  *where = scale;
  values.resize(static_cast<size_t>(channels), values[0]);
  return values;
}

void MatmulRequest::make_scales() {
  scale_a_values_ = scale_values(case_.scale_a, case_.m, &scale_a_memory_, &scale_a_, &desc_.a.scale);
  scale_b_values_ = scale_values(case_.scale_b, case_.n, &scale_b_memory_, &scale_b_, &desc_.b.scale);
}

// The reference multiplies the values relative to the zero points.
void MatmulRequest::make_zero_points() {
  if (case_.has_zero_point) {
    zero_memory_ = std::make_unique<GuardedMemory>(4, case_.flush, case_.misalign);
    store(LATHE_I32, case_.zero_point, zero_memory_->data());
    zero_memory_->write_protect();
    desc_.a.zero_point = zero_memory_->address();
    for (double& a : a_values_) a -= case_.zero_point;
  }
  if (!case_.zero_b) return;
  const int64_t count = case_.scale_b == 2 ? case_.n : 1;
  zero_b_memory_ =
      std::make_unique<GuardedMemory>(static_cast<size_t>(count) * 4, case_.flush, case_.misalign);
  for (int64_t j = 0; j < count; ++j)
    store(LATHE_I32, static_cast<double>(random_->between(-128, 127)), zero_b_memory_->data() + j * 4);
  for (size_t e = 0; e < b_values_.size(); ++e) {
    const auto column = static_cast<int64_t>(e) % case_.n;
    b_values_[e] -= load(LATHE_I32, zero_b_memory_->data() + (count == 1 ? 0 : column) * 4);
  }
  zero_b_memory_->write_protect();
  desc_.b.zero_point = zero_b_memory_->address();
}

// A or B of kEveryNumberInA and kEveryNumberInB.
std::vector<double> MatmulRequest::every_number(const Operand& o) const {
  std::vector<double> values;
  const bool of_a = &o == &a_, has_numbers = of_a == (case_.values == Values::kEveryNumberInA);
  for (int64_t e = 0; e < o.batch * o.rows * o.columns; ++e) {
    const int64_t row = e / o.columns % o.rows, column = e % o.columns;
    const auto code = static_cast<uint8_t>(e);
    const double number = load(o.dtype, &code);
    const bool is_one = of_a ? column == (7 * row + 3) % case_.k : row == (7 * column + 3) % case_.k;
    values.push_back(!has_numbers ? is_one : std::isfinite(number) ? number : 0);
  }
  return values;
}

std::vector<double> MatmulRequest::fill(const Operand& o) {
  if (reference::block_format(o.dtype) != nullptr) return fill_blocks(o);
  std::vector<double> values(static_cast<size_t>(o.batch * o.rows * o.columns));
  for (double& value : values) value = draw(o.dtype);
  const bool every = case_.values == Values::kEveryNumberInA || case_.values == Values::kEveryNumberInB;
  if (every && (&o == &a_ || &o == &b_)) values = every_number(o);
  if (case_.values == Values::kSpecial && !values.empty() && !is_integer(o.dtype)) {
    const double special[] = {kNan, kInfinity, -kInfinity, 0.0, -0.0};
    for (int i = 0; i < 2; ++i) {
      values[static_cast<size_t>(random_->below(static_cast<int64_t>(values.size())))] =
          round_to(o.dtype, special[random_->below(5)]);
    }
  }
  size_t next = 0;
  for (int64_t b = 0; b < o.batch; ++b) {
    for (int64_t i = 0; i < o.rows; ++i) {
      for (int64_t j = 0; j < o.columns; ++j) store(o.dtype, values[next++], o.at(b, i, j));
    }
  }
  return values;
}

MatmulRequest::MatmulRequest(const MatmulCase& c, Random* random)
    : case_(c),
      random_(random),
      desc_(LATHE_MATMUL_DESC_INIT),
      tuning_(LATHE_TUNING_INIT),
      workspace_(LATHE_WORKSPACE_INIT) {
  if (case_.c_mode == CMode::kInPlace) case_.c = case_.out;
  if (case_.residual_mode == ResidualMode::kInPlace) case_.residual = case_.out;
  a_ = make_operand(case_.in, case_.trans_a, case_.m, case_.k, case_.broadcast_a, 0);
  b_ = make_operand(case_.b == LATHE_DTYPE_NONE ? case_.in : case_.b, case_.trans_b, case_.k, case_.n,
                    case_.broadcast_b, 1);
  d_ = make_operand(case_.out, false, case_.m, case_.n, false, 2);
  a_values_ = fill(a_);
  b_values_ = fill(b_);
  a_.memory->write_protect();
  b_.memory->write_protect();

  desc_.m = case_.m;
  desc_.n = case_.n;
  desc_.k = case_.k;
  desc_.batch = case_.batch;
  desc_.a = a_.operand();
  desc_.b = b_.operand();
  desc_.d = d_.operand();
  make_scales();
  make_zero_points();
  desc_.determinism = case_.determinism;
  desc_.math = case_.math;
  lathe_epilogue& epilogue = desc_.epilogue;
  epilogue.alpha = case_.alpha;
  epilogue.beta = case_.beta;
  epilogue.activation = case_.activation;
  if (case_.c_mode == CMode::kInPlace) {
    c_values_ = fill(d_);
    desc_.c = desc_.d;
  } else if (case_.c_mode != CMode::kNone) {
    c_ = make_operand(case_.c, false, case_.m, case_.n, case_.broadcast_c, 3);
    if (case_.c_mode == CMode::kSeparate) c_values_ = fill(c_);
    c_.memory->write_protect();
    desc_.c = c_.operand();
  }
  if (case_.bias != LATHE_DTYPE_NONE) {
    const size_t element = bytes_of(case_.bias);
    bias_ =
        std::make_unique<GuardedMemory>(static_cast<size_t>(case_.n) * element, case_.flush, case_.misalign);
    for (int64_t j = 0; j < case_.n; ++j) {
      bias_values_.push_back(draw(case_.bias));
      if (case_.values == Values::kSpecial && j == case_.n / 2) bias_values_.back() = kInfinity;
      store(case_.bias, bias_values_.back(), bias_->data() + static_cast<size_t>(j) * element);
    }
    bias_->write_protect();
    epilogue.bias = bias_->address();
    epilogue.bias_dtype = case_.bias;
  }
  if (case_.residual_mode == ResidualMode::kInPlace) {
    residual_values_ = case_.c_mode == CMode::kInPlace ? c_values_ : fill(d_);
    epilogue.residual = desc_.d;
  } else if (case_.residual_mode == ResidualMode::kSeparate) {
    residual_ = make_operand(case_.residual, false, case_.m, case_.n, case_.broadcast_residual, 4);
    residual_values_ = fill(residual_);
    residual_.memory->write_protect();
    epilogue.residual = residual_.operand();
  }
  if (case_.residual_mode == ResidualMode::kNone) case_.multiply = false;
  if (case_.multiply) epilogue.combine = LATHE_COMBINE_MULTIPLY;
  pristine_d_.assign(d_.memory->data(), d_.memory->data() + d_.memory->bytes());
  set_tuning(case_.split_k, case_.candidate);
}

void MatmulRequest::set_tuning(int32_t split_k, int32_t candidate) {
  tuning_.split_k = split_k;
  tuning_.candidate = candidate;
  case_.split_k = split_k;
  case_.candidate = candidate;
  tuning_.next = workspace_.data ? reinterpret_cast<const lathe_chain*>(&workspace_) : nullptr;
  desc_.next = split_k || candidate ? reinterpret_cast<const lathe_chain*>(&tuning_) : tuning_.next;
}

void MatmulRequest::set_workspace(void* data, size_t bytes, uint32_t flags) {
  workspace_.flags = flags;
  workspace_.data = data;
  workspace_.bytes = bytes;
  set_tuning(case_.split_k, case_.candidate);
}

void MatmulRequest::reset_output() {
  std::copy(pristine_d_.begin(), pristine_d_.end(), d_.memory->data());
  d_.memory->publish();
}

bool MatmulRequest::inputs_unchanged() const {
  for (const Operand* o : {&a_, &b_, &c_, &residual_}) {
    if (o->memory && !o->memory->unchanged()) return false;
  }
  for (const auto* memory : {&bias_, &scale_a_memory_, &scale_b_memory_, &zero_memory_, &zero_b_memory_})
    if (*memory && !(*memory)->unchanged()) return false;
  return true;
}

testing::AssertionResult MatmulRequest::check() {
  if (expected_.empty()) compute_reference();
  d_.memory->fetch();
  int64_t wrong = 0;
  std::ostringstream first;
  const uint8_t* clean = d_.memory->data();  // everything before this pointer was verified
  const uint8_t* base = d_.memory->data();
  const auto gap_intact = [&](const uint8_t* until) {
    return std::equal(clean, until, pristine_d_.data() + (clean - base));
  };
  const size_t element = bytes_of(case_.out);
  for (int64_t b = 0; b < case_.batch; ++b) {
    for (int64_t i = 0; i < case_.m && case_.n > 0; ++i) {
      if (!gap_intact(d_.at(b, i, 0))) {
        return testing::AssertionFailure()
               << case_.describe() << ": padding of D was written before row " << i << " of batch " << b;
      }
      for (int64_t j = 0; j < case_.n; ++j) {
        const double got = load(case_.out, d_.at(b, i, j));
        const size_t e = static_cast<size_t>((b * case_.m + i) * case_.n + j);
        const double expected = expected_[e], bound = bound_[e];
        bool right = std::isnan(got) && nan_allowed_[e];
        if (std::isnan(expected)) {
          right = std::isnan(got);
        } else if (std::isinf(expected)) {
          right |= got == expected;
        } else if (!right) {
          right =
              got >= round_to(case_.out, expected - bound) && got <= round_to(case_.out, expected + bound);
        }
        if (right) continue;
        if (wrong++ < 3) {
          first << "\n  batch " << b << " (" << i << ", " << j << "): got " << got << ", expected "
                << expected << " within " << bound;
        }
      }
      clean = d_.at(b, i, case_.n - 1) + element;
    }
  }
  if (wrong) {
    return testing::AssertionFailure() << case_.describe() << ": " << wrong << " of " << expected_.size()
                                       << " elements are wrong" << first.str();
  }
  if (!gap_intact(base + d_.memory->bytes())) {
    return testing::AssertionFailure() << case_.describe() << ": padding of D was written after its last row";
  }
  if (!d_.memory->canaries_intact()) {
    return testing::AssertionFailure() << case_.describe() << ": memory around D was written";
  }
  if (!inputs_unchanged()) {
    return testing::AssertionFailure() << case_.describe() << ": an input, or memory around it, was written";
  }
  return testing::AssertionSuccess();
}

std::vector<uint8_t> MatmulRequest::output_row(int64_t i) const {
  d_.memory->fetch();
  return std::vector<uint8_t>(d_.at(0, i, 0), d_.at(0, i, case_.n - 1) + bytes_of(case_.out));
}

std::vector<uint8_t> MatmulRequest::output_bytes() const {
  d_.memory->fetch();
  std::vector<uint8_t> bytes;
  for (int64_t b = 0; b < case_.batch; ++b) {
    for (int64_t i = 0; i < case_.m && case_.n > 0; ++i) {
      bytes.insert(bytes.end(), d_.at(b, i, 0), d_.at(b, i, case_.n - 1) + bytes_of(case_.out));
    }
  }
  return bytes;
}

testing::AssertionResult MatmulRequest::run(lathe_device* device, lathe_stream stream) {
  if (leaves_out({case_.m, case_.n, case_.k, case_.batch})) return testing::AssertionSuccess();
  set_current_case(case_.describe());
  reset_output();
  lathe_status status = lathe_matmul(device, stream, &desc_);
  if (status == LATHE_OK && stream != nullptr) status = lathe_stream_synchronize(device, stream);
  if (status != LATHE_OK) {
    return testing::AssertionFailure()
           << case_.describe() << ": " << lathe_status_name(status) << ": " << lathe_last_error();
  }
  return check();
}

void set_whole_epilogue(MatmulCase* c, lathe_activation activation) {
  c->alpha = 0.25f;
  c->c_mode = activation == 2 ? CMode::kInPlace : CMode::kSeparate;
  c->beta = -0.5f;
  c->bias = LATHE_BF16;
  c->activation = activation;
  c->residual_mode = ResidualMode::kSeparate;
  c->residual = LATHE_F16;
  c->padding = activation % 2 ? 3 : 0;
  c->batch = 1 + activation % 2;
}

testing::AssertionResult is_batch_invariant(lathe_device* device, MatmulRequest* request,
                                            int64_t every_m_to) {
  const MatmulCase c = request->parameters();
  if (leaves_out({c.m, c.n, c.k, c.batch})) return testing::AssertionSuccess();
  std::vector<int64_t> sizes = {c.m};
  for (int64_t m = 1; m <= every_m_to; m += quick_or(7, 1)) sizes.push_back(m);
  for (int64_t m : {1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 32, 33, 64, 65, 100, 128, 129, 256, 257, 512, 513})
    if (m > every_m_to) sizes.push_back(m);
  std::vector<uint8_t> whole;
  for (int64_t m : sizes) {
    if (m > c.m) continue;
    request->reset_output();
    request->mutable_desc()->m = m;
    if (const lathe_status status = lathe_matmul(device, nullptr, request->desc()); status != LATHE_OK)
      return testing::AssertionFailure() << c.describe() << ", M " << m << ": " << lathe_last_error();
    if (whole.empty()) {
      if (const testing::AssertionResult right = request->check(); !right) return right;
      whole = request->output_bytes();
    }
    const size_t bytes = whole.size() / static_cast<size_t>(c.m) * static_cast<size_t>(m);
    if (std::memcmp(request->output_bytes().data(), whole.data(), bytes) != 0)
      return testing::AssertionFailure()
             << c.describe() << ": rows of M " << m << " differ from those of M " << c.m;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult run_case(lathe_device* device, const MatmulCase& c, Random* random) {
  return MatmulRequest(c, random).run(device);
}

}  // namespace lathe::conformance
