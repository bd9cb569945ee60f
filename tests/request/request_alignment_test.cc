// The alignment class of a request: the largest alignment that every operand's base, row distance and matrix
// distance keep.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "fake_device.h"
#include "request/request.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock};
constexpr RequestContext kGpu = {"cuda:0", false, MissPolicy::kBlock};

// Addresses 1 MiB apart, which the readers compare but never dereference.
void* address(int operand) {
  return reinterpret_cast<void*>(uintptr_t{0x7f0000000000} + (uintptr_t(operand) << 20));
}
void* moved(const void* data, size_t bytes) { return static_cast<char*>(const_cast<void*>(data)) + bytes; }

// 40 by 64 times 64 by 48, a batch of two, with C, bias and residual. Every distance is a multiple of 16 bytes.
lathe_matmul_desc aligned(lathe_dtype in, lathe_dtype out) {
  lathe_matmul_desc d = LATHE_MATMUL_DESC_INIT;
  d.m = 40;
  d.n = 48;
  d.k = 64;
  d.batch = 2;
  d.a.dtype = d.b.dtype = in;
  d.c.dtype = d.d.dtype = d.epilogue.residual.dtype = d.epilogue.bias_dtype = out;
  d.b.layout = LATHE_COLUMN_MAJOR;
  d.a.batch_stride = 40 * 64;
  d.b.batch_stride = 48 * 64;
  d.c.batch_stride = d.d.batch_stride = d.epilogue.residual.batch_stride = 40 * 48;
  d.epilogue.beta = 1;
  d.a.data = address(0);
  d.b.data = address(1);
  d.c.data = address(2);
  d.d.data = address(3);
  d.epilogue.bias = address(4);
  d.epilogue.residual.data = address(5);
  return d;
}

ProblemClass class_of(const lathe_matmul_desc& d, const RequestContext& context = kGpu,
                      Purpose purpose = Purpose::kRun) {
  Request r;
  const absl::Status status = read_matmul(&d, purpose, context, nullptr, &r);
  EXPECT_TRUE(status.ok()) << status;
  return r.key.problem;
}

// The alignment class of an operand with this element size that is `off` bytes from an aligned address.
Alignment expected(size_t off, size_t element) {
  if (off % 16 == 0) return Alignment::k16;
  return off % element == 0 ? Alignment::kElement : Alignment::kByte;
}

TEST(Alignment, EveryBaseCounts) {
  for (lathe_dtype in : {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8, LATHE_F8_E4M3}) {
    for (lathe_dtype out : {LATHE_F32, LATHE_F16}) {
      const size_t in_bytes = size_of(static_cast<DType>(in)), out_bytes = size_of(static_cast<DType>(out));
      struct {
        const char* name;
        size_t element;
        std::function<void(lathe_matmul_desc*, size_t)> move;
      } const operands[] = {
          {"a", in_bytes, [](lathe_matmul_desc* d, size_t by) { d->a.data = moved(d->a.data, by); }},
          {"b", in_bytes, [](lathe_matmul_desc* d, size_t by) { d->b.data = moved(d->b.data, by); }},
          {"c", out_bytes, [](lathe_matmul_desc* d, size_t by) { d->c.data = moved(d->c.data, by); }},
          {"d", out_bytes, [](lathe_matmul_desc* d, size_t by) { d->d.data = moved(d->d.data, by); }},
          {"bias", out_bytes,
           [](lathe_matmul_desc* d, size_t by) { d->epilogue.bias = moved(d->epilogue.bias, by); }},
          {"residual", out_bytes,
           [](lathe_matmul_desc* d, size_t by) {
             d->epilogue.residual.data = moved(d->epilogue.residual.data, by);
           }},
      };
      for (const auto& operand : operands) {
        for (size_t off : {0, 1, 2, 4, 8, 16}) {
          lathe_matmul_desc d = aligned(in, out);
          operand.move(&d, off);
          EXPECT_EQ(class_of(d).alignment, expected(off, operand.element))
              << operand.name << " of " << operand.element << " bytes, " << off << " off";
        }
      }
    }
  }
}

