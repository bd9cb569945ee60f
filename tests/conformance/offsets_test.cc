// Operands with elements beyond offset 2^32: a few rows or matrices that are very far apart; only they are touched.
// Every form of kernel that a device has for them is forced in turn.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"

namespace lathe::conformance {
namespace {

// The distance, in elements, of `count` things whose last one starts beyond 2^32. If 32 bits were used for the offset
// in elements of the last, or in bytes of the middle one, the offset would be wrong. A multiple of 16 for aligned
// kernels.
int64_t far_apart(int64_t count) { return ((int64_t{1} << 32) / (count - 1) / 16 + 1) * 16; }

// bf16 matrices with far-apart rows. On the CPU the address space between the rows has no memory; on a device all of it
// is allocated.
class FarMatrices {
 public:
  struct Place {
    int64_t batch = 1, rows = 1, width = 1;
    int64_t leading_dimension = 1, batch_stride = 0;
  };
  FarMatrices(lathe_device* device, const Place& place) : device_(device), place_(place) {
    bytes_ = static_cast<size_t>((place.batch - 1) * place.batch_stride +
                                 (place.rows - 1) * place.leading_dimension + place.width) *
             sizeof(uint16_t);
    if (!is_cpu()) {
      if (lathe_device_alloc(device, bytes_, &data_) != LATHE_OK) data_ = nullptr;
      return;
    }
    void* mapping =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping != MAP_FAILED) data_ = mapping;
  }
  ~FarMatrices() {
    if (data_ == nullptr) return;
    is_cpu() ? static_cast<void>(munmap(data_, bytes_))
             : static_cast<void>(lathe_device_free(device_, data_));
  }
  FarMatrices(const FarMatrices&) = delete;
  FarMatrices& operator=(const FarMatrices&) = delete;

  void* data() const { return data_; }
  int64_t elements() const { return place_.batch * place_.rows * place_.width; }
  lathe_operand operand() const {
    lathe_operand o = LATHE_OPERAND_INIT;
    o.data = data_;
    o.dtype = LATHE_BF16;
    o.leading_dimension = place_.leading_dimension;
    o.batch_stride = place_.batch_stride;
    return o;
  }

  // Copies the values row by row, matrix by matrix.
  void put(const std::vector<double>& values) const {
    std::vector<uint8_t> row(row_bytes());
    for (int64_t i = 0; i < place_.batch * place_.rows; ++i) {
      for (int64_t j = 0; j < place_.width; ++j)
        store(LATHE_BF16, values[static_cast<size_t>(i * place_.width + j)], row.data() + j * 2);
      copy(row_at(i), row.data(), LATHE_COPY_TO_DEVICE);
    }
  }
  std::vector<double> get() const {
    std::vector<double> values;
    std::vector<uint8_t> row(row_bytes());
    for (int64_t i = 0; i < place_.batch * place_.rows; ++i) {
      copy(row.data(), row_at(i), LATHE_COPY_TO_HOST);
      for (int64_t j = 0; j < place_.width; ++j) values.push_back(load(LATHE_BF16, row.data() + j * 2));
    }
    return values;
  }

 private:
  size_t row_bytes() const { return static_cast<size_t>(place_.width) * sizeof(uint16_t); }
  uint8_t* row_at(int64_t i) const {
    const int64_t element =
        i / place_.rows * place_.batch_stride + i % place_.rows * place_.leading_dimension;
    return static_cast<uint8_t*>(data_) + element * static_cast<int64_t>(sizeof(uint16_t));
  }
  void copy(void* to, const void* from, lathe_copy_kind kind) const {
    EXPECT_LATHE_OK(lathe_device_copy(device_, nullptr, to, from, row_bytes(), kind));
    EXPECT_LATHE_OK(lathe_stream_synchronize(device_, nullptr));
  }

  lathe_device* device_;
  const Place place_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Which operand has distant rows or matrices.
enum Operand { kA, kB, kC, kD, kResidual, kOperands };
constexpr const char* kNames[kOperands] = {"a", "b", "c", "d", "residual"};
struct Far {
  Operand operand;
  bool matrices;  // the matrices of a batch; else the rows of a matrix
};

struct Shape {
  int64_t batch, m, n, k;
  bool trans_b;
};

// D = A B + C + R with integers.
class FarProduct {
 public:
  FarProduct(lathe_device* device, const Shape& shape, const Far& far, Random* random)
      : device_(device), shape_(shape), far_(far) {
    for (int o = 0; o < kOperands; ++o) {
      matrices_[o] = std::make_unique<FarMatrices>(device, place(static_cast<Operand>(o)));
      if (matrices_[o]->data() == nullptr) return;
      values_[o].resize(static_cast<size_t>(matrices_[o]->elements()), std::nan(""));
      // Small values, so that sums stay below 256: bf16 represents those integers.
      const int64_t most = shape.k > 8 ? 1 : 4;
      for (double& x : values_[o])
        if (o != kD) x = static_cast<double>(random->between(-most, most));
      matrices_[o]->put(values_[o]);
    }
    desc_.m = shape.m, desc_.n = shape.n, desc_.k = shape.k, desc_.batch = shape.batch;
    desc_.a = matrices_[kA]->operand();
    desc_.b = matrices_[kB]->operand();
    desc_.b.layout = shape.trans_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
    desc_.c = matrices_[kC]->operand();
    desc_.d = matrices_[kD]->operand();
    desc_.epilogue.beta = 1;
    desc_.epilogue.residual = matrices_[kResidual]->operand();
    has_memory_ = true;
    compute();
  }
  bool has_memory() const { return has_memory_; }
  const lathe_matmul_desc& desc() const { return desc_; }

