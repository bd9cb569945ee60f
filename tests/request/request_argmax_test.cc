#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fake_device.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock};
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;

absl::Status read(const lathe_argmax_desc& desc, Request* out, Purpose purpose = Purpose::kRun) {
  return read_argmax(&desc, purpose, kCpu, nullptr, out);
}
absl::Status read(const lathe_argmax_desc& desc) {
  Request request;
  return read(desc, &request);
}

TEST(ReadArgmax, RefusalsNameTheCause) {
  using D = lathe_argmax_desc;
  static const lathe_scale scale = LATHE_SCALE_INIT;
  static const lathe_chain unknown = {sizeof(lathe_chain), nullptr, 99, 0};
  struct {
    const char* name;
    std::function<void(D*)> change;
    absl::StatusCode code;
    const char* says;
  } const cases[] = {
      {"desc size", [](D* d) { d->struct_size = 3; }, kInvalid, "struct_size 3"},
      {"x size", [](D* d) { d->x.struct_size = 3; }, kInvalid, "x: struct_size 3"},
      {"chain", [](D* d) { d->next = &unknown; }, kUnsupported, "kind 99"},
      {"x chain", [](D* d) { d->x.next = &unknown; }, kUnsupported, "x: no chain"},
      {"scale", [](D* d) { d->x.scale = &scale; }, kUnsupported, "x: scale"},
      {"dtype none", [](D* d) { d->x.dtype = LATHE_DTYPE_NONE; }, kInvalid, "x: dtype is not set"},
      {"dtype 77", [](D* d) { d->x.dtype = static_cast<lathe_dtype>(77); }, kInvalid, "dtype 77"},
      {"dtype i64", [](D* d) { d->x.dtype = LATHE_I64; }, kUnsupported, "x: dtype i64"},
      {"layout", [](D* d) { d->x.layout = LATHE_COLUMN_MAJOR; }, kUnsupported, "only ROW_MAJOR"},
      {"layout 2", [](D* d) { d->x.layout = static_cast<lathe_layout>(2); }, kInvalid, "layout 2"},
      {"index dtype", [](D* d) { d->index_dtype = LATHE_F32; }, kInvalid, "index_dtype 1"},
      {"determinism", [](D* d) { d->determinism = static_cast<lathe_determinism>(-1); }, kInvalid,
       "determinism"},
      {"policy", [](D* d) { d->miss_policy = static_cast<lathe_miss_policy>(4); }, kInvalid, "miss_policy 4"},
      {"rows -1", [](D* d) { d->rows = -1; }, kInvalid, "rows -1 < 0"},
      {"rows large", [](D* d) { d->rows = int64_t{1} << 40; }, kInvalid, "rows 1099511627776 >"},
      {"n -1", [](D* d) { d->n = -1; }, kInvalid, "n -1 < 0"},
      {"n large", [](D* d) { d->n = int64_t{1} << 31; }, kInvalid, "n 2147483648 >"},
      {"n 0", [](D* d) { d->n = 0; }, kInvalid, "n 0"},
      {"ldx", [](D* d) { d->x.leading_dimension = 99; }, kInvalid, "ldx 99 < n 100"},
      {"ldx -1", [](D* d) { d->x.leading_dimension = -1; }, kInvalid, "ldx -1 < 0"},
      {"ldx max", [](D* d) { d->x.leading_dimension = INT64_MAX; }, kInvalid, "x: spans more than"},
      {"batch stride", [](D* d) { d->x.batch_stride = 100; }, kInvalid, "batch_stride"},
      {"offset i32",
       [](D* d) {
         d->index_dtype = LATHE_I32;
         d->index_offset = INT32_MAX - 98;
       },
       kInvalid, "index_offset"},
      {"offset i64", [](D* d) { d->index_offset = INT64_MAX - 98; }, kInvalid, "index_offset"},
      {"x NULL", [](D* d) { d->x.data = nullptr; }, kInvalid, "x is NULL"},
      {"indices NULL", [](D* d) { d->indices = nullptr; }, kInvalid, "indices is NULL"},
      {"indices in x", [](D* d) { d->indices = static_cast<char*>(d->x.data) + 8; }, kInvalid,
       "indices overlaps x"},
      {"values in x", [](D* d) { d->values = static_cast<float*>(d->x.data) + 7; }, kInvalid,
       "values overlaps x"},
      {"values in indices", [](D* d) { d->values = static_cast<float*>(d->indices) + 1; }, kInvalid,
       "values overlaps indices"},
  };
  for (const auto& bad : cases) {
    ArgmaxRequest good(5, 100);
    ASSERT_TRUE(read(good.desc).ok()) << read(good.desc);
    bad.change(&good.desc);
    const absl::Status status = read(good.desc);
    EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
    EXPECT_NE(std::string(status.message()).find(bad.says), std::string::npos) << bad.name << ": " << status;
    EXPECT_EQ(std::string(status.message()).find("argmax"), 0u) << bad.name << ": " << status;
  }
  EXPECT_EQ(read_argmax(nullptr, Purpose::kRun, kCpu, nullptr, nullptr).message(), "argmax: desc is NULL");
}

TEST(ReadArgmax, FillsClassDimensionsAndArguments) {
  ArgmaxRequest a(5, 2000);
  a.desc.values = a.values.data();
  a.desc.index_dtype = LATHE_I32;
  a.desc.index_offset = -7;
  Request r;
  ASSERT_TRUE(read(a.desc, &r).ok()) << read(a.desc);
  const ProblemClass& c = r.key.problem;
  EXPECT_EQ(c.op, Op::kArgmax);
  EXPECT_EQ(c.a, DType::kF32);
  EXPECT_EQ(c.b, DType::kNone);
  EXPECT_EQ(c.d, DType::kI32);
  EXPECT_EQ(c.wants_values, 1);
  EXPECT_EQ(c.n, 0);
  EXPECT_EQ(c.k, 0);
  EXPECT_EQ(c.m_lo, 1);
  EXPECT_EQ(c.m_hi, Bucket::kOpenEnd);
  EXPECT_LE(c.row_lo, 2000);
  EXPECT_GE(c.row_hi, 2000);
  EXPECT_EQ(r.dims.m, 5);
  EXPECT_EQ(r.dims.n, 2000);
  EXPECT_EQ(r.args.a, a.x.data());
  EXPECT_EQ(r.args.d, a.indices.data());
  EXPECT_EQ(r.args.values, a.values.data());
  EXPECT_EQ(r.args.lda, 2000);
  EXPECT_EQ(r.args.index_offset, -7);
  EXPECT_EQ(r.args.m, 5);
  EXPECT_EQ(r.args.n, 2000);
  EXPECT_EQ(r.args.batch, 1);
}

TEST(ReadArgmax, ZeroRowsNeedNoPointers) {
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.x.dtype = LATHE_F16;
  Request r;
  EXPECT_TRUE(read(desc, &r).ok()) << read(desc);
  EXPECT_TRUE(r.nothing_to_do);
}

TEST(ReadArgmax, LargestIndexMayJustFit) {
  ArgmaxRequest a(1, 100);
  a.desc.index_dtype = LATHE_I32;
  a.desc.index_offset = INT32_MAX - 99;
  EXPECT_TRUE(read(a.desc).ok()) << read(a.desc);
}

}  // namespace
}  // namespace lathe
