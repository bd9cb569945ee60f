// Scalar instructions on random and extreme operands, compared with the same operation in C++.
#include <cmath>
#include <limits>

#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

constexpr int kCount = 256;

// Runs `instruction`, which reads a, b, c (each of type In) and writes d (of type Out), for one operand triple per
// thread.
template <typename Out, typename In>
std::vector<Out> evaluate(const std::string& instruction, const std::string& registers,
                          const std::vector<In>& a, const std::vector<In>& b, const std::vector<In>& c) {
  std::vector<Out> d(a.size());
  std::vector<In> in[3] = {a, b, c};
  const auto bits = [](size_t size) { return absl::StrCat("b", 8 * size); };
  std::string body = absl::StrCat(registers, "mov.u32 %r0, %tid.x; mul.wide.u32 %rd10, %r0, ", sizeof(In),
                                  "; mul.wide.u32 %rd11, %r0, ", sizeof(Out), ";\n");
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&body, "add.s64 %rd12, %rd", i, ", %rd10; ld.global.", bits(sizeof(In)), " ",
                    std::string(1, static_cast<char>('a' + i)), ", [%rd12];\n");
  }
  absl::StrAppend(&body, instruction, "\nadd.s64 %rd12, %rd3, %rd11; st.global.", bits(sizeof(Out)),
                  " [%rd12], d;");
  Program program(4, body);
  for (auto& values : in) program.buffer(values);
  program.buffer(d);
  const absl::Status status = program.run({1, 1, 1}, {static_cast<uint32_t>(a.size()), 1, 1});
  EXPECT_TRUE(status.ok()) << status;
  return d;
}

std::string registers(const std::string& d, const std::string& abc) {
  return absl::StrCat(".reg .", d, " d; .reg .", abc, " a, b, c;\n");
}

template <typename T>
std::vector<T> integers() {
  static constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  std::vector<T> values = {
      0, 1, kLow, kHigh, static_cast<T>(kLow + 1), static_cast<T>(kHigh - 1), static_cast<T>(-1), 31, 32, 33};
  while (values.size() < kCount) values.push_back(static_cast<T>(test_random()() >> (test_random()() % 60)));
  std::shuffle(values.begin(), values.end(), test_random());
  return values;
}

std::vector<float> floats() {
  std::vector<float> values = {0.0f, -0.0f,  1.0f,    -1.0f,   INFINITY,       -INFINITY,
                               NAN,  1e-42f, -1e-42f, 3.4e38f, 1.17549435e-38f};
  while (values.size() < kCount) {
    values.push_back(
        std::ldexp(std::uniform_real_distribution<float>(-2, 2)(test_random()), random_int(-20, 20)));
  }
  std::shuffle(values.begin(), values.end(), test_random());
  return values;
}

template <typename T, typename Out, typename F>
void check_integers(const char* instruction, const char* type, F expected) {
  SCOPED_TRACE(instruction);
  const std::string bits = absl::StrCat("b", 8 * sizeof(T));
  const auto a = integers<T>(), b = integers<T>(), c = integers<T>();
  const auto d = evaluate<Out>(absl::StrCat(instruction, ".", type, " d, a, b;"),
                               registers(absl::StrCat("b", 8 * sizeof(Out)), bits), a, b, c);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(d[i], expected(a[i], b[i])) << +a[i] << ", " << +b[i];
}

