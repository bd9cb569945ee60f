// What a programmer writes without a library: loops over numbers none of which is a NaN, vectorised by the
// compiler for this machine (which it is an error if they are not).
#pragma once

#include <cstdint>

namespace lathe::bench {

int64_t scalar_argmax(const float* x, int64_t n);
int64_t scalar_argmax(const _Float16* x, int64_t n);
// bf16 as its bits.
int64_t scalar_argmax(const uint16_t* x, int64_t n);

}  // namespace lathe::bench
