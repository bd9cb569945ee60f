// B in 4-bit blocks, and scales and zero points of i8: the class and the arguments, and what is refused with which
// reason.
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "core/packed.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument, kUnsupported = absl::StatusCode::kUnimplemented;
RequestContext context_of(bool is_cpu) {
  RequestContext context;
  context.device = is_cpu ? "cpu" : "cuda:0";
  context.is_cpu = is_cpu;
  return context;
}

// A product of 5 x 6 x 64 whose memory is never read.
struct ProductRequest {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  float data[1024] = {}, out[64] = {}, scales[8] = {};
  int32_t zero = 3, zeros[6] = {};
  lathe_scale scale = LATHE_SCALE_INIT;

  ProductRequest(lathe_dtype a, lathe_dtype b) {
    desc.m = 5, desc.n = 6, desc.k = 64;
    desc.a.data = desc.b.data = data;
    desc.d.data = out;
    desc.a.dtype = a;
    desc.b.dtype = b;
    desc.d.dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    scale.dtype = LATHE_F32;
    scale.data = scales;
  }
  ProductRequest(const Product&) = delete;
  absl::Status read(Request* r, bool is_cpu = true) const {
    return read_matmul(&desc, Purpose::kRun, context_of(is_cpu), nullptr, r);
  }
};

TEST(Q4, LeadingDimensionIsInElements) {
  ProductRequest p(LATHE_BF16, LATHE_Q4_0);
  p.desc.b.leading_dimension = 96;
  p.desc.math = LATHE_MATH_INT8;
  Request r;
  ASSERT_TRUE(p.read(&r).ok()) << p.read(&r);
  EXPECT_EQ(r.key.problem.a, DType::kBF16);
  EXPECT_EQ(r.key.problem.b, DType::kQ4_0);
  EXPECT_EQ(r.key.problem.math, Math::kInt8);
  EXPECT_EQ(r.args.ldb, 96);
  EXPECT_EQ(describe(r), "matmul bf16 by q4_0 a=n b=t m=5 n=6 k=64 batch=1 d=f32 math=int8");
}

TEST(Q4, TheLayoutOfAPackedWeightHasNoEffect) {
  for (lathe_layout layout : {LATHE_ROW_MAJOR, LATHE_COLUMN_MAJOR}) {
    ProductRequest p(LATHE_F32, LATHE_Q4_0);
    p.desc.n = 64;
    p.desc.math = LATHE_MATH_INT8;
    p.desc.b.layout = layout;
    p.desc.b.packed_layout = packed_layout_id(kColumns16, DType::kQ4_0);
    Request r;
    EXPECT_TRUE(read_matmul(&p.desc, Purpose::kPlan, context_of(true), nullptr, &r).ok());
    EXPECT_EQ(r.key.problem.trans_b, 1);
  }
}

TEST(Q4, MathInt8AppliesToBlocksOnly) {
  ProductRequest p(LATHE_F32, LATHE_Q4_0), f32(LATHE_F32, LATHE_F32);
  Request r;
  p.desc.math = LATHE_MATH_TF32;
  ASSERT_TRUE(p.read(&r).ok());
  EXPECT_EQ(r.key.problem.math, Math::kStrict);
  f32.desc.math = LATHE_MATH_INT8;
  Request s;
  ASSERT_TRUE(f32.read(&s).ok());
  EXPECT_EQ(s.key.problem.math, Math::kStrict);
}

TEST(Q4, RefusalsNameTheCause) {
  struct {
    std::function<void(lathe_matmul_desc*)> change;
    absl::StatusCode code;
    const char* says;
  } const cases[] = {
      {[](lathe_matmul_desc* d) { d->k = 33; }, kInvalid, "k 33 is not a multiple of 32"},
      {[](lathe_matmul_desc* d) { d->b.leading_dimension = 72; }, kInvalid, "ldb 72 is not a multiple of 32"},
      {[](lathe_matmul_desc* d) { d->b.leading_dimension = 32; }, kInvalid, "ldb 32 < k 64"},
      {[](lathe_matmul_desc* d) { d->batch = 2, d->b.batch_stride = 100; }, kInvalid,
       "batch_stride 100 is not a multiple of 32"},
      {[](lathe_matmul_desc* d) { d->b.layout = LATHE_ROW_MAJOR; }, kUnsupported, "only COLUMN_MAJOR"},
      {[](lathe_matmul_desc* d) { d->a.dtype = LATHE_I8; }, kUnsupported,
       "cannot be multiplied by q4_0; use f32, f16, bf16"},
      {[](lathe_matmul_desc* d) { d->a.dtype = LATHE_Q4_0; }, kUnsupported, "a: dtype q4_0 is not one of"},
      {[](lathe_matmul_desc* d) { d->d.dtype = LATHE_Q4_0; }, kUnsupported, "d: dtype q4_0 is not one of"},
  };
  for (const auto& c : cases) {
    ProductRequest p(LATHE_F32, LATHE_Q4_0);
    c.change(&p.desc);
    Request r;
    const absl::Status status = p.read(&r);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_NE(status.message().find(c.says), absl::string_view::npos) << status;
    EXPECT_EQ(status.message().find("matmul "), 0u) << status;
  }
}

