// The operands of wgmma: matrices in shared memory, described by 64-bit descriptors.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {

// A matrix of rows (of M or N) by K.
struct Matrix {
  uint32_t rows = 0, k = 0;
  std::vector<double> values;
  void resize(uint32_t new_rows, uint32_t new_k) {
    rows = new_rows;
    k = new_k;
    values.resize(uint64_t{rows} * k);
  }
  double& at(uint32_t row, uint32_t column) { return values[row * k + column]; }
  double at(uint32_t row, uint32_t column) const { return values[row * k + column]; }
};

double operand_value(Type type, uint32_t bits);

// Reads 32 bytes of K per row. `transposed`: the row dimension is the contiguous one (16-bit types only). False
// after an error.
bool read_operand(Thread& t, const Instruction& i, uint64_t descriptor, Type type, uint32_t rows,
                  bool transposed, Matrix& matrix);

// a times the transpose of b: a.rows by b.rows values, row-major.
std::vector<double> multiply_transposed(const Matrix& a, const Matrix& b);

}  // namespace lathe::ptx
