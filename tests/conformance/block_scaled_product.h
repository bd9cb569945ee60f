// A matmul with block scales, its request and its expected result.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_case.h"
#include "candidates.h"

namespace lathe::conformance {

inline const reference::ScaledElements* scaled_format(const char* name) {
  return reference::scaled_elements_named(name);
}

inline bool is_fp8(const reference::ScaledElements& f) {
  return f.element == LATHE_F8_E4M3 || f.element == LATHE_F8_E5M2;
}

// A product of one weight, and optionally of a scaled A.
struct ScaledCase {
  reference::ScaledSpec a, b;  // a.format null: A is plain
  lathe_dtype a_dtype = LATHE_F32, out = LATHE_F32;
  int64_t m = 1;
  float alpha = 1;

  std::string text() const {
    return absl::StrCat("m=", m, " n=", b.lines, " k=", b.k, " batch=", b.batch,
                        " a=", a.format ? a.format->name : name_of(a_dtype), " layout ",
                        static_cast<int>(a.layout), " b=", b.format->name, " layout ",
                        static_cast<int>(b.layout), " lines ", b.lines_each, " padding ", b.padding, "/",
                        b.scale_padding, " misalign ", b.misalign, b.global ? " global" : "", " out ",
                        name_of(out));
  }
};

class ScaledProduct {
 public:
  ScaledProduct(const ScaledCase& c, reference::Normal* random)
      : c_(c),
        plain_a_(c.a_dtype, c.a.format ? 0 : c.b.batch * c.m, c.b.k, random),
        b_(c.b, random),
        d_(c.out, c.b.batch * c.m, c.b.lines, nullptr) {
    if (c.a.format != nullptr) a_ = reference::ScaledMatrix(c.a, random);
    desc.m = c.m, desc.n = c.b.lines, desc.k = c.b.k, desc.batch = c.b.batch;
    scale_b = b_.scale();
    desc.b = b_.operand(/*column_major=*/true);
    desc.b.scale = &scale_b;
    if (c.a.format != nullptr) {
      scale_a = a_.scale();
      desc.a = a_.operand(/*column_major=*/false);
      desc.a.scale = &scale_a;
    } else {
      desc.a = plain_a_.operand(c.m);
    }
    desc.d = d_.operand(c.m);
    desc.epilogue.alpha = c.alpha;
  }
  ScaledProduct(const ScaledProduct&) = delete;

  // Runs the product, on a GPU with copies of its operands and of `other`.
  lathe_status run(lathe_device* device, std::vector<float>* other = nullptr) {
    ScaledCopies copies(device);
    if (other != nullptr) copies.add(*other);
    const lathe_matmul_desc moved = moved_by(copies);
    const lathe_status status = lathe_matmul(device, nullptr, &moved);
    if (status == LATHE_OK) copies.fetch();
    return status;
  }
  // The legal candidates by rank, on a GPU for copies of the operands, which may be aligned differently.
  std::vector<nlohmann::json> candidates(lathe_device* device) {
    ScaledCopies copies(device);
    return legal_candidates(device, moved_by(copies));
  }
  // "" if D is right, or every `step`th column of the rows, which begin at different ones. Hopper's sums of fp8 products have about 14 bits; emulated devices, whose tests are quick, round
  // them as f32.
  std::string check(int64_t step = 1) const {
    const bool fp8 = c_.a.format != nullptr && is_fp8(*c_.a.format) && is_fp8(*c_.b.format);
    const double further = fp8 && !is_cpu() && !is_quick() ? 0x1p-10 : 0;
    for (int64_t matrix = 0; matrix < c_.b.batch; ++matrix)
      for (int64_t i = 0; i < c_.m; ++i)
        for (int64_t j = i % step; j < c_.b.lines; j += step) {
          const Expected e = expected(matrix, i, j);
          const double got = d_.at(matrix * c_.m + i, j);
          if (!is_near(got, e, c_.b.k, c_.out, further))
            return absl::StrCat("d[", matrix, "][", i, "][", j, "] is ", got, ", not ", e.value, ": off by ",
                                got - e.value, " with magnitude ", e.magnitude);
        }
    return "";
  }
  Expected expected(int64_t matrix, int64_t i, int64_t j) const {
    const double factor = c_.alpha * b_.global() * (c_.a.format ? a_.global() : 1);
    Expected e = dot(
        c_.b.k,
        [&](int64_t k) { return c_.a.format ? a_.at(matrix, i, k) : plain_a_.at(matrix * c_.m + i, k); },
        [&](int64_t k) { return b_.at(matrix, j, k); });
    return {e.value * factor, e.magnitude * std::abs(factor)};
  }
  reference::ScaledMatrix& a() { return a_; }
  reference::ScaledMatrix& b() { return b_; }
  double d(int64_t i, int64_t j) const { return d_.at(i, j); }
  // The scales' memory moves when a scale is set.
  void refresh() {
    if (c_.a.format != nullptr) scale_a = a_.scale();
    scale_b = b_.scale();
  }
  // Points to the data of this object again.
  void restore() {
    refresh();
    if (c_.a.format != nullptr) desc.a.data = a_.operand(false).data;
    desc.b.data = b_.operand(true).data;
  }

  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  lathe_scale scale_a = LATHE_SCALE_INIT, scale_b = LATHE_SCALE_INIT;

 private:
  lathe_matmul_desc moved_by(ScaledCopies& copies) {
    if (c_.a.format != nullptr) copies.add(a_);
    copies.add(b_);
    copies.add(plain_a_.bytes);
    copies.add(d_.bytes);
    return copies.moved(desc);
  }

  ScaledCase c_;
  Floats plain_a_;
  reference::ScaledMatrix a_, b_;
  Floats d_;
};

}  // namespace lathe::conformance