// K, the leading dimension and the batch stride of every block format are whole blocks.
TEST(BlockFormats, NeedWholeBlocks) {
  for (const DTypeRow& row : kDTypes) {
    if (row.kind != DTypeKind::kBlocks) continue;
    const int64_t block = row.elements;
    const auto read = [&](int64_t k, int64_t leading, int64_t stride) {
      ProductRequest p(LATHE_F32, static_cast<lathe_dtype>(row.value));
      p.desc.m = 1, p.desc.n = 2, p.desc.k = k;
      p.desc.a.leading_dimension = 4 * block;
      p.desc.b.leading_dimension = leading;
      p.desc.batch = stride == 0 ? 1 : 2;
      p.desc.a.batch_stride = 0;
      p.desc.b.batch_stride = stride;
      Request r;
      return p.read(&r);
    };
    const auto expect = [&](const absl::Status& status, const std::string& says) {
      EXPECT_EQ(status.code(), kInvalid) << row.name;
      EXPECT_NE(status.message().find(absl::StrCat(says, " is not a multiple of ", block,
                                                   ", the elements of a block of ", row.name)),
                absl::string_view::npos)
          << status;
    };
    EXPECT_TRUE(read(2 * block, 0, 0).ok()) << row.name << ": " << read(2 * block, 0, 0);
    EXPECT_TRUE(read(2 * block, 3 * block, 0).ok()) << row.name;
    expect(read(block + 1, 0, 0), absl::StrCat("k ", block + 1));
    expect(read(block / 2, 0, 0), absl::StrCat("k ", block / 2));
    expect(read(2 * block, 2 * block + 16, 0), absl::StrCat("ldb ", 2 * block + 16));
    expect(read(2 * block, 2 * block, 20 * block + 8), absl::StrCat("batch_stride ", 20 * block + 8));
  }
}

TEST(Blocks, AreSupportedOnGpusInSixFormats) {
  for (const DTypeRow& row : kDTypes) {
    if (row.kind != DTypeKind::kBlocks) continue;
    constexpr absl::string_view kOnGpus = "q4_0, q8_0, q4_1, q4_k, q6_k, mxfp4";
    ProductRequest p(LATHE_F32, static_cast<lathe_dtype>(row.value));
    p.desc.m = 1, p.desc.k = row.elements;
    Request r;
    const absl::Status status = p.read(&r, /*is_cpu=*/false);
    if (absl::StrContains(kOnGpus, row.name)) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(status.code(), kUnsupported) << row.name;
    EXPECT_NE(status.message().find(absl::StrCat("b: only the CPU multiplies f32 by ", row.name,
                                                 "; this device multiplies f32 by f32, ", kOnGpus)),
              absl::string_view::npos)
        << status;
  }
}

// Rows of blocks at multiples of 16 bytes, at others, and at odd addresses; blocks of 17 bytes need no alignment.
TEST(Blocks, TheirAlignmentOnGpusIsThatOfTheirScales) {
  const auto alignment = [](lathe_dtype dtype, int64_t k, size_t misalign) {
    alignas(16) static char b[1 << 16];
    alignas(16) static float a[4096], d[4096];
    ProductRequest p(LATHE_F32, dtype);
    p.desc.m = 2, p.desc.n = 4, p.desc.k = k;
    p.desc.a.data = a, p.desc.d.data = d, p.desc.b.data = b + misalign;
    Request r;
    EXPECT_TRUE(p.read(&r, /*is_cpu=*/false).ok());
    return r.key.problem.alignment;
  };
  EXPECT_EQ(alignment(LATHE_Q4_0, 256, 0), Alignment::k16);
  EXPECT_EQ(alignment(LATHE_Q4_0, 256, 2), Alignment::kElement);
  EXPECT_EQ(alignment(LATHE_Q4_0, 96, 0), Alignment::kElement);
  EXPECT_EQ(alignment(LATHE_Q4_0, 96, 1), Alignment::kByte);
  EXPECT_EQ(alignment(LATHE_Q8_0, 64, 32), Alignment::kElement);
  EXPECT_EQ(alignment(LATHE_MXFP4, 512, 0), Alignment::k16);
  EXPECT_EQ(alignment(LATHE_MXFP4, 96, 1), Alignment::kElement);
}

