// Operands with one scale for each block of elements, and 4-bit weights of AWQ and GPTQ, on the host: random ones with
// their values in float64, and the tensors in which libraries store them. The layouts follow the documents of cuBLASLt
// (128x4 tiles), DeepGEMM, AutoAWQ and AutoGPTQ.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/numbers.h"

namespace lathe::reference {

// Elements and scales that belong together. One row per format.
struct ScaledElements {
  const char* name;  // "f8_128", ...
  lathe_dtype element, scale;
  int64_t block;
  bool takes_tall;  // a scale of B may belong to 128 columns
};
const std::vector<ScaledElements>& scaled_elements();
const ScaledElements* scaled_elements_named(const std::string& name);  // null: unknown

struct ScaledSpec {
  const ScaledElements* format = nullptr;
  int64_t lines = 0, k = 0, batch = 1;  // lines: rows of A, columns of B
  int64_t lines_each = 1;               // lines that share a scale
  lathe_scale_layout layout = LATHE_SCALES_BY_LINE;
  int64_t padding = 0;  // elements after each line, and after each matrix; a multiple of 32 in B
  int64_t scale_padding = 0;
  size_t misalign = 0;  // bytes
  bool global = false;
  bool shared_scales = false;  // all matrices of the batch have the same scales
};

class ScaledMatrix {
 public:
  ScaledMatrix() = default;
  ScaledMatrix(const ScaledSpec& spec, Normal* random);

  const ScaledSpec& spec() const { return spec_; }
  // Without the global factor.
  double at(int64_t matrix, int64_t line, int64_t k) const;
  double global() const { return spec_.global ? static_cast<double>(globals_[0]) : 1; }
  double global_of(int64_t matrix) const { return spec_.global ? static_cast<double>(globals_[matrix]) : 1; }
  // Replaces a scale by a code, or by a float if scales are f32.
  void set_scale(int64_t matrix, int64_t line, int64_t block, double value);

  // The operand of the C API, and its scales. Both point into this object.
  lathe_operand operand(bool column_major) const;
  lathe_scale scale() const;
  // The bytes of the operand's elements, and of its scales, from the first on.
  size_t element_bytes() const { return elements_.size() - spec_.misalign - 1; }
  size_t scale_bytes() const { return stored_.size() - bytes_of(spec_.format->scale); }
  // All memory that the operand and its scales point to: addresses and bytes.
  std::vector<std::pair<const void*, size_t>> memory() const {
    return {{elements_.data(), elements_.size()},
            {stored_.data(), stored_.size()},
            {globals_.data(), globals_.size() * sizeof(float)}};
  }

 private:
  int64_t matrices_of_scales() const { return spec_.shared_scales ? 1 : spec_.batch; }
  int64_t scale_lines() const { return (spec_.lines + spec_.lines_each - 1) / spec_.lines_each; }
  int64_t blocks() const { return spec_.k / spec_.format->block; }
  void store_scales();  // makes stored_ from codes_
  void store_tiles(int64_t matrix);

  ScaledSpec spec_;
  std::vector<uint8_t> elements_;  // from the misalignment on
  std::vector<float> codes_;       // of the scales, [matrix][line][block]: values of f32, else codes
  std::vector<uint8_t> stored_;
  std::vector<float> globals_;
  int64_t leading_ = 0, stride_ = 0;              // of elements
  int64_t scale_leading_ = 0, scale_stride_ = 0;  // as lathe_scale counts them
};

// A K by N weight of 4 bits with groups of 128.
struct GroupedWeight {
  lathe_dtype dtype = LATHE_U4_AWQ;
  int64_t k = 0, n = 0, batch = 1;
  bool symmetric = false;                 // all zero points are 8 and not stored
  std::vector<int> codes, zeros;          // [matrix][k][n], [matrix][k / 128][n]
  std::vector<uint16_t> scales;           // f16, [matrix][k / 128][n]
  std::vector<uint32_t> qweight, qzeros;  // as the dtype stores them

  GroupedWeight() = default;
  GroupedWeight(lathe_dtype dtype, int64_t k, int64_t n, int64_t batch, bool symmetric, Normal* random);
  double at(int64_t matrix, int64_t k, int64_t n) const;
  // The unpacked weight of the C API, and its scales.
  lathe_operand operand() const;
  lathe_scale scale() const;

 private:
  void store_words();
};

// DeepGEMM's error measure: 1 - 2 <x, y> / (<x, x> + <y, y>).
double calc_diff(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace lathe::reference
