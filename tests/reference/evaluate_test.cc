// Compares the evaluator of payloads with loops written here.
#include "reference/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/judge.h"

namespace lathe::reference {
namespace {

// Makes an evaluator of `meaning`. The location of its op N is "p:N".
absl::StatusOr<Evaluator> make_evaluator(Json meaning, const std::map<int64_t, Evaluator::Bound>& values) {
  for (size_t i = 0; i < meaning["ops"].size(); ++i) meaning["ops"][i]["location"] = "p:" + std::to_string(i);
  return Evaluator::make(meaning, values);
}
Evaluator evaluator_of(const Json& meaning, const std::map<int64_t, Evaluator::Bound>& values) {
  absl::StatusOr<Evaluator> evaluator = make_evaluator(meaning, values);
  EXPECT_TRUE(evaluator.ok()) << evaluator.status();
  return *std::move(evaluator);
}

// d[i, j] = relu(sum over k of a[i, k] b[`map_b`] + bias[j]), with the loops (i, j, k) and then (i, j).
Json product_meaning(const std::vector<std::vector<int64_t>>& map_b) {
  const Json rows_i = {0, 1, 0, 0}, rows_j = {0, 0, 1, 0}, rows_k = {0, 0, 0, 1};
  Json product = {
      {"value", 3},  {"results", 1}, {"inputs", 2}, {"dtype", {"f32"}}, {"reduction", {false, false, true}},
      {"yield", {4}}};
  product["operands"] = Json::array({{{"value", 0}, {"map", {rows_i, rows_k}}},
                                     {{"value", 1}, {"map", map_b}},
                                     {{"value", 5}, {"map", {rows_i, rows_j}}}});
  product["body"] = Json::array({{"arith.mulf", "f32", 0, 1}, {"arith.addf", "f32", 2, 3}});
  Json epilogue = {
      {"value", 4},  {"results", 1}, {"inputs", 2}, {"dtype", {"f32"}}, {"reduction", {false, false}},
      {"yield", {5}}};
  epilogue["operands"] = Json::array({{{"value", 3}, {"map", {{0, 1, 0}, {0, 0, 1}}}},
                                      {{"value", 2}, {"map", Json::array({Json({0, 0, 1})})}},
                                      {{"value", 6}, {"map", {{0, 1, 0}, {0, 0, 1}}}}});
  epilogue["body"] =
      Json::array({{"arith.addf", "f32", 0, 1}, {"number", "f32", 0.0}, {"arith.maximumf", "f32", 3, 4}});
  Json meaning = {{"arguments", 3}, {"results", {4}}};
  meaning["ops"] = Json::array({{{"value", 5}, {"shape", {nullptr, nullptr}}, {"fill", 0.0}},
                                {{"value", 6}, {"shape", {nullptr, nullptr}}, {"empty", true}},
                                product,
                                epilogue});
  return meaning;
}

constexpr int64_t kM = 7, kN = 7, kK = 7;  // square, so that only the numbers distinguish the layouts

struct Data {
  std::vector<float> a, b, bias, d;
  explicit Data(Normal* random) : a(kM * kK), b(kK * kN), bias(kN), d(kM * kN) {
    for (auto* v : {&a, &b, &bias})
      for (float& x : *v) x = random->next();
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kK; ++k) sum += static_cast<double>(a[i * kK + k]) * b[k * kN + j];
        d[i * kN + j] = static_cast<float>(std::max(sum + bias[j], 0.0));
      }
  }
  Judgement judged(const Json& meaning, Normal* random) const {
    Evaluator evaluator = evaluator_of(meaning, {{0, {a.data(), LATHE_F32, {kM, kK}}},
                                                 {1, {b.data(), LATHE_F32, {kK, kN}}},
                                                 {2, {bias.data(), LATHE_F32, {kN}}}});
    return judge(&evaluator, 4, d.data(), LATHE_F32, {kM, kN}, 5, random);
  }
};

const std::vector<std::vector<int64_t>> kRows = {{0, 0, 0, 1}, {0, 0, 1, 0}},
                                        kColumns = {{0, 0, 1, 0}, {0, 0, 0, 1}};

TEST(Evaluate, AcceptsAMatmulWithEpilogue) {
  Normal random(1);
  Data data(&random);
  const Judgement j = data.judged(product_meaning(kRows), &random);
  EXPECT_TRUE(j.ok) << j.what;
  EXPECT_EQ(j.judged, kM * kN);
  EXPECT_EQ(j.total, kM * kN);
}