TEST(Integer, Arithmetic) {
  check_integers<int32_t, int32_t>("add", "s32",
                                   [](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} + b); });
  check_integers<int32_t, int32_t>("sub", "s32",
                                   [](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} - b); });
  check_integers<int32_t, int32_t>("add.sat", "s32", [](int32_t a, int32_t b) {
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(int64_t{a} + b, INT32_MIN), INT32_MAX));
  });
  check_integers<uint16_t, uint16_t>("add", "u16",
                                     [](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a + b); });
  check_integers<int32_t, int32_t>("mul.lo", "s32",
                                   [](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} * b); });
  check_integers<int32_t, int32_t>(
      "mul.hi", "s32", [](int32_t a, int32_t b) { return static_cast<int32_t>((int64_t{a} * b) >> 32); });
  check_integers<uint32_t, uint32_t>(
      "mul.hi", "u32", [](uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); });
  check_integers<int32_t, int64_t>("mul.wide", "s32", [](int32_t a, int32_t b) { return int64_t{a} * b; });
  check_integers<uint32_t, uint64_t>("mul.wide", "u32",
                                     [](uint32_t a, uint32_t b) { return uint64_t{a} * b; });
  check_integers<int16_t, int32_t>("mul.wide", "s16", [](int16_t a, int16_t b) { return int32_t{a} * b; });
  check_integers<uint64_t, uint64_t>("mul.hi", "u64", [](uint64_t a, uint64_t b) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
  });
  check_integers<int64_t, int64_t>("mul.lo", "s64", [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  });
  check_integers<int64_t, int64_t>("div", "s64", [](int64_t a, int64_t b) {
    return b == 0 ? -1 : b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
  });
  check_integers<uint32_t, uint32_t>("rem", "u32", [](uint32_t a, uint32_t b) { return b == 0 ? a : a % b; });
  check_integers<int32_t, int32_t>("min", "s32", [](int32_t a, int32_t b) { return a < b ? a : b; });
  check_integers<uint64_t, uint64_t>("max", "u64", [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

TEST(Integer, LogicAndShifts) {
  check_integers<uint32_t, uint32_t>("and", "b32", [](uint32_t a, uint32_t b) { return a & b; });
  check_integers<uint64_t, uint64_t>("xor", "b64", [](uint64_t a, uint64_t b) { return a ^ b; });
  const auto a = integers<uint64_t>(), c = integers<uint64_t>();
  std::vector<uint64_t> b(kCount);
  for (auto& amount : b) amount = static_cast<uint64_t>(random_int(0, 70));
  const std::string regs = ".reg .b64 d, a, b, c; .reg .b32 n;\n";
  const auto shl = evaluate<uint64_t>("cvt.u32.u64 n, b; shl.b64 d, a, n;", regs, a, b, c);
  const auto shr = evaluate<uint64_t>("cvt.u32.u64 n, b; shr.s64 d, a, n;", regs, a, b, c);
  const auto shr32 = evaluate<uint64_t>(
      ".reg .b32 x; cvt.u32.u64 n, b; cvt.u32.u64 x, a; shr.u32 x, x, n; cvt.u64.u32 d, x;", regs, a, b, c);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(shl[i], b[i] >= 64 ? 0 : a[i] << b[i]);
    EXPECT_EQ(static_cast<int64_t>(shr[i]), static_cast<int64_t>(a[i]) >> std::min<uint64_t>(b[i], 63));
    EXPECT_EQ(shr32[i], b[i] >= 32 ? 0 : static_cast<uint32_t>(a[i]) >> b[i]);
  }
}

TEST(Integer, BitFields) {
  const auto a = integers<uint32_t>(), b = integers<uint32_t>();
  std::vector<uint32_t> c(kCount);
  for (auto& value : c) value = static_cast<uint32_t>(random_int(0, 31) | random_int(0, 32) << 8);
  const std::string regs = ".reg .b32 d, a, b, c, pos, len;\nand.b32 d, d, 0;\n";
  const std::string split = "and.b32 pos, c, 255; shr.u32 len, c, 8; ";
  const auto bfe = evaluate<uint32_t>(split + "bfe.u32 d, a, pos, len;", regs, a, b, c);
  const auto bfe_signed = evaluate<uint32_t>(split + "bfe.s32 d, a, pos, len;", regs, a, b, c);
  const auto bfi = evaluate<uint32_t>(split + "bfi.b32 d, a, b, pos, len;", regs, a, b, c);
  const auto prmt = evaluate<uint32_t>("prmt.b32 d, a, b, c;", regs, a, b, c);
  const auto lop3 = evaluate<uint32_t>("lop3.b32 d, a, b, c, 0xE8;", regs, a, b, c);
  const auto shf = evaluate<uint32_t>("shf.l.wrap.b32 d, a, b, c;", regs, a, b, c);
  const auto brev = evaluate<uint32_t>("brev.b32 d, a;", regs, a, b, c);
  const auto popc = evaluate<uint32_t>("popc.b32 d, a;", regs, a, b, c);
  const auto clz = evaluate<uint32_t>("clz.b32 d, a;", regs, a, b, c);
  const auto bfind = evaluate<uint32_t>("bfind.u32 d, a;", regs, a, b, c);
  for (int i = 0; i < kCount; ++i) {
    const uint32_t pos = c[i] & 255, len = c[i] >> 8;
    const uint64_t mask = (uint64_t{1} << len) - 1;
    const uint32_t field = static_cast<uint32_t>((uint64_t{a[i]} >> pos) & mask);
    EXPECT_EQ(bfe[i], field);
    const uint32_t top = std::min(pos + len - 1, 31u);
    const bool sign = len != 0 && (a[i] >> top & 1) != 0;
    EXPECT_EQ(bfe_signed[i],
              sign ? static_cast<uint32_t>((uint64_t{a[i]} >> pos | ~uint64_t{0} << (32 - pos)) & mask) |
                         ~static_cast<uint32_t>(mask)
                   : field)
        << pos << " " << len;
    const uint32_t placed = static_cast<uint32_t>(mask << pos);
    EXPECT_EQ(bfi[i], (b[i] & ~placed) | (static_cast<uint32_t>(uint64_t{a[i]} << pos) & placed));
    uint32_t permuted = 0;
    const uint64_t both = uint64_t{b[i]} << 32 | a[i];
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t selector = c[i] >> (4 * byte) & 15;
      const uint32_t value = both >> (8 * (selector & 7)) & 255;
      permuted |= (selector & 8 ? (value & 128 ? 255u : 0u) : value) << (8 * byte);
    }
    EXPECT_EQ(prmt[i], permuted);
    EXPECT_EQ(lop3[i], (a[i] & b[i]) | (a[i] & c[i]) | (b[i] & c[i]));  // 0xE8 is the majority
    const uint32_t amount = c[i] & 31;
    EXPECT_EQ(shf[i], amount == 0 ? b[i] : b[i] << amount | a[i] >> (32 - amount));
    uint32_t reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (a[i] >> bit & 1) << (31 - bit);
    EXPECT_EQ(brev[i], reversed);
    EXPECT_EQ(popc[i], static_cast<uint32_t>(__builtin_popcount(a[i])));
    EXPECT_EQ(clz[i], a[i] == 0 ? 32u : static_cast<uint32_t>(__builtin_clz(a[i])));
    EXPECT_EQ(bfind[i], a[i] == 0 ? ~0u : 31u - static_cast<uint32_t>(__builtin_clz(a[i])));
  }
}