// Without a K there is no block. The product of a zero has no B in blocks.
TEST(Blocks, AnEmptyProductOnAGpuIsThatOfFloats) {
  ProductRequest p(LATHE_F16, LATHE_Q4_K);
  p.desc.k = 0;
  p.desc.math = LATHE_MATH_INT8;
  Request r;
  const absl::Status status = p.read(&r, /*is_cpu=*/false);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(r.zero_product);
  EXPECT_EQ(r.key.problem.b, DType::kF16);
  EXPECT_EQ(r.key.problem.math, Math::kStrict);
}

TEST(ScaleOfBytes, IsReadIntoClassAndArguments) {
  ProductRequest p(LATHE_I8, LATHE_I8);
  lathe_scale of_b = p.scale;
  of_b.granularity = LATHE_PER_CHANNEL;
  of_b.data = p.scales + 1;
  p.desc.a.scale = &p.scale;
  p.desc.b.scale = &of_b;
  p.desc.a.zero_point = &p.zero;
  p.desc.b.zero_point = p.zeros;
  Request r;
  ASSERT_TRUE(p.read(&r).ok()) << p.read(&r);
  EXPECT_EQ(r.key.problem.scale_a, Scale::kPerTensor);
  EXPECT_EQ(r.key.problem.scale_b, Scale::kPerChannel);
  EXPECT_EQ(r.key.problem.zero_a, 1);
  EXPECT_EQ(r.args.scale_a, p.scales);
  EXPECT_EQ(r.args.scale_b, p.scales + 1);
  EXPECT_EQ(r.args.zero_a, &p.zero);
  EXPECT_EQ(r.key.problem.zero_b, Scale::kPerChannel) << "as many as scales";
  EXPECT_EQ(r.args.zero_b, p.zeros);
  EXPECT_EQ(describe(r),
            "matmul i8 a=n b=t m=5 n=6 k=64 batch=1 d=f32 scale_a=tensor scale_b=channel zero_a "
            "zero_b=channel");
  p.desc.b.scale = nullptr;
  Request bare;
  ASSERT_TRUE(p.read(&bare).ok()) << p.read(&bare);
  EXPECT_EQ(bare.key.problem.zero_b, Scale::kPerTensor);
}

TEST(ScaleOfBytes, RefusalsNameTheCause) {
  struct {
    std::function<void(ProductRequest*)> change;
    absl::StatusCode code;
    const char* says;
  } const cases[] = {
      {[](ProductRequest* p) { p->scale.struct_size = 1; }, kInvalid, "a: scale: struct_size 1"},
      {[](ProductRequest* p) { p->scale.dtype = LATHE_F16; }, kUnsupported, "a: scale: dtype f16 is not f32"},
      {[](ProductRequest* p) { p->scale.granularity = LATHE_PER_BLOCK; }, kUnsupported,
       "PER_BLOCK is not supported for i8"},
      {[](ProductRequest* p) { p->scale.granularity = static_cast<lathe_granularity>(7); }, kInvalid,
       "granularity 7"},
      {[](ProductRequest* p) { p->scale.block_size = 32; }, kInvalid,
       "block_size 32 must be 0 without PER_BLOCK"},
      {[](ProductRequest* p) { p->scale.data = nullptr; }, kInvalid, "a: scale: data is NULL"},
      {[](ProductRequest* p) { p->scale.data = p->out; }, kInvalid, "d overlaps the scale of a"},
      {[](ProductRequest* p) { p->desc.d.dtype = LATHE_I32; }, kInvalid, "have no scales: use a float dtype"},
      {[](ProductRequest* p) { p->desc.a.dtype = p->desc.b.dtype = LATHE_F32; }, kUnsupported,
       "scale_a: only a matmul of i8 has scales"},
      {[](ProductRequest* p) { p->desc.b.zero_point = p->out; }, kInvalid, "d overlaps the zero point of b"},
      {[](ProductRequest* p) {
         p->desc.a.scale = nullptr;
         p->desc.a.dtype = p->desc.b.dtype = LATHE_F32;
         p->desc.b.zero_point = &p->zero;
       },
       kUnsupported, "zero_b: only a matmul of i8 has scales and zero points"},
  };
  for (const auto& c : cases) {
    ProductRequest p(LATHE_I8, LATHE_I8);
    p.desc.a.scale = &p.scale;
    c.change(&p);
    Request r;
    const absl::Status status = p.read(&r);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_NE(status.message().find(c.says), absl::string_view::npos) << status;
  }
}

