// Reads operands with one scale for each block of elements (fp8 and fp4), so that a product with them becomes one of an f32
// or 16-bit A by a B in blocks.
#pragma once

#include "lathe/lathe.h"
#include "request/request.h"

namespace lathe {

// Whether A or B has block scales. Also true for a lathe_scale of a wrong size, which read_scaled() then refuses.
bool has_block_scales(const lathe_matmul_desc& d);
// Whether the distance of block scales is 0 for the number of lines. `scale` may be null or have a wrong size.
bool counts_lines(const lathe_scale* scale);
// Checks the scales of `d`. Writes them to `out`, and to `plain` the descriptor of the product with B in blocks, and A
// of f32 on the CPU and in blocks on GPUs and in a manifest, both without scales. Sizes may be out of range.
absl::Status read_scaled(const lathe_matmul_desc& d, Purpose purpose, Devices devices, ScaledProduct* out,
                         lathe_matmul_desc* plain);
// Sets the fields of a GPU's launch for the scales of A and B. B's are those of all its columns.
void set_scale_arguments(const ScaledProduct& scaled, ArgumentBlock* args);
// 2 for fp4 and blocks of it, else 1.
int64_t elements_a_byte(DType t);
// The elements of a scaled A with distances in bytes: an i8 operand. `lines`: how many there are, with K as columns.
// Becomes their bytes. Distances that are read must be whole bytes.
absl::Status bytes_of_elements(const lathe_operand& o, Matrices* lines, lathe_operand* out);
// The matrices of a batch that the operand's scales are for: one if all share them.
int64_t scale_matrices(const StoredScales& scales, int64_t batch);

}  // namespace lathe