TEST(Evaluate, RejectsAnotherLayout) {
  Normal random(2);
  EXPECT_FALSE(Data(&random).judged(product_meaning(kColumns), &random).ok);
}

TEST(Evaluate, FindsOneWrongElement) {
  Normal random(3);
  Data data(&random);
  float& worst = data.d[17];
  worst += 1e-4f + 1e-3f * std::fabs(worst);
  const Judgement j = data.judged(product_meaning(kRows), &random);
  EXPECT_FALSE(j.ok);
  EXPECT_NE(j.what.find("[2, 3]"), std::string::npos) << j.what;
  worst = NAN;
  EXPECT_FALSE(data.judged(product_meaning(kRows), &random).ok);
}

// The index and the value of the first maximum of each column.
TEST(Evaluate, ReducesToTwoResults) {
  const std::vector<float> x = {1, 5, 2, 4, 5, 2, 0, -1, 3};  // 3 by 3
  Json op = {
      {"value", 1}, {"results", 2}, {"inputs", 1}, {"dtype", {"f32", "i64"}}, {"reduction", {true, false}}};
  const Json column = Json::array({Json({0, 0, 1})});
  op["operands"] = Json::array({{{"value", 0}, {"map", {{0, 1, 0}, {0, 0, 1}}}},
                                {{"value", 3}, {"map", column}},
                                {{"value", 4}, {"map", column}}});
  op["body"] = Json::array({{"index", "index", 0},
                            {"arith.index_cast", "i64", 3, "index"},
                            {"arith.cmpf", "i1", 0, 1, "ugt"},
                            {"arith.select", "f32", 5, 0, 1},
                            {"arith.select", "i64", 5, 4, 2}});
  op["yield"] = {6, 7};
  Json meaning = {{"arguments", 1}, {"results", {1, 2}}};
  meaning["ops"] = Json::array(
      {{{"value", 3}, {"shape", {3}}, {"fill", "-inf"}}, {{"value", 4}, {"shape", {3}}, {"fill", 0}}, op});
  Evaluator evaluator = evaluator_of(meaning, {{0, {x.data(), LATHE_F32, {3, 3}}}});
  const int64_t wanted[] = {1, 0, 2};
  const double values[] = {4, 5, 3};
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_EQ(evaluator.at(2, {j}).i, wanted[j]);
    EXPECT_EQ(evaluator.at(1, {j}).v, values[j]);
  }
}

// The lower triangle of a matrix that is stored with another shape.
TEST(Evaluate, AppliesAMaskAndAReshape) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Json op = {{"value", 2},  {"results", 1}, {"inputs", 1}, {"dtype", {"f32"}}, {"reduction", {false, false}},
             {"yield", {6}}};
  op["operands"] = Json::array(
      {{{"value", 1}, {"map", {{0, 1, 0}, {0, 0, 1}}}}, {{"value", 3}, {"map", {{0, 1, 0}, {0, 0, 1}}}}});
  op["body"] = Json::array({{"index", "index", 0},
                            {"index", "index", 1},
                            {"arith.cmpi", "i1", 2, 3, "sge"},
                            {"number", "f32", 0.0},
                            {"arith.select", "f32", 4, 0, 5}});
  Json meaning = {{"arguments", 1}, {"results", {2}}};
  meaning["ops"] = Json::array({{{"value", 1}, {"shape", {3, 3}}, {"same_as", 0}},
                                {{"value", 3}, {"shape", {3, 3}}, {"empty", true}},
                                op});
  Evaluator evaluator = evaluator_of(meaning, {{0, {x.data(), LATHE_F32, {9}}}});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_EQ(evaluator.at(2, {i, j}).v, i >= j ? x[i * 3 + j] : 0) << i << "," << j;
}

std::string error_of(const Json& meaning, const std::map<int64_t, Evaluator::Bound>& values) {
  return std::string(make_evaluator(meaning, values).status().message());
}