  void expect_right(const KernelForm& form) {
    lathe_tuning tuning = LATHE_TUNING_INIT;
    tuning.candidate = form.rank;
    lathe_matmul_desc forced = desc_;
    forced.next = reinterpret_cast<const lathe_chain*>(&tuning);
    matrices_[kD]->put(values_[kD]);
    ASSERT_LATHE_OK(lathe_matmul(device_, nullptr, &forced));
    const std::vector<double> d = matrices_[kD]->get();
    for (size_t e = 0; e < d.size(); ++e) {
      const auto at = static_cast<int64_t>(e);
      ASSERT_EQ(d[e], wanted_[e]) << form.name << ", " << (far_.matrices ? "matrices" : "rows") << " of "
                                  << kNames[far_.operand] << " far apart, m=" << shape_.m
                                  << " trans_b=" << shape_.trans_b << ": row " << at / shape_.n << " column "
                                  << at % shape_.n;
    }
  }

 private:
  FarMatrices::Place place(Operand o) const {
    FarMatrices::Place p;
    const bool of_b = o == kB;
    p.batch = shape_.batch;
    p.rows = !of_b ? shape_.m : shape_.trans_b ? shape_.n : shape_.k;
    p.width = o == kA || (of_b && shape_.trans_b) ? shape_.k : shape_.n;
    const bool is_far = far_.operand == o;
    p.leading_dimension = is_far && !far_.matrices ? far_apart(p.rows) : p.width + 8;
    if (p.batch > 1)
      p.batch_stride = is_far && far_.matrices ? far_apart(p.batch) : p.rows * p.leading_dimension;
    return p;
  }
  void compute() {
    const auto [batch, m, n, k, trans_b] = shape_;
    for (int64_t z = 0; z < batch; ++z)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<size_t>((z * m + i) * n + j);
          double sum = values_[kC][at] + values_[kResidual][at];
          for (int64_t p = 0; p < k; ++p)
            sum += values_[kA][static_cast<size_t>((z * m + i) * k + p)] *
                   values_[kB][static_cast<size_t>(z * n * k + (trans_b ? j * k + p : p * n + j))];
          EXPECT_LE(std::abs(sum), 256) << "bf16 cannot represent this integer";
          wanted_.push_back(sum);
        }
  }

  lathe_device* device_;
  const Shape shape_;
  const Far far_;
  std::unique_ptr<FarMatrices> matrices_[kOperands];
  std::vector<double> values_[kOperands], wanted_;
  lathe_matmul_desc desc_ = LATHE_MATMUL_DESC_INIT;
  bool has_memory_ = false;
};

class Offsets : public ConformanceTest {
 protected:
  void TearDown() override {
    ConformanceTest::TearDown();
    for (const std::string& form : forms_) std::printf("forced: %s\n", form.c_str());
  }
  // Runs every form of kernel, with each operand spread out in turn.
  void expect_right(const Shape& shape) {
    for (int o = 0; o < kOperands; ++o) {
      if (leaves_out({shape.m, shape.n, shape.k})) continue;
      FarProduct product(device(), shape, {static_cast<Operand>(o), shape.batch > 1}, &random_);
      if (!product.has_memory()) GTEST_SKIP() << "cannot allocate 9 GiB: " << lathe_last_error();
      for (const KernelForm& form : kernel_forms(legal_candidates(device(), product.desc()))) {
        if (is_over()) break;
        forms_.insert(form.name);
        product.expect_right(form);
        if (HasFatalFailure()) return;
      }
    }
  }
  std::vector<double> small_integers(int64_t count, int64_t most) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& x : values) x = static_cast<double>(random_.between(-most, most));
    return values;
  }
  Random random_ = random_stream(17);
  std::set<std::string> forms_;
};

// K has no useful divisor, so rows are not aligned.
TEST_F(Offsets, RowsOfAnyAlignment) {
  for (const bool trans_b : {false, true}) expect_right({1, 3, 24, 3, trans_b});
}

// K is large enough for splits; the rows are few, or more than a few-row tile holds.
TEST_F(Offsets, RowsOfAlignedOperands) {
  for (const bool trans_b : {false, true}) expect_right({1, 5, 24, capped(528), trans_b});
}
TEST_F(Offsets, ManyRows) {
  for (const bool trans_b : {false, true}) expect_right({1, 40, 24, capped(528), trans_b});
}

