// Numbers in memory as f32, and sums of rows. For the few computations that the host does itself.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace lathe {

// Element `index` of an array of f32, f16 or bf16. Pointers may be misaligned.
float load_number(const void* base, int64_t index, DType type);
// The same, rounded to nearest, ties to even. i32 takes exact values only.
void store_number(void* base, int64_t index, DType type, float value);

// Up to `count` rows of `columns` f32 values, one after the other in `base`, each with a weight.
struct WeightedRows {
  const float* base;
  int64_t columns;
  const int32_t* row;  // -1: this one does not count
  const float* weight;
  int64_t count;
};
// Writes the sum of weight * row, in this order, to a row of f32, f16 or bf16. 0 if no row counts.
void sum_rows(const WeightedRows& rows, DType type, void* out);

}  // namespace lathe
