// Operands whose elements lie beyond 2^31: a few rows, very far apart, of which the rows alone are ever
// touched.
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "device.h"

namespace lathe::conformance {
namespace {

constexpr int64_t kFar = (int64_t{1} << 30) + 8;  // elements between rows: the third row begins beyond 2^31

// Address space for the rows; memory only where they are. On a device all of it is allocated.
class FarRows {
 public:
  FarRows(lathe_device* device, int64_t rows, int64_t width, int64_t distance)
      : device_(device), rows_(rows), width_(width), distance_(distance) {
    const size_t bytes = static_cast<size_t>((rows - 1) * distance + width) * sizeof(uint16_t);
    if (is_cpu()) {
      bytes_ = bytes;
      void* mapping =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapping != MAP_FAILED) data_ = mapping;
      return;
    }
    if (lathe_device_alloc(device, bytes, &data_) != LATHE_OK) data_ = nullptr;
  }
  ~FarRows() {
    if (data_ == nullptr) return;
    is_cpu() ? static_cast<void>(munmap(data_, bytes_))
             : static_cast<void>(lathe_device_free(device_, data_));
  }
  FarRows(const FarRows&) = delete;
  FarRows& operator=(const FarRows&) = delete;

  void* data() const { return data_; }

  void put(const std::vector<double>& values) const {
    for (int64_t i = 0; i < rows_; ++i) {
      const std::vector<uint8_t> row = encode(values, i);
      copy(row_at(i), row.data(), row.size(), LATHE_COPY_TO_DEVICE);
    }
  }
  std::vector<double> get() const {
    std::vector<double> values;
    for (int64_t i = 0; i < rows_; ++i) {
      std::vector<uint8_t> row(static_cast<size_t>(width_) * 2);
      copy(row.data(), row_at(i), row.size(), LATHE_COPY_TO_HOST);
      for (int64_t j = 0; j < width_; ++j) values.push_back(load(LATHE_BF16, row.data() + j * 2));
    }
    return values;
  }

 private:
  uint8_t* row_at(int64_t i) const { return static_cast<uint8_t*>(data_) + i * distance_ * 2; }
  std::vector<uint8_t> encode(const std::vector<double>& values, int64_t i) const {
    std::vector<uint8_t> row(static_cast<size_t>(width_) * 2);
    for (int64_t j = 0; j < width_; ++j) {
      store(LATHE_BF16, values[static_cast<size_t>(i * width_ + j)], row.data() + j * 2);
    }
    return row;
  }
  void copy(void* to, const void* from, size_t bytes, lathe_copy_kind kind) const {
    EXPECT_LATHE_OK(lathe_device_copy(device_, nullptr, to, from, bytes, kind));
    EXPECT_LATHE_OK(lathe_stream_synchronize(device_, nullptr));
  }

  lathe_device* device_;
  int64_t rows_, width_, distance_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Offsets : public ConformanceTest {
 protected:
  std::vector<double> small_integers(int64_t count) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& x : values) x = static_cast<double>(random_.between(-4, 4));
    return values;
  }
  Random random_ = random_stream(17);
};

