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
    default: return "none";
  }
}

double activate(lathe_activation activation, double x) {
  switch (activation) {
    case LATHE_ACTIVATION_RELU: return std::isnan(x) ? x : x > 0 ? x : 0;
    case LATHE_ACTIVATION_GELU: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case LATHE_ACTIVATION_GELU_TANH:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case LATHE_ACTIVATION_SILU: return x / (1 + std::exp(-x));
    default: return x;
  }
}

bool is_smooth(lathe_activation activation) {
  return activation != LATHE_ACTIVATION_NONE && activation != LATHE_ACTIVATION_RELU;
}

// For one matrix: sums[i][j] = sum_k a b and magnitudes[i][j] = sum_k |a b|.
void multiply(const double* a, const double* b, int64_t m, int64_t n, int64_t k, double* sums,
              double* magnitudes) {
  std::fill(sums, sums + m * n, 0.0);
  std::fill(magnitudes, magnitudes + m * n, 0.0);
  constexpr int64_t kDepth = 64;  // rows of B that stay in the cache for all rows of A
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    for (int64_t i = 0; i < m; ++i) {
      double* sum = sums + i * n;
      double* magnitude = magnitudes + i * n;
      for (int64_t p = p0; p < std::min(k, p0 + kDepth); ++p) {
        const double x = a[i * k + p];
        const double* row = b + p * n;
        for (int64_t j = 0; j < n; ++j) {
          sum[j] += x * row[j];
          magnitude[j] += std::fabs(x * row[j]);
        }
      }
    }
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
    << " determinism=" << determinism << " math=" << math << " split_k=" << split_k
    << " candidate=" << candidate << " padding=" << padding << (aligned_lines ? " aligned" : "")
    << " broadcast=" << broadcast_a << broadcast_b << broadcast_c << broadcast_residual
    << " misalign=" << misalign << " flush=" << (flush == Flush::kEnd ? "end" : "start")
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

bool MatmulRequest::rounds_to_bytes() const {
  const cli::BlockFormat* blocks = cli::block_format(case_.b);
  return blocks != nullptr && case_.math == LATHE_MATH_INT8;
}

// Block formats are those of src/reference, which shares no code with the library.
std::vector<double> MatmulRequest::fill_blocks(const Operand& o) {
  const cli::BlockFormat& f = *cli::block_format(o.dtype);
  std::vector<double> values(static_cast<size_t>(o.batch * o.rows * o.columns));
  b_products_.resize(values.size()), b_minima_.resize(values.size());
  const bool whole = case_.values == Values::kSmallIntegers;
  const double special[] = {kNan, kInfinity, -kInfinity, 0.0, -0.0};
  for (int64_t b = 0; b < o.batch; ++b) {
    for (int64_t j = 0; j < o.columns; ++j) {
      for (int64_t k = 0; k < o.rows; k += f.elements) {
        uint8_t* block = o.at(b, k, j);
        double scale = whole ? random_->between(1, 2) * 0.5 : round_to(LATHE_F16, random_->normal() / 8);
        if (case_.values == Values::kSpecial && random_->below(50) == 0)
          scale = round_to(LATHE_F16, special[random_->below(5)]);
        f.store_scales(block, scale, random_->next(), whole);
        for (int64_t i = 0; i < f.elements; ++i) {
          f.store(block, i, random_->below(f.codes));
          const auto at = static_cast<size_t>((b * o.rows + k + i) * o.columns + j);
          const cli::BlockParts parts = f.split(block, i);
          values[at] = f.load(block, i);
          b_products_[at] = parts.product;
          b_minima_[at] = parts.minimum;
        }
      }
    }
  }
  return values;
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
  if (cli::block_format(o.dtype) != nullptr) return fill_blocks(o);
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

bool MatmulRequest::is_exact() const {
  return case_.out == LATHE_I32 ||
         (case_.values == Values::kSmallIntegers && !is_smooth(case_.activation) && !rounds_to_bytes());
}

double product_error(int64_t k, lathe_dtype a, lathe_dtype b, lathe_math math) {
  if (a == LATHE_I8) return 0;
  const double length = static_cast<double>(k) + 4;
  double part = std::min(length, 6 * std::sqrt(length)) * kUnitRoundoff;
  if (a == LATHE_F32 && math == LATHE_MATH_TF32) part += 0x1p-9;
  if (a == LATHE_F32 && b == LATHE_BF16 && math == LATHE_MATH_BF16) part += 0x1p-8;
  if (bytes_of(a) == 1) part += 0x1p-10;
  return part;
}

namespace {

// A block of a row of A as ggml's CPU backend rounds it on x86 (quantize_row_q8_0, q8_1 and q8_K in its quants.c): bytes,
// their scale, and what a minimum of the whole block is multiplied by.
struct RoundedBlock {
  std::vector<int> bytes;
  double scale = 0, sum = 0;
};
RoundedBlock round_block(const double* a, const cli::BlockFormat& f) {
  RoundedBlock r;
  float most = 0;
  for (int64_t i = 0; i < f.elements; ++i) most = std::max(most, std::fabs(static_cast<float>(a[i])));
  const float inverse = most == 0 ? 0 : 127.0f / most;
  int total = 0;
  for (int64_t i = 0; i < f.elements; ++i) {
    const float quotient = static_cast<float>(a[i]) * inverse;
    r.bytes.push_back(static_cast<int>(std::nearbyint(quotient)));
    total += r.bytes.back();
  }
  const float scale = f.halves_a_scale ? most / 127.0f : most == 0 ? 0 : 1.0f / inverse;
  r.scale = f.halves_a_scale ? round_to(LATHE_F16, scale) : scale;
  r.sum = f.halves_a_scale ? round_to(LATHE_F16, scale * static_cast<float>(total)) : r.scale * total;
  return r;
}

}  // namespace

void MatmulRequest::multiply_rounded(int64_t batch, std::vector<double>* sums,
                                     std::vector<double>* magnitudes) const {
  const int64_t m = case_.m, n = case_.n, k = case_.k;
  const cli::BlockFormat& f = *cli::block_format(case_.b);
  const double* a = a_values_.data() + (case_.broadcast_a ? 0 : batch * m * k);
  const int64_t b = case_.broadcast_b ? 0 : batch * k * n;
  std::fill(sums->begin(), sums->end(), 0.0);
  std::fill(magnitudes->begin(), magnitudes->end(), 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k0 = 0; k0 < k; k0 += f.elements) {
      const RoundedBlock block = round_block(a + i * k + k0, f);
      double* sum = sums->data() + i * n;
      double* magnitude = magnitudes->data() + i * n;
      for (int64_t p = 0; p < f.elements; ++p) {
        const double x = block.scale * block.bytes[static_cast<size_t>(p)];
        // A block of 32 has one minimum, which multiplies the rounded sum.
        const double of_minimum = !f.halves_a_scale ? x : p == 0 ? block.sum : 0;
        const double* products = b_products_.data() + b + (k0 + p) * n;
        const double* minima = b_minima_.data() + b + (k0 + p) * n;
        for (int64_t j = 0; j < n; ++j) {
          sum[j] += x * products[j] + of_minimum * minima[j];
          magnitude[j] += std::fabs(x * products[j]) + std::fabs(of_minimum * minima[j]);
        }
      }
    }
  }
}

std::vector<double> MatmulRequest::error_of_rounding(int64_t batch) const {
  const int64_t m = case_.m, n = case_.n, k = case_.k;
  const cli::BlockFormat& f = *cli::block_format(case_.b);
  std::vector<double> half(static_cast<size_t>(m * k)), weights, unused(static_cast<size_t>(m * n)),
      error = unused;
  const double* a = a_values_.data() + (case_.broadcast_a ? 0 : batch * m * k);
  // f16 scales, and the sums by which minima are multiplied, are off by 2^-11, or by half of the smallest subnormal.
  const double u = kUnitRoundoff, of_halves = f.halves_a_scale ? 0x1p-10 : 0,
               least = of_halves ? 127 * 0x1p-24 : 0;
  for (int64_t at = 0; at < m * k; at += f.elements) {  // K is whole blocks, so no block crosses a row
    double most = 0;
    for (int64_t i = at; i < at + f.elements; ++i) most = std::max(most, std::fabs(a[i]));
    std::fill(half.begin() + at, half.begin() + at + f.elements,
              most * (0.5 / 127 + of_halves + 8 * u) + least);
  }
  const auto b = static_cast<size_t>(case_.broadcast_b ? 0 : batch * k * n);
  for (size_t at = b; at < b + static_cast<size_t>(k * n); ++at)
    weights.push_back(std::fabs(b_products_[at]) + std::fabs(b_minima_[at]));
  multiply(half.data(), weights.data(), m, n, k, unused.data(), error.data());
  return error;
}

void MatmulRequest::compute_reference() {
  const int64_t m = case_.m, n = case_.n, k = case_.k;
  const size_t count = static_cast<size_t>(case_.batch * m * n);
  expected_.resize(count);
  bound_.resize(count);
  nan_allowed_.resize(count);
  std::vector<double> sums(static_cast<size_t>(m * n)), magnitudes(static_cast<size_t>(m * n));
  std::vector<double> rounded;  // the error allowed for rounding A to bytes
  const double growth = product_error(k, case_.in, case_.b, case_.math), u = kUnitRoundoff;
  const auto matrix = [m, n](const std::vector<double>& values, int64_t b) {
    return values.size() > static_cast<size_t>(m * n) ? values.data() + b * m * n : values.data();
  };
  for (int64_t b = 0; b < case_.batch; ++b) {
    if (b == 0 || !case_.broadcast_a || !case_.broadcast_b) {
      multiply(a_values_.data() + (case_.broadcast_a ? 0 : b * m * k),
               b_values_.data() + (case_.broadcast_b ? 0 : b * k * n), m, n, k, sums.data(),
               magnitudes.data());
    }
    if (rounds_to_bytes() && rounds_a_) multiply_rounded(b, &sums, &magnitudes);
    if (rounds_to_bytes() && !rounds_a_) rounded = error_of_rounding(b);
    for (int64_t e = 0; e < m * n; ++e) {
      const double scale = (scale_a_values_.empty() ? 1 : scale_a_values_[static_cast<size_t>(e / n)]) *
                           (scale_b_values_.empty() ? 1 : scale_b_values_[static_cast<size_t>(e % n)]);
      const double product = static_cast<double>(case_.alpha) * scale * sums[e];
      const double scaled_c = c_values_.empty() || case_.beta == 0 ? 0 : case_.beta * matrix(c_values_, b)[e];
      const double bias = bias_values_.empty() ? 0 : bias_values_[e % n];
      const double x = product + scaled_c + bias;
      double bound = std::fabs(case_.alpha) * (growth * magnitudes[e] + (rounded.empty() ? 0 : rounded[e])) +
                     (case_.scale_a || case_.scale_b ? 3 * u * std::fabs(product) : 0) +
                     4 * u * (std::fabs(product) + std::fabs(scaled_c) + std::fabs(bias));
      const bool literal_nan = is_smooth(case_.activation) && x == -kInfinity;
      double value = literal_nan ? 0 : activate(case_.activation, x);
      if (std::isinf(x)) bound = 0;
      if (is_smooth(case_.activation) && !std::isinf(x)) {
        bound = 1.2 * bound + 16 * u * (std::fabs(x) + std::fabs(value));
      }
      if (!residual_values_.empty()) {
        const double residual = matrix(residual_values_, b)[e];
        bound += 2 * u * (std::fabs(value) + std::fabs(residual));
        value += residual;
      }
      expected_[b * m * n + e] = value;
      bound_[b * m * n + e] = is_exact() ? 0 : bound + std::numeric_limits<float>::min();
      nan_allowed_[b * m * n + e] = literal_nan;
    }
  }
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