TEST(Evaluate, RejectsContradictingShapes) {
  const std::vector<float> x(64);
  const auto error = [&](std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> bias) {
    return error_of(product_meaning(kRows), {{0, {x.data(), LATHE_F32, std::move(a)}},
                                             {1, {x.data(), LATHE_F32, std::move(b)}},
                                             {2, {x.data(), LATHE_F32, std::move(bias)}}});
  };
  EXPECT_EQ(error({4, 5}, {5, 3}, {3}), "");
  EXPECT_EQ(error({4, 5}, {6, 3}, {3}),
            "p:2: dimension 0 of an operand of 6x3 is 6, but another operand has 5");
  // The bias is longer than the rows that it is added to.
  EXPECT_EQ(error({4, 5}, {5, 3}, {4}),
            "p:3: dimension 0 of an operand of 4 is 4, but another operand has 3");
  // The result is smaller than what is written to it.
  EXPECT_EQ(error_of(product_meaning(kRows), {{0, {x.data(), LATHE_F32, {4, 5}}},
                                              {1, {x.data(), LATHE_F32, {5, 3}}},
                                              {4, {nullptr, LATHE_F32, {2, 3}}}}),
            "p:3: dimension 0 of an operand of 2x3 is 2, but another operand has 4");
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_NE(error({kHuge, 4}, {4, 3}, {3}).find("exceeds 2^63 - 1"), std::string::npos);
  EXPECT_NE(error({4, 0, kHuge, 4}, {4, 3}, {3}).find("exceeds 2^63 - 1"), std::string::npos);
}

// Extents follow forwards from operands, and backwards from a bias and a result.
TEST(Evaluate, FindsOpenExtentsFromOtherOperands) {
  Json meaning = product_meaning(kRows);
  for (Json& op : meaning["ops"]) op["location"] = "p";
  const auto told = [&](const Evaluator::Shapes& shapes) { return *Evaluator::told_shapes(meaning, shapes); };
  using Shape = std::vector<int64_t>;
  Evaluator::Shapes shapes = told({{0, {-1, 5}}, {1, {-1, -1}}, {2, {3}}, {4, {2, -1}}});
  EXPECT_EQ(shapes[0], Shape({2, 5}));
  EXPECT_EQ(shapes[1], Shape({5, 3}));
  EXPECT_EQ(shapes[4], Shape({2, 3}));
  EXPECT_EQ(told({{0, {-1, 5}}, {1, {-1, 3}}, {2, {-1}}})[4], Shape({-1, 3}))
      << "the number of rows stays open";
}

TEST(Evaluate, ElementsInReportsOverflow) {
  EXPECT_EQ(elements_in({}), 1);
  EXPECT_EQ(elements_in({3, 5, 7}), 105);
  EXPECT_EQ(elements_in({3, 0, 7}), 0);
  EXPECT_EQ(elements_in({int64_t{1} << 62, 4, 9}), std::nullopt);
  EXPECT_EQ(elements_in({int64_t{1} << 62, 4, 0}), std::nullopt)
      << "the product of the first two extents overflows";
}

// The error for y[i] = x[`row` applied to i], where y has 3 elements and x has 5.
std::string error_of_reading(const std::vector<int64_t>& row) {
  static const std::vector<float> x(5);
  Json op = {{"value", 1},       {"results", 1},         {"inputs", 1},
             {"dtype", {"f32"}}, {"reduction", {false}}, {"yield", {0}}};
  op["operands"] = Json::array(
      {{{"value", 0}, {"map", Json::array({row})}}, {{"value", 2}, {"map", Json::array({Json({0, 1})})}}});
  op["body"] = Json::array();
  Json meaning = {{"arguments", 1}, {"results", {1}}};
  meaning["ops"] = Json::array({{{"value", 2}, {"shape", {3}}, {"empty", true}}, op});
  return error_of(meaning, {{0, {x.data(), LATHE_F32, {5}}}});
}

TEST(Evaluate, RejectsReadsPastAnOperand) {
  for (const std::vector<int64_t>& row : {std::vector<int64_t>{0, 2}, {2, 1}, {4, -2}, {4, 0}})
    EXPECT_EQ(error_of_reading(row), "") << row[0] << " + " << row[1] << " i";
  EXPECT_EQ(error_of_reading({1, 2}), "p:1: it reads dimension 0 of an operand of 5 from 1 to 5");
  EXPECT_EQ(error_of_reading({3, -2}), "p:1: it reads dimension 0 of an operand of 5 from -1 to 3");
  EXPECT_EQ(error_of_reading({5, 0}), "p:1: it reads dimension 0 of an operand of 5 from 5 to 5");
  EXPECT_NE(error_of_reading({0, INT64_MAX / 2 + 2}).find("beyond 2^63 - 1"), std::string::npos);
  EXPECT_NE(error_of_reading({INT64_MAX, 1}).find("beyond 2^63 - 1"), std::string::npos);
}

