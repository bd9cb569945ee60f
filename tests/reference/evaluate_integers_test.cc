// Integers of a payload are evaluated exactly in 64 bits. Expected values are computed by hand or in 128 bits.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/judge.h"

namespace lathe::reference {
namespace {

constexpr int64_t kBig = (int64_t{1} << 53) + 1;  // the smallest positive integer that a double cannot hold
const int64_t kValues[] = {0,
                           1,
                           -1,
                           2,
                           100,
                           -100,
                           (int64_t{1} << 31) - 1,
                           -(int64_t{1} << 31),
                           (int64_t{1} << 31),
                           kBig,
                           -kBig,
                           (int64_t{1} << 62) + 1,
                           INT64_MAX - 1,
                           INT64_MAX,
                           INT64_MIN,
                           INT64_MIN + 1};

int64_t of(const char* name, const char* type, int64_t a, int64_t b, const char* word = "") {
  return scalar(scalar_named(name, type, word), {0, 0, a}, {0, 0, b}, {}).i;
}

// The low `bits` bits of a number, as a signed number.
int64_t low(__int128 x, int bits) {
  const __int128 modulus = static_cast<__int128>(1) << bits;
  __int128 rest = ((x % modulus) + modulus) % modulus;
  if (rest >= modulus / 2) rest -= modulus;
  return static_cast<int64_t>(rest);
}

TEST(EvaluateIntegers, SumsAndProductsWrapAround) {
  const std::pair<const char*, int> types[] = {{"i64", 64}, {"index", 64}, {"i32", 32},
                                               {"i16", 16}, {"i8", 8},     {"i1", 1}};
  for (const auto& [type, bits] : types)
    for (int64_t wide_a : kValues)
      for (int64_t wide_b : kValues) {
        const int64_t a = low(wide_a, bits), b = low(wide_b, bits);
        const __int128 x = a, y = b;
        EXPECT_EQ(of("arith.addi", type, a, b), low(x + y, bits)) << type << " " << a << " " << b;
        EXPECT_EQ(of("arith.subi", type, a, b), low(x - y, bits)) << type << " " << a << " " << b;
        EXPECT_EQ(of("arith.muli", type, a, b), low(x * y, bits)) << type << " " << a << " " << b;
        EXPECT_EQ(of("arith.andi", type, a, b), a & b) << type;
        EXPECT_EQ(of("arith.ori", type, a, b), a | b) << type;
        EXPECT_EQ(of("arith.maxsi", type, a, b), a > b ? a : b) << type << " " << a << " " << b;
        EXPECT_EQ(of("arith.minsi", type, a, b), a < b ? a : b) << type << " " << a << " " << b;
      }
}

TEST(EvaluateIntegers, CastsKeepOrCutBits) {
  EXPECT_EQ(of("arith.trunci", "i32", kBig, 0), 1);
  EXPECT_EQ(of("arith.trunci", "i32", INT64_MAX, 0), -1);
  EXPECT_EQ(of("arith.trunci", "i8", 0x80, 0), -128);
  EXPECT_EQ(of("arith.trunci", "i1", 3, 0), -1);
  EXPECT_EQ(of("arith.extsi", "i64", -128, 0, "i8"), -128);
  EXPECT_EQ(of("arith.extui", "i64", -128, 0, "i8"), 128);
  EXPECT_EQ(of("arith.extui", "i64", -1, 0, "i32"), 0xffffffff);
  EXPECT_EQ(of("arith.index_cast", "i32", (int64_t{1} << 32) + 5, 0, "index"), 5);
  EXPECT_EQ(of("arith.index_cast", "index", -7, 0, "i32"), -7);
  // A set i1 is -1 as a signed number and 1 as an unsigned number.
  EXPECT_EQ(of("arith.extsi", "i64", -1, 0, "i1"), -1);
  EXPECT_EQ(of("arith.extui", "i64", -1, 0, "i1"), 1);
  EXPECT_EQ(of("arith.index_cast", "index", -1, 0, "i1"), -1);
}

// An operation that reads a condition reads it as a number with 1 bit.
TEST(EvaluateIntegers, TreatsConditionsAsBits) {
  const auto compare = [](const char* predicate, int64_t a, int64_t b) {
    return of("arith.cmpi", "i1", a, b, predicate);
  };
  EXPECT_EQ(compare("eq", compare("slt", 1, 2), -1), -1) << "a true constant is what a true comparison is";
  EXPECT_EQ(compare("slt", compare("slt", 1, 2), compare("slt", 2, 1)), -1) << "-1 < 0";
  EXPECT_EQ(compare("ult", compare("slt", 1, 2), compare("slt", 2, 1)), 0) << "not 1 < 0";
  EXPECT_EQ(scalar(scalar_named("arith.cmpf", "i1", "olt"), {1, 0, 0}, {2, 0, 0}, {}).i, -1);
  EXPECT_EQ(compare("slt", kBig - 1, kBig), -1);
  EXPECT_EQ(compare("ult", INT64_MAX, INT64_MIN), -1) << "2^63 - 1 < 2^63";
}

// Values near ties around 2^62, which a double cannot distinguish. Rounding twice would give a wrong result.
TEST(EvaluateIntegers, RoundsAnIntegerToAFloatOnce) {
  const auto stored = [](const char* type, lathe_dtype dtype, int64_t x) {
    double bits = 0;
    store(&bits, dtype, 0, scalar(scalar_named("arith.sitofp", type, "i64"), {0, 0, x}, {}, {}).v);
    return load(&bits, dtype, 0);
  };
  constexpr int64_t kOne = int64_t{1} << 62, kF32 = int64_t{1} << 39, kBF16 = int64_t{1} << 55;
  for (int sign : {1, -1}) {
    // f32 has 24 bits: the unit in the last place is 2^39, half of it 2^38.
    EXPECT_EQ(stored("f32", LATHE_F32, sign * (kOne + kF32 / 2)), sign * 0x1p62) << "a tie goes to even";
    EXPECT_EQ(stored("f32", LATHE_F32, sign * (kOne + kF32 / 2 + 1)), sign * (0x1p62 + 0x1p39));
    EXPECT_EQ(stored("f32", LATHE_F32, sign * (kOne + 3 * (kF32 / 2) - 1)), sign * (0x1p62 + 0x1p39));
    EXPECT_EQ(stored("f32", LATHE_F32, sign * (kOne + 3 * (kF32 / 2))), sign * (0x1p62 + 0x1p40));
    // bf16 has 8 bits: 2^55 and 2^54.
    EXPECT_EQ(stored("bf16", LATHE_BF16, sign * (kOne + kBF16 / 2)), sign * 0x1p62);
    EXPECT_EQ(stored("bf16", LATHE_BF16, sign * (kOne + kBF16 / 2 + 1)), sign * (0x1p62 + 0x1p55));
    EXPECT_EQ(stored("f16", LATHE_F16, sign * int64_t{2049}), sign * 2048.0);
    EXPECT_EQ(stored("f16", LATHE_F16, sign * int64_t{2051}), sign * 2052.0);
    EXPECT_EQ(stored("f16", LATHE_F16, sign * int64_t{65520}), sign * INFINITY);
  }
  const auto bit = [](int64_t i) {
    return scalar(scalar_named("arith.sitofp", "f32", "i1"), {0, 0, i}, {}, {});
  };
  EXPECT_EQ(bit(-1).v, -1) << "a set bit is -1";
  EXPECT_EQ(bit(0).v, 0);
  EXPECT_EQ(stored("f32", LATHE_F32, INT64_MIN), -0x1p63);
  EXPECT_EQ(stored("f32", LATHE_F32, INT64_MAX), 0x1p63);
  // For an f64 result, the text itself asks for rounding to double: 2^53 + 1 is a tie.
  EXPECT_EQ(scalar(scalar_named("arith.sitofp", "f64", "i64"), {0, 0, kBig}, {}, {}).v, 0x1p53);
}

// d[i] = x[i] * kBig + 1.
Json scaled() {
  Json op = {{"value", 1},       {"results", 1},         {"inputs", 1},
             {"dtype", {"i64"}}, {"reduction", {false}}, {"yield", {5}}};
  const Json row = Json::array({Json({0, 1})});
  op["operands"] = Json::array({{{"value", 0}, {"map", row}}, {{"value", 2}, {"map", row}}});
  op["body"] = Json::array({{"number", "i64", kBig},
                            {"arith.muli", "i64", 0, 2},
                            {"number", "i64", 1},
                            {"arith.addi", "i64", 3, 4}});
  op["location"] = "p:1";
  Json meaning = {{"arguments", 1}, {"results", {1}}};
  meaning["ops"] =
      Json::array({{{"value", 2}, {"shape", {nullptr}}, {"empty", true}, {"location", "p:0"}}, op});
  return meaning;
}

TEST(EvaluateIntegers, ComparesEveryBit) {
  std::vector<int64_t> x(std::begin(kValues), std::end(kValues)), d;
  for (int64_t v : x) d.push_back(low(static_cast<__int128>(v) * kBig + 1, 64));
  const auto size = static_cast<int64_t>(x.size());
  Normal random(1);
  const auto judged = [&] {
    Evaluator evaluator = *Evaluator::make(scaled(), {{0, {x.data(), LATHE_I64, {size}}}});
    return judge(&evaluator, 1, d.data(), LATHE_I64, {size}, 5, &random);
  };
  EXPECT_TRUE(judged().ok) << judged().what;
  for (size_t i = 0; i < d.size(); ++i)
    for (int bit : {0, 1, 30, 62, 63}) {
      const int64_t right = d[i];
      d[i] = static_cast<int64_t>(static_cast<uint64_t>(right) ^ uint64_t{1} << bit);
      EXPECT_FALSE(judged().ok) << i << " bit " << bit;
      d[i] = right;
    }
  d[12] += 1;  // x is 2^63 - 2
  const std::string wanted = "[12] is " + std::to_string(d[12]) + "; the payload says " +
                             std::to_string(low((static_cast<__int128>(INT64_MAX) - 1) * kBig + 1, 64));
  EXPECT_EQ(judged().what, wanted);
}

TEST(EvaluateIntegers, RejectsAnUnknownOperation) {
  const std::vector<int64_t> x(3);
  Json meaning = scaled();
  meaning["ops"][1]["body"][1][0] = "arith.shli";
  EXPECT_EQ(Evaluator::make(meaning, {{0, {x.data(), LATHE_I64, {3}}}}).status().message(),
            "p:1: unknown operation arith.shli");
}

// If a value depends on a comparison of floats that are too close, both results are possible. The slack covers exactly
// these two.
TEST(EvaluateIntegers, SlackCoversBothResultsOfACloseComparison) {
  const Number open{0, 1, 0}, sure{0, 0, 7};
  const auto slack = [](const char* name, const char* type, Number a, Number b, const char* word = "") {
    return scalar(scalar_named(name, type, word), a, b, {}).slack;
  };
  EXPECT_EQ(slack("arith.addi", "i32", open, sure), 1);
  EXPECT_EQ(slack("arith.muli", "i32", open, sure), 7);
  EXPECT_EQ(slack("arith.muli", "i32", sure, open), 7);
  EXPECT_EQ(slack("arith.muli", "i32", {0, 2, 10}, {0, 3, -5}), 2 * 5 + 3 * 10 + 2 * 3);
  // 126 or 127 plus 1 may wrap around.
  EXPECT_GE(slack("arith.addi", "i8", {0, 1, 126}, {0, 0, 1}), 255);
  EXPECT_EQ(slack("arith.addi", "i8", {0, 1, 125}, {0, 0, 1}), 1);
  // -1 or 0 becomes 255 or 0.
  EXPECT_GE(slack("arith.extui", "i32", {0, 1, -1}, {}, "i8"), 255);
  EXPECT_EQ(slack("arith.extui", "i32", {0, 1, 3}, {}, "i8"), 1);
  EXPECT_EQ(slack("arith.extui", "i32", {0, 1, -1}, {}, "i1"), 1);
  // The operand may be 7 or 8, which differ in four bits.
  EXPECT_GE(slack("arith.andi", "i32", {0, 1, 7}, {0, 0, 15}), 8);
  EXPECT_EQ(slack("arith.andi", "i1", {0, 1, 0}, {0, 0, -1}), 1);
  EXPECT_EQ(slack("arith.maxsi", "i32", {0, 5, 3}, {0, 0, 6}), 5);
  EXPECT_EQ(slack("arith.cmpi", "i1", {0, 5, 3}, {0, 0, 6}, "slt"), 1);
  EXPECT_EQ(slack("arith.cmpi", "i1", {0, 5, 3}, {0, 0, 60}, "slt"), 0);
  EXPECT_EQ(slack("arith.cmpi", "i1", {0, 1, INT64_MAX}, {0, 0, INT64_MIN}, "slt"), 0);
}

}  // namespace
}  // namespace lathe::reference
