// The distances of operands. A distance between fewer than two lines or matrices has no effect, whatever its
// value. The lines of an operand must not overlap in any op.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/packed.h"
#include "dispatch/recent_call.h"
#include "fake_device.h"
#include "request/elementwise_programs.h"
#include "request/request.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock},
                         kGpu = {"cuda:0", false, MissPolicy::kBlock};
constexpr int64_t kAnything[] = {0, 1, 2, 3, 7, 32, 1000003, -1, -64, INT64_MIN, INT64_MAX};

// Addresses 16 GiB apart, which are compared and never dereferenced.
void* address(int operand) { return reinterpret_cast<void*>(uintptr_t(operand + 1) << 34); }

using M = lathe_matmul_desc;
using C = lathe_matmul_argmax_desc;
using X = lathe_argmax_desc;
using E = lathe_elementwise_desc;

absl::Status read(const M& d, Purpose purpose, const RequestContext& context, Request* out) {
  return read_matmul(&d, purpose, context, nullptr, out);
}
absl::Status read(const C& d, Purpose purpose, const RequestContext& context, Request* out) {
  return read_matmul_argmax(&d, purpose, context, nullptr, out);
}
absl::Status read(const X& d, Purpose purpose, const RequestContext& context, Request* out) {
  return read_argmax(&d, purpose, context, nullptr, out);
}
absl::Status read(const E& d, Purpose purpose, const RequestContext& context, Request* out) {
  return read_elementwise(&d, purpose, context, nullptr, out);
}

// 5 by 67 times 67 by 41, with C and a residual. Rows are packed, so no distance is a multiple of 16 bytes.
M product(lathe_dtype in, lathe_layout layout) {
  M d = LATHE_MATMUL_DESC_INIT;
  d.m = 5, d.n = 41, d.k = 67;
  d.a.dtype = d.b.dtype = in;
  d.a.layout = d.b.layout = layout;
  d.c.dtype = d.d.dtype = d.epilogue.residual.dtype = LATHE_F16;
  d.epilogue.beta = 1;
  d.d.batch_stride = 5 * 41;  // used if there is a batch
  int next = 0;
  for (lathe_operand* o : {&d.a, &d.b, &d.c, &d.d, &d.epilogue.residual}) o->data = address(next++);
  return d;
}
M in_rows() { return product(LATHE_F16, LATHE_ROW_MAJOR); }
M in_columns() { return product(LATHE_F16, LATHE_COLUMN_MAJOR); }
M of_bytes() {
  static const lathe_scale scale = [] {
    lathe_scale s = LATHE_SCALE_INIT;
    s.data = address(8);
    s.dtype = LATHE_F32;
    return s;
  }();
  M d = product(LATHE_I8, LATHE_ROW_MAJOR);
  d.a.scale = d.b.scale = &scale;
  d.a.zero_point = d.b.zero_point = address(9);
  return d;
}
M in_blocks() {
  M d = in_columns();
  d.k = 64;
  d.b.dtype = LATHE_Q4_0;
  return d;
}
M packed() {
  M d = product(LATHE_F32, LATHE_ROW_MAJOR);
  d.b.packed_layout = packed_layout_id(packed_layout_of(d.n), DType::kF32);
  return d;
}
C compared(lathe_layout layout) {
  C d = LATHE_MATMUL_ARGMAX_DESC_INIT;
  d.m = 5, d.n = 41, d.k = 67;
  d.a.dtype = d.b.dtype = d.logits_dtype = LATHE_BF16;
  d.a.layout = d.b.layout = layout;
  d.a.data = address(0), d.b.data = address(1), d.indices = address(2);
  return d;
}
C compared_rows() { return compared(LATHE_ROW_MAJOR); }
C compared_columns() { return compared(LATHE_COLUMN_MAJOR); }
X rows() {
  X d = LATHE_ARGMAX_DESC_INIT;
  d.rows = 5, d.n = 67;
  d.x.dtype = LATHE_F16;
  d.x.data = address(0), d.indices = address(1);
  return d;
}
E elements() {
  static const lathe_program program = {std::make_shared<const ElementwiseProgram>(*parse_elementwise(
      R"({"d":"f16","inputs":[{"dims":"bmn","dtype":"f16"},{"dims":"bnm","dtype":"f16"},)"
      R"({"dims":"bm","dtype":"f16"}],"nodes":[["arith.addf","f16",0,1],["arith.addf","f16",2,3]],)"
      R"("yield":4})"))};
  E d = LATHE_ELEMENTWISE_DESC_INIT;
  d.program = &program;
  d.m = 5, d.n = 67;
  for (int i = 0; i < 3; ++i) d.inputs[i].dtype = LATHE_F16, d.inputs[i].data = address(i);
  d.inputs[1].layout = LATHE_COLUMN_MAJOR;
  d.d.dtype = LATHE_F16, d.d.data = address(3);
  d.d.batch_stride = 5 * 67;
  return d;
}