void expect_same(float actual, float expected, const std::string& where) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << where;
  } else {
    EXPECT_EQ(actual, expected) << where;
    EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << where;
  }
}

template <typename F>
void check_floats(const char* instruction, F expected) {
  SCOPED_TRACE(instruction);
  const auto a = floats(), b = floats(), c = floats();
  const auto d = evaluate<float>(instruction, registers("f32", "f32"), a, b, c);
  for (int i = 0; i < kCount; ++i)
    expect_same(d[i], expected(a[i], b[i], c[i]), absl::StrCat(a[i], ", ", b[i], ", ", c[i]));
}

TEST(Float, Arithmetic) {
  check_floats("add.rn.f32 d, a, b;", [](float a, float b, float) { return a + b; });
  check_floats("mul.rn.f32 d, a, b;", [](float a, float b, float) { return a * b; });
  check_floats("fma.rn.f32 d, a, b, c;", [](float a, float b, float c) { return std::fma(a, b, c); });
  check_floats("div.rn.f32 d, a, b;", [](float a, float b, float) { return a / b; });
  check_floats("sqrt.rn.f32 d, a;", [](float a, float, float) { return std::sqrt(a); });
  check_floats("neg.f32 d, a;", [](float a, float, float) { return -a; });
  const auto flushed = [](float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; };
  check_floats("add.ftz.f32 d, a, b;",
               [&](float a, float b, float) { return flushed(flushed(a) + flushed(b)); });
  check_floats("add.sat.f32 d, a, b;",
               [](float a, float b, float) { return !(a + b > 0) ? 0.0f : std::min(a + b, 1.0f); });
  // A NaN operand is ignored unless .NaN is set.
  check_floats("min.f32 d, a, b;",
               [](float a, float b, float) { return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b); });
  check_floats("max.NaN.f32 d, a, b;", [](float a, float b, float) {
    return std::isnan(a) || std::isnan(b) ? NAN : a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b);
  });
}

