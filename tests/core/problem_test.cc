#include "core/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "json_leaves.h"

namespace lathe {
namespace {

ProblemClass linear() {
  ProblemClass c;
  c.a = c.b = DType::kBF16;
  c.d = DType::kF32;
  c.bias = DType::kF16;
  c.trans_b = 1;
  c.activation = Activation::kGelu;
  c.determinism = Determinism::kRunToRun;
  c.n = 4096;
  c.k = 33;
  c.m_lo = 17;
  c.m_hi = 32;
  return c;
}

ProblemClass vocabulary() {
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = DType::kF16;
  c.d = DType::kI64;
  c.wants_values = 1;
  c.row_lo = 16385;
  c.row_hi = Bucket::kOpenEnd;
  return c;
}

TEST(BucketTest, BucketsCoverEveryMOnce) {
  const std::vector<Bucket> all = m_buckets(INT32_MAX);
  int64_t next = 1;
  for (const Bucket& b : all) {
    EXPECT_EQ(b.lo, next);
    EXPECT_LE(b.lo, b.hi);
    next = b.hi + 1;
  }
  EXPECT_EQ(next, int64_t{Bucket::kOpenEnd} + 1);
  EXPECT_EQ(all.size(), 16u + 6u);
  for (int64_t m = 1; m <= 9000; ++m) {
    const Bucket b = m_bucket(m);
    EXPECT_LE(b.lo, m);
    EXPECT_GE(b.hi, m);
    EXPECT_EQ(b.lo == b.hi, m <= 16) << m;
  }
  EXPECT_EQ(m_bucket(17), (Bucket{17, 32}));
  EXPECT_EQ(m_bucket(512), (Bucket{257, 512}));
  EXPECT_EQ(m_bucket(513), (Bucket{513, Bucket::kOpenEnd}));
  EXPECT_EQ(m_bucket(INT32_MAX), (Bucket{513, Bucket::kOpenEnd}));
  EXPECT_EQ(m_bucket(0), (Bucket{1, 1}));
}

TEST(BucketTest, ListsBucketsOnlyUpToTheMaximum) {
  EXPECT_TRUE(m_buckets(0).empty());
  EXPECT_EQ(m_buckets(1).size(), 1u);
  EXPECT_EQ(m_buckets(16).size(), 16u);
  EXPECT_EQ(m_buckets(17).size(), 17u);
  EXPECT_EQ(m_buckets(32).size(), 17u);
  EXPECT_EQ(m_buckets(33).size(), 18u);
  EXPECT_EQ(m_buckets(8192).size(), 22u);
  EXPECT_EQ(m_buckets(int64_t{1} << 40).size(), 22u);
}

TEST(BucketTest, FindsTheBucketOfARowLength) {
  EXPECT_EQ(row_bucket(1), (Bucket{1, 1024}));
  EXPECT_EQ(row_bucket(1024), (Bucket{1, 1024}));
  EXPECT_EQ(row_bucket(1025), (Bucket{1025, 16384}));
  EXPECT_EQ(row_bucket(16384), (Bucket{1025, 16384}));
  EXPECT_EQ(row_bucket(151936), (Bucket{16385, Bucket::kOpenEnd}));
  EXPECT_EQ(row_buckets(), (std::vector<Bucket>{row_bucket(1), row_bucket(1025), row_bucket(16385)}));
}

TEST(ProblemClassTest, ComparesAndHashesEveryByte) {
  const ProblemClass base = linear();
  std::set<uint64_t> hashes = {hash_of(base)};
  for (size_t byte = 0; byte < sizeof(ProblemClass); ++byte) {
    ProblemClass changed = base;
    unsigned char raw;
    memcpy(&raw, reinterpret_cast<char*>(&changed) + byte, 1);
    raw ^= 1;
    memcpy(reinterpret_cast<char*>(&changed) + byte, &raw, 1);
    EXPECT_FALSE(changed == base) << byte;
    EXPECT_TRUE(hashes.insert(hash_of(changed)).second) << byte;
  }
  EXPECT_EQ(hash_of(base), hash_of(linear()));
}

TEST(ProblemClassTest, RoundTripsThroughJson) {
  ProblemClass elementwise;
  elementwise.op = Op::kElementwise;
  elementwise.program_lo = 5, elementwise.program_hi = uint64_t{1} << 63;
  for (const ProblemClass& c : {linear(), vocabulary(), ProblemClass(), elementwise}) {
    const auto back = problem_class_from_json(to_json(c));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, c);
  }
}

// Keys and manifests of plain classes have no such field.
TEST(ProblemClassTest, NamesRowsOnlyIfTheyAreNotPlain) {
  EXPECT_FALSE(to_json(linear()).contains("rows"));
  std::set<std::string> names;
  for (int i = static_cast<int>(Rows::kDeviceM); i <= static_cast<int>(Rows::kSumBF16); ++i) {
    ProblemClass c = linear();
    c.rows = static_cast<Rows>(i);
    const Json json = to_json(c);
    EXPECT_TRUE(names.insert(json.at("rows")).second);
    const auto back = problem_class_from_json(json);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, c);
    EXPECT_THAT(describe(c, {17, 4096, 33, 5}), testing::HasSubstr("rows=" + std::string(name_of(c.rows))));
  }
  for (const Json& bad : {Json("plain"), Json("rows"), Json(3), Json()}) {
    Json json = to_json(linear());
    json["rows"] = bad;
    EXPECT_FALSE(problem_class_from_json(json).ok()) << bad.dump();
  }
}