// A cast to a shape with more or fewer open extents.
TEST(Evaluate, CastKeepsTheShape) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const auto meaning = [](const Json& shape) {
    Json op = {
        {"value", 2},  {"results", 1}, {"inputs", 1}, {"dtype", {"f32"}}, {"reduction", {false, false}},
        {"yield", {0}}};
    op["operands"] = Json::array(
        {{{"value", 1}, {"map", {{0, 1, 0}, {0, 0, 1}}}}, {{"value", 3}, {"map", {{0, 1, 0}, {0, 0, 1}}}}});
    op["body"] = Json::array();
    Json all = {{"arguments", 1}, {"results", {2}}};
    all["ops"] = Json::array({{{"value", 1}, {"shape", shape}, {"same_as", 0}},
                              {{"value", 3}, {"shape", {nullptr, nullptr}}, {"empty", true}},
                              op});
    return all;
  };
  for (const Json& shape : {Json({nullptr, nullptr}), Json({2, nullptr}), Json({2, 3})}) {
    Evaluator evaluator = evaluator_of(meaning(shape), {{0, {x.data(), LATHE_F32, {2, 3}}}});
    EXPECT_EQ(evaluator.at(2, {1, 1}).v, 5) << shape;
  }
  EXPECT_EQ(error_of(meaning({3, nullptr}), {{0, {x.data(), LATHE_F32, {2, 3}}}}),
            "p:0: cannot change the shape 2x3 to 3x3");
}

// y[i, j] = x[j, 2 - i]: positions in memory decrease with i.
TEST(Evaluate, ReadsBoundValuesThroughAnyMap) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};  // 2 by 3
  Json op = {{"value", 1},  {"results", 1}, {"inputs", 1}, {"dtype", {"f32"}}, {"reduction", {false, false}},
             {"yield", {0}}};
  op["operands"] = Json::array(
      {{{"value", 0}, {"map", {{0, 0, 1}, {2, -1, 0}}}}, {{"value", 2}, {"map", {{0, 1, 0}, {0, 0, 1}}}}});
  op["body"] = Json::array();
  Json meaning = {{"arguments", 1}, {"results", {1}}};
  meaning["ops"] = Json::array({{{"value", 2}, {"shape", {3, 2}}, {"empty", true}}, op});
  Evaluator evaluator = evaluator_of(meaning, {{0, {x.data(), LATHE_F32, {2, 3}}}});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j) EXPECT_EQ(evaluator.at(1, {i, j}).v, x[j * 3 + 2 - i]) << i << "," << j;
}

// Each of 60 ops adds the previous result to itself. Computing every read again would take 2^60 steps.
TEST(Evaluate, ComputesAnElementOnce) {
  const std::vector<float> x = {1, 3};
  Json meaning = {{"arguments", 1}, {"results", {60}}};
  const Json row = Json::array({Json({0, 1})});
  meaning["ops"] = Json::array({{{"value", 61}, {"shape", {2}}, {"empty", true}}});
  for (int i = 0; i < 60; ++i) {
    Json op = {{"value", i + 1},   {"results", 1},         {"inputs", 2},
               {"dtype", {"f32"}}, {"reduction", {false}}, {"yield", {3}}};
    op["operands"] = Json::array(
        {{{"value", i}, {"map", row}}, {{"value", i}, {"map", row}}, {{"value", 61}, {"map", row}}});
    op["body"] = Json::array({{"arith.addf", "f32", 0, 1}});
    meaning["ops"].push_back(op);
  }
  Evaluator evaluator = evaluator_of(meaning, {{0, {x.data(), LATHE_F32, {2}}}});
  EXPECT_EQ(evaluator.at(60, {0}).v, 0x1p60);
  EXPECT_EQ(evaluator.at(60, {1}).v, 3 * 0x1p60);
  EXPECT_EQ(evaluator.at(60, {0}).v, 0x1p60);
}

// If two numbers differ by less than their slack, a comparison may have either result. Predicates that only test for
// NaN are certain.
TEST(Evaluate, SlackMakesComparisonsUncertain) {
  const auto slack = [](const char* predicate) {
    return scalar(scalar_named("arith.cmpf", "i1", predicate), {1, 0.1, 0}, {1.05, 0.1, 0}, {}).slack;
  };
  for (const char* open :
       {"oeq", "ogt", "oge", "olt", "ole", "one", "ueq", "ugt", "uge", "ult", "ule", "une"})
    EXPECT_EQ(slack(open), 1) << open;
  for (const char* certain : {"ord", "uno", "true", "false"}) EXPECT_EQ(slack(certain), 0) << certain;
}