TEST(Float, DirectedRounding) {
  const auto a = floats(), b = floats(), c = floats();
  const auto down = evaluate<float>("mul.rm.f32 d, a, b;", registers("f32", "f32"), a, b, c);
  const auto up = evaluate<float>("mul.rp.f32 d, a, b;", registers("f32", "f32"), a, b, c);
  for (int i = 0; i < kCount; ++i) {
    const double exact = static_cast<double>(a[i]) * b[i];
    if (!std::isfinite(exact) || std::fabs(exact) > 3e38 || std::fabs(exact) < 1e-30) continue;
    EXPECT_LE(down[i], exact);
    EXPECT_GE(up[i], exact);
    EXPECT_TRUE(down[i] == up[i] || std::nextafter(down[i], INFINITY) == up[i]);
  }
}

TEST(Float, Functions) {
  std::vector<float> a(kCount), none(kCount, 0);
  for (float& x : a)
    x = std::ldexp(std::uniform_real_distribution<float>(0.5, 2)(test_random()), random_int(-6, 5));
  const auto check = [&](const char* instruction, double (*f)(double)) {
    const auto d = evaluate<float>(instruction, registers("f32", "f32"), a, none, none);
    for (int i = 0; i < kCount; ++i)
      EXPECT_NEAR(d[i], f(a[i]), 1e-6 * std::max(1.0, std::fabs(f(a[i])))) << instruction << " " << a[i];
  };
  check("ex2.approx.f32 d, a;", [](double x) { return std::pow(2.0, x); });
  check("lg2.approx.f32 d, a;", [](double x) { return std::log(x) / std::log(2.0); });
  check("rcp.approx.ftz.f32 d, a;", [](double x) { return 1 / x; });
  check("rsqrt.approx.f32 d, a;", [](double x) { return 1 / std::sqrt(x); });
  check("tanh.approx.f32 d, a;", [](double x) { return std::tanh(x); });
  check("sin.approx.f32 d, a;", [](double x) { return std::sin(x); });
}

// Rounds to `bits` significant bits; only for numbers in the normal range of the format.
double rounded(double x, int bits) {
  int exponent;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

TEST(Half, RoundsOnce) {
  std::vector<uint16_t> f16(kCount), bf16(kCount), g16(kCount), gb16(kCount), c(kCount);
  for (int i = 0; i < kCount; ++i) {
    for (auto* values : {&f16, &g16, &c})
      (*values)[i] = static_cast<uint16_t>(random_int(9 << 10, (21 << 10) - 1) | random_int(0, 1) << 15);
    for (auto* values : {&bf16, &gb16})
      (*values)[i] = static_cast<uint16_t>(random_int(120 << 7, (134 << 7) - 1) | random_int(0, 1) << 15);
  }
  const auto fma = evaluate<uint16_t>("fma.rn.f16 d, a, b, c;", registers("b16", "b16"), f16, g16, c);
  const auto mul = evaluate<uint16_t>("mul.rn.bf16 d, a, b;", registers("b16", "b16"), bf16, gb16, c);
  const auto add = evaluate<uint16_t>("add.rn.f16 d, a, b;", registers("b16", "b16"), f16, g16, c);
  for (int i = 0; i < kCount; ++i) {
    // `exact` is exact in double: the exponents differ by at most 12.
    const double exact = value_f16(f16[i]) * value_f16(g16[i]) + value_f16(c[i]);
    if (std::fabs(exact) > 1e-4) EXPECT_EQ(value_f16(fma[i]), rounded(exact, 11));
    EXPECT_EQ(value_bf16(mul[i]), rounded(value_bf16(bf16[i]) * value_bf16(gb16[i]), 8));
    const double sum = value_f16(f16[i]) + value_f16(g16[i]);
    if (std::fabs(sum) > 1e-4) EXPECT_EQ(value_f16(add[i]), rounded(sum, 11));
  }
}

// f32 instructions with 16-bit operands (sm_100 and later): exact widening, one rounding.
TEST(Half, MixedWithFloats) {
  const auto bits = [](float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    return u;
  };
  std::vector<uint32_t> a(kCount), b(kCount), c(kCount);
  std::vector<float> third(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = static_cast<uint32_t>(random_int(9 << 10, (21 << 10) - 1) | random_int(0, 1) << 15);
    b[i] = static_cast<uint32_t>(random_int(120 << 7, (134 << 7) - 1) | random_int(0, 1) << 15);
    third[i] = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(test_random()), random_int(-4, 4));
    c[i] = bits(third[i]);
  }
  const std::string halves = "mov.b32 {h, x}, a; mov.b32 {g, x}, b; ";
  const std::string declared = registers("b32", "b32") + ".reg .b16 h, g, x;\n";
  const auto add = evaluate<uint32_t>(halves + "add.rn.f32.f16 d, h, c;", declared, a, b, c);
  const auto sub = evaluate<uint32_t>(halves + "sub.f32.bf16 d, g, c;", declared, a, b, c);
  const auto up = evaluate<uint32_t>(halves + "add.rp.sat.f32.bf16 d, g, c;", declared, a, b, c);
  const auto fma = evaluate<uint32_t>(halves + "fma.rn.f32.f16 d, h, h, c;", declared, a, b, c);
  for (int i = 0; i < kCount; ++i) {
    const double h = value_f16(static_cast<uint16_t>(a[i])), g = value_bf16(static_cast<uint16_t>(b[i]));
    EXPECT_EQ(add[i], bits(static_cast<float>(h + third[i])));  // exact in double
    EXPECT_EQ(sub[i], bits(static_cast<float>(g - third[i])));
    EXPECT_EQ(fma[i], bits(static_cast<float>(h * h + third[i])));
    float above = static_cast<float>(g + third[i]);
    if (above < g + third[i]) above = std::nextafter(above, INFINITY);
    EXPECT_EQ(up[i], bits(std::min(std::max(above, 0.0f), 1.0f)));
  }
}