TEST(ProblemClassTest, SaysWhichRowsAreListedAndSummed) {
  std::string listed, summed;
  for (int i = 0; i <= static_cast<int>(Rows::kSumBF16); ++i) {
    const auto rows = static_cast<Rows>(i);
    EXPECT_EQ(is_grouped(rows), rows != Rows::kPlain && rows != Rows::kDeviceM);
    if (lists_rows(rows)) listed += std::string(name_of(rows)) + " ";
    if (sum_of(rows) != DType::kNone) summed += std::string(name_of(sum_of(rows))) + " ";
  }
  EXPECT_EQ(listed, "row_ids indexed sum_f32 sum_f16 sum_bf16 ");
  EXPECT_EQ(summed, "f32 f16 bf16 ");
}

// A changed leaf must be refused or give another class. No leaf may be ignored.
TEST(ProblemClassTest, ReadsEveryJsonLeaf) {
  for (const ProblemClass& c : {linear(), vocabulary()}) {
    int leaves = 0;
    for_each_changed_leaf(to_json(c), [&](const std::string& path, const Json& changed) {
      ++leaves;
      const auto back = problem_class_from_json(changed);
      if (back.ok()) EXPECT_FALSE(*back == c) << path;
    });
    EXPECT_EQ(leaves, 30);
  }
}

TEST(ProblemClassTest, RefusesInvalidJson) {
  const Json good = to_json(linear());
  EXPECT_FALSE(problem_class_from_json(Json()).ok());
  EXPECT_FALSE(problem_class_from_json(Json::array({1, 2})).ok());
  EXPECT_FALSE(problem_class_from_json(Json("matmul")).ok());
  for (const auto& [name, value] : good.items()) {
    Json j = good;
    j.erase(name);
    EXPECT_FALSE(problem_class_from_json(j).ok()) << "without " << name;
    for (const Json& bad : {Json(), Json(true), Json(1.5), Json(-1), Json(UINT64_MAX), Json("nonsense"),
                            Json::array(), Json::object()}) {
      j = good;
      j[name] = bad;
      EXPECT_FALSE(problem_class_from_json(j).ok()) << name << " = " << bad.dump();
    }
  }
  Json extra = good;
  extra["new_field"] = 1;
  EXPECT_FALSE(problem_class_from_json(extra).ok());
  for (const char* digest : {"0", "00000000000000000000000000000000", "0123456789abcdef0123456789abcdeF",
                             "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef0"}) {
    Json j = good;
    j["program"] = digest;
    EXPECT_FALSE(problem_class_from_json(j).ok()) << digest;
  }
  Json inverted = good;
  inverted["m_lo"] = 40;
  EXPECT_FALSE(problem_class_from_json(inverted).ok());
}

TEST(DescribeTest, NamesTheRequest) {
  ProblemClass c;
  c.a = c.b = c.d = DType::kF32;
  c.trans_b = 1;
  c.n = 4096;
  c.k = 33;
  EXPECT_EQ(describe(c, {7, 4096, 33, 1}), "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1");
  EXPECT_EQ(describe(linear(), {20, 4096, 33, 2}),
            "matmul bf16 a=n b=t m=20 n=4096 k=33 batch=2 d=f32 bias=f16 gelu");
  EXPECT_THAT(describe(vocabulary(), {4, 151936, 0, 1}), testing::StartsWith("argmax f16 rows=4 n=151936"));
}

}  // namespace
}  // namespace lathe