TEST(ScaleOfBytes, IsSupportedOnTheCpuOnly) {
  ProductRequest p(LATHE_I8, LATHE_I8);
  p.desc.a.zero_point = &p.zero;
  Request r;
  const absl::Status status = p.read(&r, /*is_cpu=*/false);
  EXPECT_EQ(status.code(), kUnsupported);
  EXPECT_NE(status.message().find("only the CPU has kernels with scales and zero points"),
            absl::string_view::npos)
      << status;
}

// A plan has no pointers, so that a scale is present is enough.
TEST(ScaleOfBytes, NullDataIsAScaleInAPlan) {
  ProductRequest p(LATHE_I8, LATHE_I8);
  p.scale.data = nullptr;
  p.desc.b.scale = &p.scale;
  Request r;
  ASSERT_TRUE(read_matmul(&p.desc, Purpose::kPlan, context_of(true), nullptr, &r).ok());
  EXPECT_EQ(r.key.problem.scale_b, Scale::kPerTensor);
}

// ---- Block scales

// A product of f4e2m1 by f4e2m1 with E8M0 scales.
struct ScaledRequest : ProductRequest {
  lathe_scale scale_a = LATHE_SCALE_INIT, scale_b = LATHE_SCALE_INIT;
  ScaledRequest() : ProductRequest(LATHE_F4_E2M1, LATHE_F4_E2M1) {
    for (lathe_scale* s : {&scale_a, &scale_b}) {
      s->data = scales;
      s->dtype = LATHE_F8_E8M0;
      s->granularity = LATHE_PER_BLOCK;
      s->block_size = 32;
    }
    desc.a.scale = &scale_a;
    desc.b.scale = &scale_b;
  }
};

TEST(BlockScales, BecomeAClassOfF32ByBlocks) {
  ScaledRequest p;
  Request r;
  ASSERT_TRUE(p.read(&r).ok()) << p.read(&r);
  EXPECT_EQ(describe(r), "matmul f32 by mxf4e2m1 a=n b=t m=5 n=6 k=64 batch=1");
  ASSERT_TRUE(r.scaled.has_value());
  EXPECT_TRUE(r.scaled->a.exists());
  EXPECT_EQ(r.scaled->a.elements.leading, 64);
  EXPECT_EQ(r.args.lda, 64);
  EXPECT_EQ(r.args.ldb, 64);
  EXPECT_EQ(r.spans.a, 5 * 32) << "two elements in a byte";
  EXPECT_EQ(r.spans.b, 6 * 32);
}

TEST(BlockScales, LayoutsOfScalesShareAClass) {
  ScaledRequest p;
  Request plain, other;
  ASSERT_TRUE(p.read(&plain).ok());
  p.scale_b.layout = LATHE_SCALES_TILED;
  p.scale_a.layout = LATHE_SCALES_BY_BLOCK;
  ASSERT_TRUE(p.read(&other).ok());
  EXPECT_TRUE(plain.key.problem == other.key.problem);
}

