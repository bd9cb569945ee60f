#include "matmul_argmax_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "case_limits.h"

namespace lathe::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::string MatmulArgmaxCase::describe() const {
  std::ostringstream s;
  s << "matmul_argmax " << name_of(in);
  if (b != LATHE_DTYPE_NONE) s << " by " << name_of(b);
  s << "->" << name_of(logits) << "->" << name_of(index) << " m=" << m << " n=" << n << " k=" << k
    << " layout=" << (trans_a ? 't' : 'n') << (trans_b ? 't' : 'n') << " bias=" << name_of(bias)
    << " values=" << wants_values << " offset=" << index_offset << " padding=" << padding
    << " misalign=" << misalign << " flush=" << (flush == Flush::kEnd ? "end" : "start")
    << " determinism=" << determinism << " math=" << math << " distinct=" << distinct
    << " candidate=" << candidate << " fill=" << static_cast<int>(values);
  return s.str();
}

double MatmulArgmaxRequest::draw(lathe_dtype dtype) {
  if (case_.values == Values::kSmallIntegers) return static_cast<double>(random_->between(-4, 4));
  return round_to(dtype, random_->normal());
}

MatmulArgmaxRequest::Matrix MatmulArgmaxRequest::draw_matrix(lathe_dtype dtype, bool transposed, int64_t rows,
                                                             int64_t columns, int64_t padding) {
  Matrix x;
  x.dtype = dtype;
  const int64_t lines = transposed ? columns : rows, line = transposed ? rows : columns;
  x.leading_dimension = line + padding;
  const int64_t elements = lines == 0 || line == 0 ? 0 : (lines - 1) * x.leading_dimension + line;
  const auto size = static_cast<int64_t>(bytes_of(dtype));
  x.memory =
      std::make_unique<GuardedMemory>(static_cast<size_t>(elements * size), case_.flush, case_.misalign);
  for (int64_t e = 0; e < elements; ++e) store(dtype, kNan, x.memory->data() + e * size);  // would win
  x.values.resize(static_cast<size_t>(rows * columns));
  for (double& v : x.values) v = draw(dtype);
  if (case_.values == Values::kSpecial && !x.values.empty())
    for (double special : {kNan, kInfinity, -kInfinity})
      if (random_->below(3) == 0) x.values[static_cast<size_t>(random_->below(rows * columns))] = special;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      store(
          dtype, x.values[static_cast<size_t>(i * columns + j)],
          x.memory->data() + (transposed ? j * x.leading_dimension + i : i * x.leading_dimension + j) * size);
  x.memory->write_protect();
  return x;
}

// B in blocks. The padding between columns is NaN.
MatmulArgmaxRequest::Matrix MatmulArgmaxRequest::draw_weights(lathe_dtype dtype) {
  const reference::BlockFormat& f = *reference::block_format(dtype);
  const int64_t n = case_.n, k = case_.k;
  Matrix x;
  x.dtype = dtype;
  x.leading_dimension = k + reference::whole_blocks(dtype, case_.padding);
  const int64_t column = x.leading_dimension / f.elements * static_cast<int64_t>(f.bytes);
  const auto used = static_cast<size_t>((n - 1) * column + k / f.elements * static_cast<int64_t>(f.bytes));
  x.memory = std::make_unique<GuardedMemory>(used, case_.flush, case_.misalign);
  std::memset(x.memory->data(), 0xff, used);
  const auto at = [&](int64_t p, int64_t j) {
    return x.memory->data() + j * column + p / f.elements * static_cast<int64_t>(f.bytes);
  };
  draw_blocks({f, k, n, at}, case_.values, random_, &b_terms_);
  for (int64_t j = case_.distinct; case_.distinct > 0 && j < n; ++j) {
    std::memcpy(at(0, j), at(0, j % case_.distinct), used - static_cast<size_t>((n - 1) * column));
    for (std::vector<double>* terms : {&b_terms_.values, &b_terms_.products, &b_terms_.minima})
      for (int64_t p = 0; p < k; ++p)
        (*terms)[static_cast<size_t>(p * n + j)] = (*terms)[static_cast<size_t>(p * n + j % case_.distinct)];
  }
  x.values = b_terms_.values;
  x.memory->write_protect();
  return x;
}

