// Operands of wgmma: matrices in shared memory as the 64-bit descriptors describe them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {

// Rows (of M or N) by K.
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

// 32 bytes of K. `transposed`: the rows' dimension is the contiguous one (16-bit types only). False: an
// error.
bool read_operand(Thread& t, const Instruction& i, uint64_t descriptor, Type type, uint32_t rows,
                  bool transposed, Matrix& matrix);

// a times b transposed: a.rows by b.rows, row-major.
std::vector<double> multiply_transposed(const Matrix& a, const Matrix& b);

}  // namespace lathe::ptx