// D (m by n) = A (m by k) B (k by n) + C, each operand in turn with rows far apart. Whole numbers below 256
// are bf16's.
TEST_F(Offsets, EachOperandBeyondTwoToThe31) {
  constexpr int64_t kM = 3, kN = 24, kK = 3;
  const std::vector<double> a = small_integers(kM * kK), b = small_integers(kK * kN),
                            c = small_integers(kM * kN);
  const char* names[] = {"a", "b", "c", "d"};
  for (int far = 0; far < 4; ++far) {
    for (bool trans_b :
         {false, true}) {  // rows of B as it is stored: 3 by 24, or 24 by 3 of which 3 columns exist
      const auto distance = [&](int operand, int64_t width) { return operand == far ? kFar : width + 8; };
      if (trans_b && far == 1) continue;  // 24 rows so far apart are 48 GiB
      const int64_t lda = distance(0, kK), ldc = distance(2, kN), ldd = distance(3, kN);
      const int64_t ldb = trans_b ? kK + 8 : distance(1, kN);
      const FarRows a_rows(device(), kM, kK, lda), c_rows(device(), kM, kN, ldc),
          d_rows(device(), kM, kN, ldd);
      const FarRows b_rows(device(), trans_b ? kN : kK, trans_b ? kK : kN, ldb);
      for (const FarRows* rows : {&a_rows, &b_rows, &c_rows, &d_rows}) {
        if (rows->data() == nullptr) GTEST_SKIP() << "no 6 GiB of memory: " << lathe_last_error();
      }
      std::vector<double> stored_b = b;
      for (int64_t p = 0; trans_b && p < kK; ++p) {
        for (int64_t j = 0; j < kN; ++j) stored_b[j * kK + p] = b[p * kN + j];
      }
      a_rows.put(a);
      b_rows.put(stored_b);
      c_rows.put(c);
      d_rows.put(std::vector<double>(kM * kN, std::nan("")));
      lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
      desc.m = kM;
      desc.n = kN;
      desc.k = kK;
      desc.a.data = a_rows.data();
      desc.b.data = b_rows.data();
      desc.c.data = c_rows.data();
      desc.d.data = d_rows.data();
      desc.a.dtype = desc.b.dtype = desc.c.dtype = desc.d.dtype = LATHE_BF16;
      desc.a.leading_dimension = lda;
      desc.b.leading_dimension = ldb;
      desc.c.leading_dimension = ldc;
      desc.d.leading_dimension = ldd;
      desc.b.layout = trans_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
      desc.epilogue.beta = 1;
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
      const std::vector<double> d = d_rows.get();
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          double sum = c[i * kN + j];
          for (int64_t p = 0; p < kK; ++p) sum += a[i * kK + p] * b[p * kN + j];
          ASSERT_EQ(d[i * kN + j], sum) << "far " << names[far] << " (" << i << ", " << j << ")";
        }
      }
    }
  }
}

// Matrices of a batch that far apart.
TEST_F(Offsets, BatchStridesBeyondTwoToThe31) {
  constexpr int64_t kBatch = 3, kN = 16, kK = 8;
  const std::vector<double> a = small_integers(kBatch * kK), b = small_integers(kK * kN);
  const FarRows a_rows(device(), kBatch, kK, kFar), b_rows(device(), 1, kK * kN, kK * kN),
      d_rows(device(), kBatch, kN, kFar);
  for (const FarRows* rows : {&a_rows, &b_rows, &d_rows}) {
    if (rows->data() == nullptr) GTEST_SKIP() << "no 12 GiB of memory: " << lathe_last_error();
  }
  a_rows.put(a);
  b_rows.put(b);
  d_rows.put(std::vector<double>(kBatch * kN, std::nan("")));
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1;
  desc.n = kN;
  desc.k = kK;
  desc.batch = kBatch;
  desc.a.data = a_rows.data();
  desc.b.data = b_rows.data();
  desc.d.data = d_rows.data();
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_BF16;
  desc.a.batch_stride = desc.d.batch_stride = kFar;
  ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
  const std::vector<double> d = d_rows.get();
  for (int64_t i = 0; i < kBatch; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < kK; ++p) sum += a[i * kK + p] * b[p * kN + j];
      ASSERT_EQ(d[i * kN + j], sum) << "matrix " << i << " column " << j;
    }
  }
}

TEST_F(Offsets, RowsOfArgmaxBeyondTwoToThe31) {
  constexpr int64_t kRows = 3, kLength = 100;
  std::vector<double> x = small_integers(kRows * kLength);
  for (int64_t i = 0; i < kRows; ++i) x[i * kLength + 7 + 31 * i] = 5;
  const FarRows x_rows(device(), kRows, kLength, kFar), indices(device(), 1, kRows * 2, kRows * 2);
  if (x_rows.data() == nullptr) GTEST_SKIP() << "no 6 GiB of memory: " << lathe_last_error();
  x_rows.put(x);
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = kRows;
  desc.n = kLength;
  desc.x.data = x_rows.data();
  desc.x.dtype = LATHE_BF16;
  desc.x.leading_dimension = kFar;
  desc.indices = indices.data();
  desc.index_dtype = LATHE_I32;
  ASSERT_LATHE_OK(lathe_argmax(device(), nullptr, &desc));
  int32_t got[kRows] = {};
  ASSERT_LATHE_OK(lathe_device_copy(device(), nullptr, got, indices.data(), sizeof got, LATHE_COPY_TO_HOST));
  ASSERT_LATHE_OK(lathe_stream_synchronize(device(), nullptr));
  for (int64_t i = 0; i < kRows; ++i) EXPECT_EQ(got[i], 7 + 31 * i);
}

}  // namespace
}  // namespace lathe::conformance