// A distance in a descriptor, and the extent that says how many lines or matrices it separates.
template <typename Desc>
struct Distance {
  const char* names[2];  // an error names one of them
  Desc (*make)();
  int64_t& (*distance)(Desc&);
  int64_t& (*extent)(Desc&);
  int64_t least;               // for two lines or matrices that must not overlap; 0: they may
  int64_t multiple = 1;        // a distance must be a multiple of this
  bool zero_overlaps = false;  // false: 0 is legal (packed, or one matrix for all)
  bool is_the_cpus = false;
};
#define FIELD(D, path) [](D& d) -> int64_t& { return d.path; }
#define LEADING(D, operand) FIELD(D, operand.leading_dimension)
#define STRIDE(D, operand) FIELD(D, operand.batch_stride)

template <typename Desc>
std::vector<Distance<Desc>> distances();
template <>
std::vector<Distance<M>> distances() {
  return {
      {{"lda ", "a:"}, in_rows, LEADING(M, a), FIELD(M, m), 67},
      {{"lda ", "a:"}, in_columns, LEADING(M, a), FIELD(M, k), 5},
      {{"ldb ", "b:"}, in_rows, LEADING(M, b), FIELD(M, k), 41},
      {{"ldb ", "b:"}, in_columns, LEADING(M, b), FIELD(M, n), 67},
      {{"ldc ", "c:"}, in_rows, LEADING(M, c), FIELD(M, m), 41},
      {{"ldd ", "d:"}, in_rows, LEADING(M, d), FIELD(M, m), 41},
      {{"ldr ", "residual:"}, in_rows, LEADING(M, epilogue.residual), FIELD(M, m), 41},
      {{"lda ", "a:"}, of_bytes, LEADING(M, a), FIELD(M, m), 67, 1, false, true},
      {{"ldb ", "b:"}, of_bytes, LEADING(M, b), FIELD(M, k), 41, 1, false, true},
      {{"ldb ", "b:"}, in_blocks, LEADING(M, b), FIELD(M, n), 64, 32, false, true},
      {{"a: batch_stride ", "a:"}, in_rows, STRIDE(M, a), FIELD(M, batch), 0},
      {{"b: batch_stride ", "b:"}, in_rows, STRIDE(M, b), FIELD(M, batch), 0},
      {{"c: batch_stride ", "c:"}, in_rows, STRIDE(M, c), FIELD(M, batch), 0},
      {{"d overlaps itself: batch_stride ", "d:"},
       in_rows,
       STRIDE(M, d),
       FIELD(M, batch),
       4 * 41 + 41,
       1,
       true},
      {{"residual: batch_stride ", "residual:"}, in_rows, STRIDE(M, epilogue.residual), FIELD(M, batch), 0},
      {{"b: batch_stride ", "b:"}, in_blocks, STRIDE(M, b), FIELD(M, batch), 0, 32, false, true},
      {{"b: packed", "b:"}, packed, STRIDE(M, b), FIELD(M, batch), 67 * 48, 1, false, true},
  };
}
template <>
std::vector<Distance<C>> distances() {
  return {{{"lda ", "a:"}, compared_rows, LEADING(C, a), FIELD(C, m), 67},
          {{"lda ", "a:"}, compared_columns, LEADING(C, a), FIELD(C, k), 5},
          {{"ldb ", "b:"}, compared_rows, LEADING(C, b), FIELD(C, k), 41},
          {{"ldb ", "b:"}, compared_columns, LEADING(C, b), FIELD(C, n), 67}};
}
template <>
std::vector<Distance<X>> distances() {
  return {{{"ldx ", "x:"}, rows, LEADING(X, x), FIELD(X, rows), 67}};
}
template <>
std::vector<Distance<E>> distances() {
  return {{{"inputs[0]:", "inputs[0]:"}, elements, LEADING(E, inputs[0]), FIELD(E, m), 67},
          {{"inputs[1]:", "inputs[1]:"}, elements, LEADING(E, inputs[1]), FIELD(E, n), 5},
          {{"inputs[2]:", "inputs[2]:"}, elements, LEADING(E, inputs[2]), FIELD(E, m), 1},
          {{"ldd ", "d:"}, elements, LEADING(E, d), FIELD(E, m), 67},
          {{"inputs[0]: batch_stride ", "inputs[0]:"}, elements, STRIDE(E, inputs[0]), FIELD(E, batch), 0},
          {{"inputs[1]: batch_stride ", "inputs[1]:"}, elements, STRIDE(E, inputs[1]), FIELD(E, batch), 0},
          {{"inputs[2]: batch_stride ", "inputs[2]:"}, elements, STRIDE(E, inputs[2]), FIELD(E, batch), 0},
          {{"d overlaps itself: batch_stride ", "d:"},
           elements,
           STRIDE(E, d),
           FIELD(E, batch),
           4 * 67 + 67,
           1,
           true}};
}

