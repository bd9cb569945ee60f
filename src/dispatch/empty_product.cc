#include "dispatch/empty_product.h"

#include <cmath>
#include <cstring>

namespace lathe {
namespace {

float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Not every supported compiler has _Float16, and the library's baseline has no F16C, so the conversions are
// written out.
float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return bits_to_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
  return sign != 0 ? -magnitude : magnitude;
}

// Round to nearest, ties to even.
uint16_t float_to_half(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint16_t sign = bits >> 16 & 0x8000u;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  // Below 2^-14 the spacing of halves is 2^-24: a subnormal, or the smallest normal after rounding up.
  if (magnitude < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  const uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + (bits >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Uses memcpy, since pointers may be misaligned.
float load(const void* base, int64_t index, DType type) {
  const char* element = static_cast<const char*>(base) + index * static_cast<int64_t>(size_of(type));
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return type == DType::kF16 ? half_to_float(bits) : bits_to_float(static_cast<uint32_t>(bits) << 16);
}

void store(void* base, int64_t index, DType type, float value) {
  char* element = static_cast<char*>(base) + index * static_cast<int64_t>(size_of(type));
  if (type == DType::kF32) {
    std::memcpy(element, &value, sizeof value);
    return;
  }
  if (type == DType::kI32) {
    const auto sum = static_cast<int32_t>(value);
    std::memcpy(element, &sum, sizeof sum);
    return;
  }
  const uint16_t bits = type == DType::kF16 ? float_to_half(value) : float_to_bf16(value);
  std::memcpy(element, &bits, sizeof bits);
}

float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x < 0.0f ? 0.0f : x;
    case Activation::kGelu: return x * 0.5f * (1.0f + std::erf(x * 0.70710678118654752f));
    case Activation::kGeluTanh:
      return x * 0.5f * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kSilu: return x / (1.0f + std::exp(-x));
  }
  return x;
}

// matmul_argmax. All rows have the same logits: the bias, or zeros.
void run_empty_comparison(const ProblemClass& problem, const ArgumentBlock& args) {
  int64_t best = 0;
  float greatest = 0.0f;
  for (int64_t j = 0; problem.bias != DType::kNone && j < args.n; ++j) {
    // As in a kernel: add the bias to the product, then round to the dtype of the logits.
    const float sum = 0.0f + load(args.bias, j, problem.bias);
    float logit = 0.0f;
    store(&logit, 0, problem.logits, sum);
    logit = load(&logit, 0, problem.logits);
    if (j == 0 || logit > greatest || std::isnan(logit)) best = j, greatest = logit;
    if (std::isnan(greatest)) break;
  }
  const int64_t index = best + args.index_offset;
  for (int64_t i = 0; i < args.m; ++i) {
    const size_t size = size_of(problem.d);
    const auto narrow = static_cast<int32_t>(index);
    std::memcpy(static_cast<char*>(args.d) + static_cast<size_t>(i) * size,
                problem.d == DType::kI64 ? static_cast<const void*>(&index) : &narrow, size);
    if (problem.wants_values) store(args.values, i, DType::kF32, greatest);
  }
}

}  // namespace

void run_empty_product(const ProblemClass& problem, const ArgumentBlock& args) {
  if (problem.op == Op::kMatmulArgmax) return run_empty_comparison(problem, args);
  const float product = args.alpha * 0.0f;
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        float x = product;
        if (problem.c != DType::kNone) {
          x += args.beta * load(args.c, b * args.stride_c + i * args.ldc + j, problem.c);
        }
        if (problem.bias != DType::kNone) x += load(args.bias, j, problem.bias);
        x = activate(problem.activation, x);
        if (problem.residual != DType::kNone) {
          x += load(args.residual, b * args.stride_r + i * args.ldr + j, problem.residual);
        }
        store(args.d, b * args.stride_d + i * args.ldd + j, problem.d, x);
      }
    }
  }
}

}  // namespace lathe
