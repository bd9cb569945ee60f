#include "argmax_case.h"

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

// NumPy's rule: the first NaN, else the first maximum.
int64_t first_maximum(const std::vector<double>& row) {
  size_t best = 0;
  for (size_t j = 0; j < row.size(); ++j) {
    if (std::isnan(row[j])) return static_cast<int64_t>(j);
    if (row[j] > row[best]) best = j;
  }
  return static_cast<int64_t>(best);
}

}  // namespace

std::string ArgmaxCase::describe() const {
  std::ostringstream s;
  s << "argmax " << name_of(in) << "->" << name_of(index) << " rows=" << rows << " n=" << n
    << " values=" << wants_values << " offset=" << index_offset << " padding=" << padding
    << " misalign=" << misalign << " flush=" << (flush == Flush::kEnd ? "end" : "start")
    << " kind=" << static_cast<int>(kind) << " determinism=" << determinism;
  return s.str();
}

std::vector<double> ArgmaxRequest::draw_row(Random* random) const {
  const int64_t n = case_.n;
  std::vector<double> row(static_cast<size_t>(n));
  const auto anywhere = [&]() -> double& { return row[static_cast<size_t>(random->below(n))]; };
  const double fill = case_.kind == Rows::kAllNan || case_.kind == Rows::kConstant
                          ? round_to(case_.in, random->normal())
                      : case_.kind == Rows::kLowest                                     ? -largest(case_.in)
                      : case_.kind == Rows::kMostlyOne || case_.kind == Rows::kNanAtEnd ? 1.0
                                                                                        : -kInfinity;
  for (int64_t j = 0; j < n; ++j) {
    double& x = row[static_cast<size_t>(j)];
    switch (case_.kind) {
      case Rows::kTies: x = static_cast<double>(random->below(4)); break;
      case Rows::kAscending: x = round_to(case_.in, static_cast<double>(j)); break;
      case Rows::kDescending: x = round_to(case_.in, -static_cast<double>(j)); break;
      case Rows::kZeros: x = random->below(2) ? 0.0 : -0.0; break;
      case Rows::kAllNan: x = kNan; break;
      case Rows::kNegative: x = round_to(case_.in, -1 - std::fabs(random->normal())); break;
      case Rows::kConstant:
      case Rows::kMinusInf:
      case Rows::kMostlyMinusInf:
      case Rows::kMostlyOne:
      case Rows::kNanAtEnd:
      case Rows::kLowest: x = fill; break;
      default: x = round_to(case_.in, random->normal());
    }
  }
  if (case_.kind == Rows::kNan) {
    for (int i = 0; i < 3; ++i) anywhere() = random->below(2) ? kNan : -kNan;
  }
  if (case_.kind == Rows::kNanAtEnd) row.back() = random->below(2) ? kNan : -kNan;
  if (case_.kind == Rows::kPlusInf) anywhere() = anywhere() = kInfinity;
  if (case_.kind == Rows::kMostlyMinusInf) anywhere() = -largest(case_.in);
  if (case_.kind == Rows::kMostlyOne)
    (case_.maximum < 0 ? anywhere() : row[static_cast<size_t>(case_.maximum)]) = 2;
  return row;
}

ArgmaxRequest::ArgmaxRequest(const ArgmaxCase& c, Random* random) : case_(c), desc_(LATHE_ARGMAX_DESC_INIT) {
  const int64_t ld = case_.n + case_.padding;
  const size_t element = bytes_of(case_.in), rows = static_cast<size_t>(case_.rows);
  const size_t elements = rows == 0 ? 0 : static_cast<size_t>((case_.rows - 1) * ld + case_.n);
  x_ = std::make_unique<GuardedMemory>(elements * element, case_.flush, case_.misalign);
  // Padding holds values that would win.
  for (size_t e = 0; case_.padding && e < elements; ++e) store(case_.in, kNan, x_->data() + e * element);
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<double> row = draw_row(random);
    for (size_t j = 0; j < row.size(); ++j) store(case_.in, row[j], x_->data() + (i * ld + j) * element);
    const int64_t best = first_maximum(row);
    expected_index_.push_back(best + case_.index_offset);
    expected_value_.push_back(row[static_cast<size_t>(best)]);
  }
  x_->write_protect();
  indices_ = std::make_unique<GuardedMemory>(rows * bytes_of(case_.index), case_.flush, case_.misalign);
  desc_.rows = case_.rows;
  desc_.n = case_.n;
  desc_.x.data = x_->address();
  desc_.x.dtype = case_.in;
  desc_.x.leading_dimension = case_.padding ? ld : 0;
  desc_.indices = indices_->address();
  desc_.index_dtype = case_.index;
  desc_.index_offset = case_.index_offset;
  desc_.determinism = case_.determinism;
  if (case_.wants_values) {
    // The type is float*, but any address must work, including an unaligned one.
    values_ = std::make_unique<GuardedMemory>(rows * sizeof(float), case_.flush, case_.misalign);
    desc_.values = static_cast<float*>(values_->address());
  }
}

void ArgmaxRequest::reset_output() {
  for (const GuardedMemory* output : {indices_.get(), values_.get()}) {
    if (output == nullptr) continue;
    std::memset(output->data(), 0xDD, output->bytes());
    output->publish();
  }
}

testing::AssertionResult ArgmaxRequest::check() const {
  indices_->fetch();
  if (values_) values_->fetch();
  for (size_t i = 0; i < expected_index_.size(); ++i) {
    int64_t index = 0;
    if (case_.index == LATHE_I64) {
      std::memcpy(&index, indices_->data() + i * 8, 8);
    } else {
      int32_t narrow;
      std::memcpy(&narrow, indices_->data() + i * 4, 4);
      index = narrow;
    }
    if (index != expected_index_[i]) {
      return testing::AssertionFailure() << case_.describe() << ": row " << i << ": index " << index
                                         << ", expected " << expected_index_[i];
    }
    if (!values_) continue;
    const double value = load(LATHE_F32, values_->data() + i * sizeof(float));
    if (std::isnan(expected_value_[i]) ? !std::isnan(value) : value != expected_value_[i]) {
      return testing::AssertionFailure() << case_.describe() << ": row " << i << ": value " << value
                                         << ", expected " << expected_value_[i];
    }
  }
  if (!indices_->canaries_intact() || (values_ && !values_->canaries_intact())) {
    return testing::AssertionFailure() << case_.describe() << ": memory around the output was written";
  }
  if (!x_->unchanged()) {
    return testing::AssertionFailure()
           << case_.describe() << ": the rows, or memory around them, were written";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult ArgmaxRequest::run(lathe_device* device, lathe_stream stream) {
  if (leaves_out({1}, case_.rows * case_.n)) return testing::AssertionSuccess();
  set_current_case(case_.describe());
  reset_output();
  lathe_status status = lathe_argmax(device, stream, &desc_);
  if (status == LATHE_OK && stream != nullptr) status = lathe_stream_synchronize(device, stream);
  if (status != LATHE_OK) {
    return testing::AssertionFailure()
           << case_.describe() << ": " << lathe_status_name(status) << ": " << lathe_last_error();
  }
  return check();
}

}  // namespace lathe::conformance