template <typename T>
bool same_bytes(const T& x, const T& y) {
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <typename Desc>
class EveryDistance : public testing::Test {
 protected:
  // Checks every distance on every kind of device that has the op.
  template <typename F>
  void for_each(F&& check) {
    for (const Distance<Desc>& row : distances<Desc>())
      for (const RequestContext& context : {kCpu, kGpu}) {
        if (row.is_the_cpus && !context.is_cpu) continue;
        SCOPED_TRACE(std::string(row.names[0]) + " on " + std::string(context.device));
        check(row, context);
      }
  }
};
using Ops = testing::Types<M, C, X, E>;
TYPED_TEST_SUITE(EveryDistance, Ops);

// The class, the arguments and all else equal those of the packed request.
TYPED_TEST(EveryDistance, IsIgnoredForAtMostOneLineOrMatrix) {
  this->for_each([](const Distance<TypeParam>& row, const RequestContext& context) {
    for (const Purpose purpose : {Purpose::kRun, Purpose::kPlan, Purpose::kWarm}) {
      for (const int64_t extent : {0, 1}) {
        TypeParam desc = row.make();
        row.extent(desc) = extent;
        row.distance(desc) = 0;
        Request wanted;
        const absl::Status packed = read(desc, purpose, context, &wanted);
        // Rows without columns have no maximum.
        ASSERT_TRUE(packed.ok() || (extent == 0 && packed.message().find("n 0: ") != absl::string_view::npos))
            << packed;
        for (const int64_t anything : kAnything) {
          SCOPED_TRACE(testing::Message() << "extent " << extent << ", distance " << anything);
          row.distance(desc) = anything;
          Request got;
          const absl::Status status = read(desc, purpose, context, &got);
          ASSERT_EQ(status, packed);
          EXPECT_TRUE(got.key.problem == wanted.key.problem);
          EXPECT_TRUE(same_bytes(got.args, wanted.args));
          EXPECT_TRUE(same_bytes(got.dims, wanted.dims));
          EXPECT_EQ(got.nothing_to_do, wanted.nothing_to_do);
        }
      }
    }
  });
}

TYPED_TEST(EveryDistance, MustNotOverlapTwoLinesOrMatrices) {
  this->for_each([](const Distance<TypeParam>& row, const RequestContext& context) {
    std::vector<int64_t> all(std::begin(kAnything), std::end(kAnything));
    if (row.least > 0) all.insert(all.end(), {row.least - row.multiple, row.least});
    for (const int64_t distance : all) {
      SCOPED_TRACE(distance);
      TypeParam desc = row.make();
      row.extent(desc) = 2;
      row.distance(desc) = distance;
      // The extent is 2, so `least` applies.
      const bool overlaps = distance == 0 ? row.zero_overlaps : distance < row.least;
      const bool good = distance >= 0 && distance < INT64_MAX && distance % row.multiple == 0 && !overlaps;
      Request request;
      const absl::Status status = read(desc, Purpose::kRun, context, &request);
      if (good) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(status.message().find(row.names[0]) != absl::string_view::npos ||
                  status.message().find(row.names[1]) != absl::string_view::npos)
          << status;
    }
  });
}

// With M = 1 and B's lines at multiples of 16 bytes, the odd lengths of the other operands do not matter.
TEST(Distances, SingleLineDoesNotLowerTheAlignment) {
  M d = in_columns();
  d.k = d.a.leading_dimension = 64;
  d.a.layout = LATHE_ROW_MAJOR;
  C c = compared_columns();
  c.k = 64, c.a.layout = LATHE_ROW_MAJOR;
  X x = rows();
  for (const int64_t anything : kAnything) {
    for (const Purpose purpose : {Purpose::kRun, Purpose::kPlan}) {
      Request product, comparison, row;
      d.m = c.m = x.rows = 1;
      for (lathe_operand* o : {&d.a, &d.c, &d.d, &d.epilogue.residual, &c.a, &x.x})
        o->leading_dimension = anything;
      ASSERT_TRUE(read(d, purpose, kGpu, &product).ok());
      ASSERT_TRUE(read(c, purpose, kGpu, &comparison).ok());
      ASSERT_TRUE(read(x, purpose, kGpu, &row).ok());
      for (const Request* r : {&product, &comparison, &row}) {
        EXPECT_EQ(r->key.problem.alignment, Alignment::k16) << describe(*r);
        // Kernels of the class require this: tensor maps refuse other distances.
        for (const int64_t leading : {r->args.lda, r->args.ldb, r->args.ldc, r->args.ldd, r->args.ldr})
          EXPECT_EQ(leading * 2 % 16, 0) << describe(*r);
      }
    }
  }
  d.m = 2, d.a.leading_dimension = d.c.leading_dimension = d.epilogue.residual.leading_dimension = 64;
  d.d.leading_dimension = 41;
  Request two;
  ASSERT_TRUE(read(d, Purpose::kRun, kGpu, &two).ok());
  EXPECT_EQ(two.key.problem.alignment, Alignment::kElement);
}

// A and D are column slices of one buffer: 8 matrices of one row each, a buffer row apart.
TEST(Distances, MatricesOfOneRowMayBeSlicesOfABuffer) {
  std::vector<float> buffer(8 * 80);
  MatmulRequest m(1, 40, 33);
  M& d = m.desc;
  d.batch = 8;
  d.a.data = buffer.data(), d.d.data = buffer.data() + 33;
  d.a.batch_stride = d.d.batch_stride = 80;
  for (const int64_t anything : kAnything) {
    d.a.leading_dimension = d.d.leading_dimension = anything;
    Request request;
    EXPECT_TRUE(read(d, Purpose::kRun, kCpu, &request).ok()) << read(d, Purpose::kRun, kCpu, &request);
  }
  d.d.data = buffer.data() + 32;
  Request request;
  EXPECT_EQ(read(d, Purpose::kRun, kCpu, &request).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Distances, DMayEqualCInASingleRow) {
  MatmulRequest m(1, 40, 33);
  M& d = m.desc;
  d.c = d.d;
  d.epilogue.beta = 1;
  d.c.leading_dimension = 3, d.d.leading_dimension = 7;
  Request request;
  EXPECT_TRUE(read(d, Purpose::kRun, kCpu, &request).ok()) << read(d, Purpose::kRun, kCpu, &request);
}

// A distance that was accepted in a plan or call with one row must be refused with two rows.
TEST(Distances, PlanAndRecentCallOfOneRowRefuseTwoRows) {
  for (const char* facts : {"ryzen-7-5800u.json", "h200.json"}) {
    SCOPED_TRACE(facts);
    FakeDevice fake(fake_compiler(), MissPolicy::kBlock, facts);
    MatmulRequest m(2, 40, 64);
    M d = m.desc;
    d.c = d.d;  // in place
    d.epilogue.beta = 1;
    d.m = 1;
    d.a.leading_dimension = d.c.leading_dimension = 1, d.d.leading_dimension = 5;
    lathe_plan* plan = nullptr;
    ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &d, &plan), LATHE_OK) << lathe_last_error();
    const auto run = [&] { return lathe_matmul(fake.device.get(), nullptr, &d); };
    for (const int64_t anything : kAnything) {
      d.a.leading_dimension = anything;
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(run(), LATHE_OK) << lathe_last_error();
        ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &d), LATHE_OK) << lathe_last_error();
      }
      EXPECT_EQ(fake.driver->last_args.lda, 64) << "of the packed request";
      EXPECT_NE(RecentCall<M>::find(*fake.device, nullptr, &d), nullptr);
    }
    EXPECT_EQ(fake.driver->loads.load(), 1) << "one class";
    d.a.leading_dimension = 1;
    d.m = 2;
    EXPECT_EQ(run(), LATHE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(lathe_last_error()).find("lda 1 < k 64"), std::string::npos) << lathe_last_error();
    EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &d), LATHE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(lathe_last_error()).find("lda 1 < k 64"), std::string::npos) << lathe_last_error();
    lathe_plan_destroy(plan);
  }
}