TEST(Half, PairsAreTwoHalves) {
  std::vector<uint32_t> a(kCount), b(kCount), c(kCount, 0);
  const auto half = [] { return static_cast<uint32_t>(random_int(9 << 10, (21 << 10) - 1)); };
  for (int i = 0; i < kCount; ++i) a[i] = half() | half() << 16, b[i] = half() | half() << 16;
  const auto d = evaluate<uint32_t>("mul.rn.f16x2 d, a, b;", registers("b32", "b32"), a, b, c);
  for (int i = 0; i < kCount; ++i) {
    for (int shift : {0, 16}) {
      const auto at = [&](uint32_t x) { return value_f16(static_cast<uint16_t>(x >> shift)); };
      const double exact = at(a[i]) * at(b[i]);
      if (exact > 1e-4 && exact < 60000) EXPECT_EQ(at(d[i]), rounded(exact, 11));
    }
  }
}

TEST(Convert, FloatsToIntegersSaturate) {
  const auto a = floats();
  const std::vector<float> none(a.size(), 0);
  const auto check = [&](const char* instruction, auto low, auto high, double (*whole)(double)) {
    using T = decltype(low);
    const auto d = evaluate<T>(
        instruction, absl::StrCat(".reg .b", 8 * sizeof(T), " d; .reg .f32 a, b, c;\n"), a, none, none);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i])) {
        if (sizeof(T) == 4) EXPECT_EQ(d[i], T{0});
        continue;
      }
      const double x = whole(a[i]);
      const T expected = x <= static_cast<double>(low)    ? low
                         : x >= static_cast<double>(high) ? high
                                                          : static_cast<T>(x);
      EXPECT_EQ(d[i], expected) << instruction << " " << a[i];
    }
  };
  const auto even = [](double x) { return std::nearbyint(x); };
  check("cvt.rzi.s32.f32 d, a;", INT32_MIN, INT32_MAX, std::trunc);
  check("cvt.rni.s32.f32 d, a;", INT32_MIN, INT32_MAX, even);
  check("cvt.rmi.u32.f32 d, a;", uint32_t{0}, UINT32_MAX, std::floor);
  check("cvt.rpi.s64.f32 d, a;", INT64_MIN, INT64_MAX, std::ceil);
}

