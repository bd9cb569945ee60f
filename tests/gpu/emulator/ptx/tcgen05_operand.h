// What the descriptors of tcgen05.mma with block scales say, and the operands in shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

enum class BlockKind : uint8_t { mxf8f6f4, mxf4, mxf4nvf4 };

// The instruction descriptor of a kind with block scales.
struct ProductFields {
  uint32_t a_type, b_type, n, first_a, first_b;  // first: which of the four scales of a word
  bool negate, powers_of_two;
};
// "" or what is wrong. `scales`: how many scales an instruction uses for each line.
std::string decode_product_fields(uint32_t bits, BlockKind kind, uint32_t scales, ProductFields& fields);

// The bytes of `rows` rows in shared memory, `chunks` times 16 each, as a K-major descriptor describes them; one row
// after the other. False after an error.
bool read_rows(Thread& t, const Instruction& i, uint64_t descriptor, uint32_t rows, uint32_t chunks,
               std::vector<uint8_t>& bytes);

// The elements of a row of 32 bytes. `type` is that of the instruction descriptor.
uint32_t elements_in_row(BlockKind kind);
void decode_elements(BlockKind kind, uint32_t type, const uint8_t* bytes, double* values);
// The value of a scale; E4M3 scales have no sign.
double scale_value(uint8_t bits, bool power_of_two);

}  // namespace lathe::ptx