TEST(Distances, WarmedGpuHasNoMissAtAnyDistance) {
  FakeDevice fake(fake_compiler(), MissPolicy::kBlock, "h200.json");
  M d = in_columns();
  d.a.layout = LATHE_ROW_MAJOR;
  d.a.leading_dimension = 1;  // as in an example with one row
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), d, 2, &report), LATHE_OK) << lathe_last_error();
  d.miss_policy = LATHE_MISS_ERROR;
  d.m = 1;
  for (const int64_t anything : kAnything) {
    for (const int64_t offset : {0, 1, 2, 8}) {
      for (lathe_operand* o : {&d.a, &d.c, &d.d, &d.epilogue.residual}) o->leading_dimension = anything;
      for (lathe_operand* o : {&d.a, &d.b, &d.c, &d.d, &d.epilogue.residual}) o->batch_stride = anything;
      d.b.data = static_cast<char*>(address(1)) + offset;
      EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &d), LATHE_OK) << lathe_last_error();
    }
  }
}

// Contiguous matrices D of no rows are 0 apart. M and D are for calls, so the weight can be packed and warmed up.
TEST(Distances, PackingAndWarmUpIgnoreTheMatricesOfD) {
  FakeDevice fake;
  M d = LATHE_MATMUL_DESC_INIT;
  d.n = 32, d.k = 16, d.batch = 3;
  d.a.dtype = d.b.dtype = d.d.dtype = LATHE_F32;
  d.b.layout = LATHE_COLUMN_MAJOR;
  d.b.batch_stride = 32 * 16;
  uint32_t id = 0;
  size_t bytes = 0;
  EXPECT_EQ(lathe_packed_layout(fake.device.get(), &d, &id, &bytes), LATHE_OK) << lathe_last_error();
  Request request;
  for (const RequestContext& context : {kCpu, kGpu}) {
    EXPECT_EQ(read_matmul(&d, Purpose::kWarm, context, nullptr, &request), absl::OkStatus());
    d.m = 1;
    EXPECT_EQ(read_matmul(&d, Purpose::kPlan, context, nullptr, &request).code(),
              absl::StatusCode::kInvalidArgument);
    d.m = 0;
  }
}

