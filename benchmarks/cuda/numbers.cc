#include "cuda/numbers.h"

namespace lathe::bench {

lathe_dtype result_of(lathe_dtype operands) {
  return operands == LATHE_F8_E4M3 ? LATHE_BF16 : operands == LATHE_I8 ? LATHE_I32 : operands;
}

std::vector<uint8_t> random_numbers(size_t count, lathe_dtype dtype, uint64_t seed) {
  reference::Normal random(seed);
  std::vector<uint8_t> numbers(count * size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    const double number = dtype == LATHE_I8 ? static_cast<double>(random.below(255) - 127) : random.next();
    reference::store(numbers.data(), dtype, static_cast<int64_t>(i), number);
  }
  return numbers;
}

}  // namespace lathe::bench