TEST(Alignment, EveryStrideCounts) {
  const auto same = [](const lathe_matmul_desc& d, Alignment want, const char* name) {
    EXPECT_EQ(class_of(d).alignment, want) << name;
    EXPECT_EQ(class_of(d, kGpu, Purpose::kPlan).alignment, want) << name;
  };
  lathe_matmul_desc (*const fresh)() = [] { return aligned(LATHE_F16, LATHE_F16); };
  lathe_operand* (*const operands[])(lathe_matmul_desc*) = {
      [](lathe_matmul_desc* d) { return &d->a; }, [](lathe_matmul_desc* d) { return &d->b; },
      [](lathe_matmul_desc* d) { return &d->c; }, [](lathe_matmul_desc* d) { return &d->d; },
      [](lathe_matmul_desc* d) { return &d->epilogue.residual; }};
  const char* names[] = {"a", "b", "c", "d", "residual"};
  const int64_t widths[] = {64, 64, 48, 48, 48};
  for (int i = 0; i < 5; ++i) {
    for (int64_t off : {1, 4}) {  // 2 and 8 bytes
      lathe_matmul_desc d = fresh();
      operands[i](&d)->leading_dimension = widths[i] + off;
      operands[i](&d)->batch_stride = 1 << 13;
      same(d, Alignment::kElement, names[i]);
      d = fresh();
      operands[i](&d)->batch_stride += off;
      same(d, Alignment::kElement, names[i]);
      d.batch = 1;  // there is no second matrix, so its distance does not count
      same(d, Alignment::k16, names[i]);
    }
    lathe_matmul_desc d = fresh();
    operands[i](&d)->leading_dimension = widths[i] + 8;
    operands[i](&d)->batch_stride = 1 << 13;
    same(d, Alignment::k16, names[i]);
  }
  // With K = 65 packed rows have an odd length.
  lathe_matmul_desc d = fresh();
  d.k = 65;
  d.a.batch_stride = d.b.batch_stride = 1 << 13;
  same(d, Alignment::kElement, "k");
  // Broadcast inputs are aligned.
  d = fresh();
  d.a.batch_stride = d.c.batch_stride = 0;
  same(d, Alignment::k16, "broadcast");
}

TEST(Alignment, OperandsThatAreNotReadDoNotCount) {
  lathe_matmul_desc d = aligned(LATHE_F32, LATHE_F32);
  d.epilogue.beta = 0;
  d.c.data = moved(d.c.data, 1);
  d.c.leading_dimension = 49;
  EXPECT_EQ(class_of(d).alignment, Alignment::k16);
}

TEST(Alignment, CpuHasOneClass) {
  for (size_t off : {0, 1, 2, 4}) {
    lathe_matmul_desc d = aligned(LATHE_F32, LATHE_F32);
    d.a.data = moved(d.a.data, off);
    EXPECT_EQ(class_of(d, kCpu).alignment, Alignment::kElement);
    EXPECT_EQ(class_of(d, kCpu).m_lo, 33);
  }
}

TEST(Alignment, ByteAlignmentHasOneBucket) {
  for (int64_t m : {1, 7, 40, 5000}) {
    lathe_matmul_desc d = aligned(LATHE_F16, LATHE_F16);
    d.m = m;
    d.batch = 1;
    const ProblemClass whole = class_of(d);
    EXPECT_EQ((Bucket{whole.m_lo, whole.m_hi}), m_bucket(m));
    d.a.data = moved(d.a.data, 8);
    EXPECT_EQ((Bucket{class_of(d).m_lo, class_of(d).m_hi}), m_bucket(m));
    d.a.data = moved(d.a.data, 1);
    const ProblemClass byte = class_of(d);
    EXPECT_EQ((Bucket{byte.m_lo, byte.m_hi}), Bucket());
    EXPECT_EQ(byte, with_alignment(whole, Alignment::kByte, false));
  }
}