MatmulArgmaxRequest::MatmulArgmaxRequest(const MatmulArgmaxCase& c, Random* random)
    : case_(c), random_(random), desc_(LATHE_MATMUL_ARGMAX_DESC_INIT), tuning_(LATHE_TUNING_INIT) {
  a_ = draw_matrix(c.in, c.trans_a, c.m, c.k, c.padding);
  if (reference::block_format(c.b) != nullptr)
    b_ = draw_weights(c.b);
  else
    b_ =
        draw_matrix(c.b == LATHE_DTYPE_NONE ? c.in : c.b, c.trans_b, c.k, c.n, c.padding ? c.padding + 1 : 0);
  desc_.m = c.m, desc_.n = c.n, desc_.k = c.k;
  const auto describe_operand = [&](const Matrix& x, bool transposed, lathe_operand* o) {
    o->data = x.memory->address();
    o->dtype = x.dtype;
    o->layout = transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
    o->leading_dimension = c.padding ? x.leading_dimension : 0;
  };
  describe_operand(a_, c.trans_a, &desc_.a);
  describe_operand(b_, c.trans_b, &desc_.b);
  const auto guarded = [&](int64_t count, lathe_dtype dtype) {
    return std::make_unique<GuardedMemory>(static_cast<size_t>(count) * bytes_of(dtype), c.flush, c.misalign);
  };
  bias_values_.assign(static_cast<size_t>(c.n), 0.0);
  if (c.bias != LATHE_DTYPE_NONE) {
    bias_ = guarded(c.n, c.bias);
    for (int64_t j = 0; j < c.n; ++j) {
      double& x = bias_values_[static_cast<size_t>(j)];
      x = draw(c.bias);
      store(c.bias, x, bias_->data() + j * static_cast<int64_t>(bytes_of(c.bias)));
    }
    bias_->write_protect();
    desc_.bias = bias_->address();
    desc_.bias_dtype = c.bias;
  }
  indices_ = guarded(c.m, c.index);
  desc_.logits_dtype = c.logits;
  desc_.indices = indices_->address();
  desc_.index_dtype = c.index;
  desc_.index_offset = c.index_offset;
  desc_.determinism = c.determinism;
  desc_.math = c.math;
  if (c.wants_values) {
    // The type is float*, but any address must work, including an unaligned one.
    values_ = guarded(c.m, LATHE_F32);
    void* address = values_->address();
    desc_.values = static_cast<float*>(address);
  }
  if (c.candidate) set_candidate(c.candidate);
}

void MatmulArgmaxRequest::set_candidate(int32_t rank) {
  tuning_.candidate = rank;
  desc_.next = reinterpret_cast<const lathe_chain*>(&tuning_);
}

lathe_status MatmulArgmaxRequest::pack(lathe_device* device) {
  lathe_matmul_desc product = LATHE_MATMUL_DESC_INIT;
  product.m = desc_.m, product.n = desc_.n, product.k = desc_.k;
  product.a = desc_.a, product.b = desc_.b;
  product.d.dtype = LATHE_F32;
  product.determinism = desc_.determinism;
  product.math = desc_.math;
  uint32_t layout = 0;
  size_t bytes = 0;
  if (const lathe_status status = lathe_packed_layout(device, &product, &layout, &bytes); status != LATHE_OK)
    return status;
  packed_ = std::make_unique<GuardedMemory>(bytes, case_.flush, case_.misalign);
  std::memset(packed_->data(), 0xFF, bytes);  // NaN: bytes that packing does not write spoil results
  const lathe_status status = lathe_pack_weights(device, &product, layout, packed_->address(), bytes);
  packed_->write_protect();
  desc_.b.data = packed_->address();
  desc_.b.leading_dimension = 0;
  desc_.b.packed_layout = layout;
  return status;
}

void MatmulArgmaxRequest::reset_output() {
  for (const GuardedMemory* output : {indices_.get(), values_.get()}) {
    if (!output) continue;
    std::memset(output->data(), 0xDD, output->bytes());
    output->publish();
  }
}

int64_t MatmulArgmaxRequest::index(int64_t row) const {
  if (case_.index == LATHE_I64) {
    int64_t wide;
    std::memcpy(&wide, indices_->data() + row * 8, 8);
    return wide;
  }
  int32_t narrow;
  std::memcpy(&narrow, indices_->data() + row * 4, 4);
  return narrow;
}
double MatmulArgmaxRequest::value(int64_t row) const { return load(LATHE_F32, values_->data() + row * 4); }