// Weights with one row (K = 1) and with one column (N = 1).
TEST(Distances, PackingIgnoresTheDistanceOfASingleLine) {
  FakeDevice fake;
  for (const auto& [n, k, layout] :
       {std::tuple{int64_t{50}, int64_t{1}, LATHE_ROW_MAJOR}, {1, 50, LATHE_COLUMN_MAJOR}}) {
    std::vector<float> weight(50);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i) + 1;
    M d = LATHE_MATMUL_DESC_INIT;
    d.n = n, d.k = k;
    d.a.dtype = d.b.dtype = d.d.dtype = LATHE_F32;
    d.b.layout = layout;
    d.b.data = weight.data();
    uint32_t id = 0;
    size_t bytes = 0;
    std::vector<float> wanted;
    for (const int64_t anything : kAnything) {
      d.b.leading_dimension = d.b.batch_stride = anything;
      ASSERT_EQ(lathe_packed_layout(fake.device.get(), &d, &id, &bytes), LATHE_OK) << lathe_last_error();
      std::vector<float> got(bytes / sizeof(float), -1.0f);
      ASSERT_EQ(lathe_pack_weights(fake.device.get(), &d, id, got.data(), bytes), LATHE_OK)
          << lathe_last_error();
      if (wanted.empty()) wanted = got;
      EXPECT_EQ(got, wanted) << anything;
      for (const float w : weight) EXPECT_NE(std::find(got.begin(), got.end(), w), got.end());
    }
  }
}

}  // namespace
}  // namespace lathe