TEST(Alignment, ArgmaxCountsInputAndOutputs) {
  lathe_argmax_desc good = LATHE_ARGMAX_DESC_INIT;
  good.rows = 5;
  good.n = 64;
  good.x.dtype = LATHE_F16;
  good.x.data = address(0);
  good.indices = address(1);
  good.values = static_cast<float*>(address(2));
  const auto aligned_as = [](const lathe_argmax_desc& d, const RequestContext& context = kGpu,
                             Purpose purpose = Purpose::kRun) {
    Request r;
    const absl::Status status = read_argmax(&d, purpose, context, nullptr, &r);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(r.key.problem.m_hi, Bucket::kOpenEnd);
    return r.key.problem.alignment;
  };
  for (size_t off : {0, 1, 2, 4, 8, 16}) {
    lathe_argmax_desc d = good;
    d.x.data = moved(d.x.data, off);
    EXPECT_EQ(aligned_as(d), expected(off, 2)) << off;
    EXPECT_EQ(aligned_as(d, kCpu), Alignment::kElement);
    EXPECT_EQ(aligned_as(d, kGpu, Purpose::kPlan), Alignment::k16) << "plans see no pointers";
    // Outputs are written one element at a time, so only an alignment below one element counts.
    d = good;
    d.indices = moved(d.indices, off);
    EXPECT_EQ(aligned_as(d), off % 8 == 0 ? Alignment::k16 : Alignment::kByte) << "i64 " << off;
    d.index_dtype = LATHE_I32;
    EXPECT_EQ(aligned_as(d), off % 4 == 0 ? Alignment::k16 : Alignment::kByte) << "i32 " << off;
    d = good;
    d.values = static_cast<float*>(moved(d.values, off));
    EXPECT_EQ(aligned_as(d), off % 4 == 0 ? Alignment::k16 : Alignment::kByte) << "values " << off;
  }
  lathe_argmax_desc d = good;
  d.x.leading_dimension = 65;
  EXPECT_EQ(aligned_as(d), Alignment::kElement);
  d.x.leading_dimension = 72;
  EXPECT_EQ(aligned_as(d), Alignment::k16);
  d = good;
  d.n = 63;
  EXPECT_EQ(aligned_as(d), Alignment::kElement);
}

// A GPU for plans only: nothing dereferences the addresses.
struct FakeGpu : FakeDevice {
  FakeGpu() : FakeDevice(fake_compiler(), MissPolicy::kBlock, "h200.json") {}
};

TEST(Alignment, PlanServesEveryAlignment) {
  FakeGpu fake;
  lathe_matmul_desc d = aligned(LATHE_F16, LATHE_F16);
  lathe_matmul_desc without_pointers = d;
  without_pointers.a.data = without_pointers.b.data = without_pointers.c.data = without_pointers.d.data =
      nullptr;
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &without_pointers, &plan), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->loads.load(), 1);
  ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &d), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->loads.load(), 1) << "aligned as planned";
  const LoadedKernel* planned = fake.driver->last.kernel;

  int loads = 1;
  for (size_t off : {2, 1}) {  // kElement and kByte: each loads one kernel, once
    lathe_matmul_desc skewed = d;
    skewed.b.data = moved(d.b.data, off);
    ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &skewed), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(fake.driver->loads.load(), ++loads) << off;
    EXPECT_NE(fake.driver->last.kernel, planned);
    EXPECT_EQ(fake.driver->last_args.b, skewed.b.data);
    ASSERT_EQ(lathe_plan_run_matmul(plan, nullptr, &skewed), LATHE_OK) << lathe_last_error();
    EXPECT_EQ(fake.driver->loads.load(), loads) << off;

    // The plan's bucket is (32, 64] at every alignment.
    skewed.m = 65;
    skewed.a.batch_stride = skewed.c.batch_stride = skewed.d.batch_stride =
        skewed.epilogue.residual.batch_stride = 1 << 13;
    EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &skewed), LATHE_INVALID_ARGUMENT) << off;
    EXPECT_NE(std::string(lathe_last_error()).find("m 65 is not in [33, 64]"), std::string::npos)
        << lathe_last_error();
    // A request of another class is still refused.
    skewed = d;
    skewed.b.data = moved(d.b.data, off);
    skewed.epilogue.activation = LATHE_ACTIVATION_RELU;
    EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &skewed), LATHE_INVALID_ARGUMENT) << off;
  }
  lathe_plan_destroy(plan);
}

TEST(Alignment, WarmedGpuHasNoMissAtAnyAlignment) {
  FakeGpu fake;
  lathe_matmul_desc d = aligned(LATHE_F16, LATHE_F16);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), d, 40, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.classes, 2u * 18 + 1) << "16 exact buckets and two ranges at 16 and at 2 bytes, one at 1";
  d.miss_policy = LATHE_MISS_ERROR;
  for (size_t off : {0, 1, 2, 8}) {
    for (int64_t m : {1, 16, 17, 40}) {
      lathe_matmul_desc skewed = d;
      skewed.m = m;
      skewed.a.data = moved(d.a.data, off);
      EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &skewed), LATHE_OK)
          << off << " " << lathe_last_error();
    }
  }
}

}  // namespace
}  // namespace lathe