testing::AssertionResult MatmulArgmaxRequest::check_row(int64_t row, const std::vector<double>& sums,
                                                        const std::vector<double>& errors) const {
  const auto fail = [&] {
    return testing::AssertionFailure()
           << case_.describe() << ": row " << row << ": index " << index(row) << ": ";
  };
  const int64_t got = index(row) - case_.index_offset;
  if (got < 0 || got >= case_.n) return fail() << "is not a column";
  const auto nan = std::find_if(sums.begin(), sums.end(), [](double s) { return std::isnan(s); });
  if (nan != sums.end()) {
    if (got != nan - sums.begin()) return fail() << "the first NaN is in column " << nan - sums.begin();
    if (values_ && !std::isnan(value(row))) return fail() << "value " << value(row) << " is not NaN";
    return testing::AssertionSuccess();
  }
  const auto at = [&](int64_t j, int side) {
    const auto c = static_cast<size_t>(j);
    return round_to(case_.logits, sums[c] + side * errors[c]);
  };
  double certain = -kInfinity;
  for (int64_t j = 0; j < case_.n; ++j) {
    const double least = at(j, -1), most = at(got, 1);
    certain = std::max(certain, least);
    if (j < got ? least >= most : least > most)
      return fail() << "at most " << most << ", column " << j << " has at least " << least;
  }
  if (values_ && !(value(row) >= certain && value(row) <= at(got, 1)))
    return fail() << "value " << value(row) << " is not in [" << certain << ", " << at(got, 1) << "]";
  return testing::AssertionSuccess();
}

void MatmulArgmaxRequest::multiply_row(int64_t row, std::vector<double>* sums,
                                       std::vector<double>* errors) const {
  const auto n = static_cast<size_t>(case_.n), k = static_cast<size_t>(case_.k);
  const double part = product_error(case_.k, case_.in, case_.b, case_.math);
  const double* a = a_.values.data() + static_cast<size_t>(row) * k;
  std::vector<double> magnitudes(n, 0.0);
  for (size_t p = 0; p < k; ++p) {
    for (size_t j = 0; j < n; ++j) {
      (*sums)[j] += a[p] * b_.values[p * n + j];
      magnitudes[j] += std::fabs(a[p] * b_.values[p * n + j]);
    }
  }
  if (rounds_to_bytes()) {
    const BlockProduct product = {*reference::block_format(case_.b),
                                  1,
                                  case_.n,
                                  case_.k,
                                  a,
                                  b_terms_.products.data(),
                                  b_terms_.minima.data()};
    rounds_a_ ? multiply_rounded(product, sums, &magnitudes) : void(*errors = error_of_rounding(product));
  }
  for (size_t j = 0; j < n; ++j) (*errors)[j] += part * magnitudes[j];
}

testing::AssertionResult MatmulArgmaxRequest::check() {
  indices_->fetch();
  if (values_) values_->fetch();
  const bool exact = case_.values == Values::kSmallIntegers && !rounds_to_bytes();
  const auto n = static_cast<size_t>(case_.n);
  for (int64_t i = 0; i < case_.m; ++i) {
    std::vector<double> sums(n, 0.0), errors(n, 0.0);
    multiply_row(i, &sums, &errors);
    for (size_t j = 0; j < n; ++j) {
      const double bias = bias_values_[j];
      errors[j] += 4 * kUnitRoundoff * (std::fabs(sums[j]) + std::fabs(bias));
      sums[j] += bias;
      if (exact || !std::isfinite(sums[j])) errors[j] = 0;
    }
    const testing::AssertionResult right = check_row(i, sums, errors);
    if (!right) return right;
  }
  if (!indices_->canaries_intact() || (values_ && !values_->canaries_intact()))
    return testing::AssertionFailure() << case_.describe() << ": memory around the output was written";
  return testing::AssertionSuccess();
}

testing::AssertionResult MatmulArgmaxRequest::run(lathe_device* device) {
  if (leaves_out({case_.m, case_.k}, case_.m * case_.n)) return testing::AssertionSuccess();
  set_current_case(case_.describe());
  reset_output();
  const lathe_status status = lathe_matmul_argmax(device, nullptr, &desc_);
  if (status != LATHE_OK)
    return testing::AssertionFailure()
           << case_.describe() << ": " << lathe_status_name(status) << ": " << lathe_last_error();
  return check();
}

}  // namespace lathe::conformance