// GPU kernels read A and the scales where they are.
TEST(BlockScales, BecomeAClassOfBlocksByBlocksOnAGpu) {
  ScaledRequest p;
  static const float global = 2;
  p.scale_b.global = &global;
  p.scale_b.layout = LATHE_SCALES_TILED;
  p.desc.a.leading_dimension = 70;
  Request r;
  ASSERT_TRUE(p.read(&r, /*is_cpu=*/false).ok()) << p.read(&r, false);
  EXPECT_EQ(describe(r), "matmul mxf4e2m1 a=n b=t m=5 n=6 k=64 batch=1 d=f32");
  EXPECT_EQ(r.args.lda, 70) << "in elements";
  EXPECT_EQ(r.spans.a, 4 * 35 + 32);
  EXPECT_EQ(r.args.scale_a, p.scale_a.data);
  EXPECT_EQ(r.args.zero_a, nullptr);
  EXPECT_EQ(r.args.zero_b, &global);
  EXPECT_EQ(r.args.scale_a_line, 2) << "K is two blocks";
  EXPECT_EQ(r.args.scale_a_block, 1);
  EXPECT_EQ(r.args.scale_b_line, 16);
  EXPECT_EQ(r.args.scale_b_line32, 4);
  EXPECT_EQ(r.args.scale_b_line128, 512) << "K is one tile";
  EXPECT_EQ(r.args.scale_b_step, 1);
}

// Kernels of aligned classes load whole f32 scales.
TEST(BlockScales, MisalignedScalesLowerTheAlignmentOnAGpu) {
  ScaledRequest p;
  p.desc.a.dtype = p.desc.b.dtype = LATHE_F8_E4M3;
  p.desc.k = 128;
  for (lathe_scale* s : {&p.scale_a, &p.scale_b}) s->dtype = LATHE_F32, s->block_size = 128;
  Request r;
  ASSERT_TRUE(p.read(&r, /*is_cpu=*/false).ok()) << p.read(&r, false);
  EXPECT_NE(r.key.problem.alignment, Alignment::kByte);
  p.scale_b.data = static_cast<const char*>(p.scale_b.data) + 1;
  ASSERT_TRUE(p.read(&r, /*is_cpu=*/false).ok()) << p.read(&r, false);
  EXPECT_EQ(r.key.problem.alignment, Alignment::kByte);
}

// A distance of fp4 must be even if it is read.
TEST(BlockScales, DistancesThatAreNotReadMayHaveAnyValue) {
  ScaledRequest p;
  p.desc.a.leading_dimension = 65;
  Request r;
  EXPECT_EQ(p.read(&r).code(), kInvalid);
  p.desc.m = 1;
  p.desc.a.batch_stride = 7;
  EXPECT_TRUE(p.read(&r).ok()) << p.read(&r);
}

TEST(BlockScales, HugeDistancesDoNotOverflow) {
  const auto refused = [](const auto& change) {
    ScaledRequest p;
    p.desc.batch = 3;
    p.desc.a.batch_stride = p.desc.b.batch_stride = 1024;
    p.desc.d.batch_stride = 30;
    change(&p.scale_b);
    Request r;
    const absl::Status status = p.read(&r);
    EXPECT_EQ(status.code(), kInvalid);
    EXPECT_NE(status.message().find("spans more than 2^63 - 1 bytes"), absl::string_view::npos) << status;
  };
  refused([](lathe_scale* s) { s->leading_dimension = INT64_MAX; });
  refused([](lathe_scale* s) { s->batch_stride = INT64_MAX / 2; });
}

// Memory is described for `m` rows, so a distance of 0 is that of `m`, whatever M is.
TEST(BlockScales, PackedLinesOfAKnownMAreThoseOfTheLimit) {
  ScaledRequest p;
  const int32_t m = 2;
  p.desc.m_device = &m;
  for (lathe_scale_layout layout : {LATHE_SCALES_BY_BLOCK, LATHE_SCALES_PACKED_BY_FOUR}) {
    p.scale_a.layout = layout;
    p.scale_a.leading_dimension = 0;
    Request r;
    ASSERT_TRUE(p.read(&r).ok()) << p.read(&r);
    EXPECT_EQ(r.dims.m, 2);
    EXPECT_EQ(r.scaled->a.scales.leading, 5);
    p.scale_a.leading_dimension = 7;
    ASSERT_TRUE(p.read(&r).ok()) << p.read(&r);
    EXPECT_EQ(r.scaled->a.scales.leading, 7);
  }
}

TEST(BlockScales, TheGlobalFactorIsAnInput) {
  ScaledRequest p;
  for (lathe_scale* s : {&p.scale_a, &p.scale_b}) {
    s->global = p.out + 7;
    Request r;
    const absl::Status status = p.read(&r);
    EXPECT_EQ(status.code(), kInvalid);
    EXPECT_TRUE(absl::EndsWith(status.message(), s == &p.scale_a ? "d overlaps the global scale of a"
                                                                 : "d overlaps the global scale of b"))
        << status;
    s->global = nullptr;
  }
}

}  // namespace
}  // namespace lathe
