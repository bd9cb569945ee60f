// argmax as simple loops over numbers without NaN, which the compiler vectorises for this machine. The build
// fails if it does not.
#pragma once

#include <cstdint>

namespace lathe::bench {

int64_t scalar_argmax(const float* x, int64_t n);
int64_t scalar_argmax(const _Float16* x, int64_t n);
// x holds the bits of bf16 numbers.
int64_t scalar_argmax(const uint16_t* x, int64_t n);

}  // namespace lathe::bench