TEST(Convert, IntegersToFloatsRoundOnce) {
  const auto a = integers<int64_t>();
  const auto d = evaluate<float>("cvt.rn.f32.s64 d, a;", ".reg .f32 d; .reg .b64 a, b, c;\n", a, a, a);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(d[i], static_cast<float>(a[i]));
  const auto b = integers<int32_t>();
  const auto extended = evaluate<int64_t>("cvt.s64.s8 d, a;", ".reg .b64 d; .reg .b32 a, b, c;\n", b, b, b);
  const auto saturated = evaluate<int32_t>("cvt.sat.u8.s32 d, a;", ".reg .b32 d, a, b, c;\n", b, b, b);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(extended[i], static_cast<int8_t>(b[i]));
    EXPECT_EQ(saturated[i], std::min(std::max(b[i], 0), 255));
  }
}

TEST(Convert, NarrowFormats) {
  std::vector<float> a(kCount), b(kCount), c(kCount, 0);
  for (int i = 0; i < kCount; ++i) {
    a[i] = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(test_random()), random_int(-4, 6));
    b[i] = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(test_random()), random_int(-4, 6));
  }
  const std::string regs = ".reg .b32 d; .reg .f32 a, b, c; .reg .b16 h;\n";
  const auto pair = evaluate<uint32_t>("cvt.rn.f16x2.f32 d, a, b;", regs, a, b, c);
  const auto brain = evaluate<uint32_t>("cvt.rn.bf16x2.f32 d, a, b;", regs, a, b, c);
  const auto tf32 = evaluate<float>("cvt.rna.tf32.f32 d, a;", regs, a, b, c);
  // A round trip through pairs of 8-bit floats.
  const auto e4m3 =
      evaluate<uint32_t>("cvt.rn.satfinite.e4m3x2.f32 h, a, b; cvt.rn.f16x2.e4m3x2 d, h;", regs, a, b, c);
  for (int i = 0; i < kCount; ++i) {
    const auto high = [](uint32_t x) { return static_cast<uint16_t>(x >> 16); };
    const auto low = [](uint32_t x) { return static_cast<uint16_t>(x); };
    EXPECT_EQ(value_f16(high(pair[i])), rounded(a[i], 11));
    EXPECT_EQ(value_f16(low(pair[i])), rounded(b[i], 11));
    EXPECT_EQ(value_bf16(high(brain[i])), rounded(a[i], 8));
    EXPECT_EQ(value_bf16(low(brain[i])), rounded(b[i], 8));
    int exponent;
    const double away = std::frexp(a[i], &exponent);
    EXPECT_EQ(tf32[i], std::ldexp(std::round(std::ldexp(away, 11)), exponent - 11));
    const auto eight = [](double x) {
      return std::fabs(x) < 0.015625 ? std::ldexp(std::nearbyint(std::ldexp(x, 9)), -9) : rounded(x, 4);
    };
    EXPECT_EQ(value_f16(high(e4m3[i])), eight(a[i]));
    EXPECT_EQ(value_f16(low(e4m3[i])), eight(b[i]));
  }
}

TEST(Compare, OrderedAndUnordered) {
  const auto a = floats(), b = floats();
  const std::string regs = ".reg .b32 d; .reg .f32 a, b, c; .reg .pred p, q;\n";
  const auto check = [&](const char* name, bool (*expected)(float, float)) {
    const auto d =
        evaluate<uint32_t>(absl::StrCat("setp.", name, ".f32 p, a, b; selp.b32 d, 1, 0, p;"), regs, a, b, a);
    for (int i = 0; i < kCount; ++i)
      EXPECT_EQ(d[i] != 0, expected(a[i], b[i])) << name << " " << a[i] << " " << b[i];
  };
  check("lt", [](float x, float y) { return x < y; });
  check("ltu", [](float x, float y) { return !(x >= y); });
  check("ne", [](float x, float y) { return x < y || x > y; });
  check("neu", [](float x, float y) { return !(x == y); });
  check("num", [](float x, float y) { return x == x && y == y; });
  check("nan", [](float x, float y) { return x != x || y != y; });
  const auto both = evaluate<uint32_t>(
      "setp.gt.f32 p, a, 0f00000000; setp.lt.and.f32 p|q, a, b, p; selp.b32 d, 1, 0, p; @q add.u32 d, d, 2;",
      regs, a, b, a);
  for (int i = 0; i < kCount; ++i) {
    const bool c = a[i] > 0;
    EXPECT_EQ(both[i], (a[i] < b[i] && c ? 1u : 0u) + (!(a[i] < b[i]) && c ? 2u : 0u));
  }
}

}  // namespace
}  // namespace lathe::ptx