// With K = 0 the result is the accumulator, d = c.
TEST(Evaluate, EmptyReductionGivesItsInitialValue) {
  const std::vector<float> c = {1, 2, 3, 4, 5, 6}, none(1);
  Json product = {
      {"value", 3},  {"results", 1}, {"inputs", 2}, {"dtype", {"f32"}}, {"reduction", {false, false, true}},
      {"yield", {4}}};
  product["operands"] = Json::array({{{"value", 0}, {"map", {{0, 1, 0, 0}, {0, 0, 0, 1}}}},
                                     {{"value", 1}, {"map", {{0, 0, 0, 1}, {0, 0, 1, 0}}}},
                                     {{"value", 2}, {"map", {{0, 1, 0, 0}, {0, 0, 1, 0}}}}});
  product["body"] = Json::array({{"arith.mulf", "f32", 0, 1}, {"arith.addf", "f32", 2, 3}});
  Json meaning = {{"arguments", 3}, {"results", {3}}};
  meaning["ops"] = Json::array({product});
  Evaluator evaluator = evaluator_of(meaning, {{0, {none.data(), LATHE_F32, {2, 0}}},
                                               {1, {none.data(), LATHE_F32, {0, 3}}},
                                               {2, {c.data(), LATHE_F32, {2, 3}}}});
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(evaluator.at(3, {i, j}).v, c[i * 3 + j]) << i << ", " << j;
}

TEST(Evaluate, AppliesEveryComparisonPredicate) {
  const auto holds = [](const char* name, const char* predicate, Number a, Number b) {
    return scalar(scalar_named(name, "i1", predicate), a, b, {}).i != 0;
  };
  const auto floats = [&](const char* predicate, double a, double b) {
    return holds("arith.cmpf", predicate, {a, 0, 0}, {b, 0, 0});
  };
  const auto integers = [&](const char* predicate, int64_t a, int64_t b) {
    return holds("arith.cmpi", predicate, {0, 0, a}, {0, 0, b});
  };
  const double pairs[][2] = {{1, 2}, {2, 2}, {3, 2}, {NAN, 2}, {2, NAN}};
  for (const auto& [a, b] : pairs) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    EXPECT_EQ(floats("oeq", a, b), a == b);
    EXPECT_EQ(floats("ogt", a, b), a > b);
    EXPECT_EQ(floats("oge", a, b), a >= b);
    EXPECT_EQ(floats("olt", a, b), a < b);
    EXPECT_EQ(floats("ole", a, b), a <= b);
    EXPECT_EQ(floats("one", a, b), a < b || a > b);
    EXPECT_EQ(floats("ord", a, b), !unordered);
    EXPECT_EQ(floats("uno", a, b), unordered);
    EXPECT_EQ(floats("ueq", a, b), unordered || a == b);
    EXPECT_EQ(floats("ugt", a, b), unordered || a > b);
    EXPECT_EQ(floats("uge", a, b), unordered || a >= b);
    EXPECT_EQ(floats("ult", a, b), unordered || a < b);
    EXPECT_EQ(floats("ule", a, b), unordered || a <= b);
    EXPECT_EQ(floats("une", a, b), a != b);
    EXPECT_TRUE(floats("true", a, b));
    EXPECT_FALSE(floats("false", a, b));
  }
  const int64_t whole[][2] = {{1, 2}, {2, 2}, {2, 1}, {-1, 2}, {2, -1}};
  for (const auto& [a, b] : whole) {
    const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
    EXPECT_EQ(integers("eq", a, b), a == b);
    EXPECT_EQ(integers("ne", a, b), a != b);
    EXPECT_EQ(integers("slt", a, b), a < b);
    EXPECT_EQ(integers("sle", a, b), a <= b);
    EXPECT_EQ(integers("sgt", a, b), a > b);
    EXPECT_EQ(integers("sge", a, b), a >= b);
    EXPECT_EQ(integers("ult", a, b), ua < ub);
    EXPECT_EQ(integers("ule", a, b), ua <= ub);
    EXPECT_EQ(integers("ugt", a, b), ua > ub);
    EXPECT_EQ(integers("uge", a, b), ua >= ub);
  }
}

}  // namespace
}  // namespace lathe::reference