TEST_F(Offsets, MatricesOfABatch) {
  for (const int64_t m : {1, 40})
    for (const bool trans_b : {false, true}) expect_right({3, m, 24, 72, trans_b});
}

TEST_F(Offsets, RowsOfArgmax) {
  constexpr int64_t kRows = 3;
  for (const int64_t length : {int64_t{104}, capped_columns(4104, kRows)}) {
    if (leaves_out({kRows})) continue;
    std::vector<double> x = small_integers(kRows * length, 4);
    for (int64_t i = 0; i < kRows; ++i) x[static_cast<size_t>(i * length + length / 2 + 7 * i)] = 5;
    const FarMatrices rows(device(), {1, kRows, length, far_apart(kRows), 0});
    const FarMatrices indices(device(), {1, 1, kRows * 2, kRows * 2, 0});
    if (rows.data() == nullptr) GTEST_SKIP() << "cannot allocate 9 GiB: " << lathe_last_error();
    rows.put(x);
    lathe_tuning tuning = LATHE_TUNING_INIT;
    lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
    desc.rows = kRows;
    desc.n = length;
    desc.x = rows.operand();
    desc.indices = indices.data();
    desc.index_dtype = LATHE_I32;
    const std::vector<KernelForm> forms = kernel_forms(legal_candidates(device(), desc));
    desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
    for (const KernelForm& form : forms) {
      if (is_over()) break;
      forms_.insert(form.name);
      tuning.candidate = form.rank;
      int32_t got[kRows] = {-1, -1, -1};
      ASSERT_LATHE_OK(
          lathe_device_copy(device(), nullptr, indices.data(), got, sizeof got, LATHE_COPY_TO_DEVICE));
      ASSERT_LATHE_OK(lathe_argmax(device(), nullptr, &desc));
      ASSERT_LATHE_OK(
          lathe_device_copy(device(), nullptr, got, indices.data(), sizeof got, LATHE_COPY_TO_HOST));
      ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
      for (int64_t i = 0; i < kRows; ++i) EXPECT_EQ(got[i], length / 2 + 7 * i) << form.name << " row " << i;
    }
  }
}

// First the rows of A are far apart, then the rows of B.
TEST_F(Offsets, MatmulArgmax) {
  constexpr int64_t kN = 104, kK = 72;
  for (const int64_t m : {int64_t{3}, capped(40)})
    for (const bool far_b : {false, true}) {
      if (leaves_out({m, kN, kK})) continue;
      const std::vector<double> a = small_integers(m * kK, 1), b = small_integers(kN * kK, 1);
      const FarMatrices a_rows(device(), {1, m, kK, far_b ? kK + 8 : far_apart(m), 0}),
          b_rows(device(), {1, kN, kK, far_b ? far_apart(kN) : kK + 8, 0}),
          indices(device(), {1, 1, m * 2, m * 2, 0});
      for (const FarMatrices* matrices : {&a_rows, &b_rows})
        if (matrices->data() == nullptr) GTEST_SKIP() << "cannot allocate 9 GiB: " << lathe_last_error();
      a_rows.put(a);
      b_rows.put(b);
      std::vector<int32_t> wanted, got(static_cast<size_t>(m));
      for (int64_t i = 0; i < m; ++i) {
        double best = -INFINITY;
        for (int64_t j = 0; j < kN; ++j) {
          double sum = 0;
          for (int64_t p = 0; p < kK; ++p)
            sum += a[static_cast<size_t>(i * kK + p)] * b[static_cast<size_t>(j * kK + p)];
          if (j == 0) wanted.push_back(0);
          if (sum > best) best = sum, wanted.back() = static_cast<int32_t>(j);
        }
      }
      lathe_tuning tuning = LATHE_TUNING_INIT;
      lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
      desc.m = m, desc.n = kN, desc.k = kK;
      desc.a = a_rows.operand();
      desc.b = b_rows.operand();
      desc.b.layout = LATHE_COLUMN_MAJOR;
      desc.logits_dtype = LATHE_F32;
      desc.indices = indices.data();
      desc.index_dtype = LATHE_I32;
      const std::vector<KernelForm> forms = kernel_forms(legal_candidates(device(), desc));
      desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
      for (const KernelForm& form : forms) {
        if (is_over()) break;
        forms_.insert(form.name);
        tuning.candidate = form.rank;
        const size_t bytes = got.size() * sizeof got[0];
        std::fill(got.begin(), got.end(), -1);
        ASSERT_LATHE_OK(
            lathe_device_copy(device(), nullptr, indices.data(), got.data(), bytes, LATHE_COPY_TO_DEVICE));
        ASSERT_LATHE_OK(lathe_matmul_argmax(device(), nullptr, &desc));
        ASSERT_LATHE_OK(
            lathe_device_copy(device(), nullptr, got.data(), indices.data(), bytes, LATHE_COPY_TO_HOST));
        ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
        EXPECT_EQ(got, wanted) << form.name << (far_b ? ", rows of b" : ", rows of a")
                               << " far apart, m=" << m;
      }
    }
}

}  // namespace
}  // namespace lathe::conformance
