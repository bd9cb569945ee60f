#include "core/kernel_name.h"

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>
#include <vector>

namespace lathe {
namespace {

ProblemClass product() {
  ProblemClass c;
  c.a = c.b = c.d = DType::kBF16;
  c.trans_b = 1;
  c.n = 4096;
  c.k = 11008;
  c.m_lo = 257;
  c.m_hi = 512;
  return c;
}
template <typename Config>
Config config(int64_t m, int64_t n, int64_t k) {
  Config p;
  p.tile_m = m, p.tile_n = n, p.tile_k = k;
  return p;
}

TEST(KernelNameTest, ContainsOpClassAndPlan) {
  ProblemClass c = product();
  c.alignment = Alignment::k16;
  auto wgmma = config<WgmmaConfig>(128, 256, 64);
  wgmma.threads = 384;
  wgmma.stages = 4;
  wgmma.cluster_m = 2;
  EXPECT_EQ(kernel_name(c, wgmma),
            "lathe_matmul_bf16_bf16_nt_m257to512_n4096_k11008_a16_wgmma_128x256x64_t384_s4_c2x1x1");

  c = product();
  c.b = DType::kQ4_0;
  c.d = DType::kF32;
  c.m_lo = c.m_hi = 1;
  c.bias = DType::kF32;
  c.activation = Activation::kGeluTanh;
  BytesConfig bytes;
  bytes.tile_m = 1, bytes.tile_n = 64;
  bytes.register_m = 1;
  bytes.register_n = 32;
  bytes.lanes = 16;
  EXPECT_EQ(kernel_name(c, bytes),
            "lathe_matmul_bf16_by_q4_0_f32_nt_m1_n4096_k11008_biasf32_gelu_tanh_bytes_1x64_r1x32_v16");

  c.rows = Rows::kSumBF16;
  EXPECT_EQ(
      kernel_name(c, bytes),
      "lathe_matmul_sum_bf16_bf16_by_q4_0_f32_nt_m1_n4096_k11008_biasf32_gelu_tanh_bytes_1x64_r1x32_v16");

  c = ProblemClass();
  c.op = Op::kArgmax;
  c.a = DType::kF32;
  c.d = DType::kI64;
  c.wants_values = 1;
  c.row_lo = 16385;
  c.row_hi = Bucket::kOpenEnd;
  GpuRowsConfig rows;
  rows.tile_m = 1, rows.tile_n = 4096;
  rows.split = kMergeLast;
  EXPECT_EQ(kernel_name(c, rows), "lathe_argmax_f32_n16385up_i64_val_rows_1x4096_split2");

  c = product();
  c.op = Op::kMatmulArgmax;
  c.d = DType::kI32;
  c.logits = DType::kF32;
  c.m_lo = 513;
  c.m_hi = Bucket::kOpenEnd;
  EXPECT_EQ(kernel_name(c, config<SimtConfig>(64, 64, 16)),
            "lathe_matmul_argmax_bf16_f32_nt_m513up_n4096_k11008_i32_simt_64x64x16");
}

// Every field that changes a kernel must change its name.
TEST(KernelNameTest, DiffersForDifferentKernels) {
  std::set<std::string> names;
  const auto add = [&](const ProblemClass& c, const CompileConfig& p, const std::string& what) {
    const std::string name = kernel_name(c, p);
    EXPECT_TRUE(names.insert(name).second) << what << " is not in " << name;
    // Such a name is a valid identifier in C, PTX and ELF.
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z][a-z0-9_]*"))) << name;
  };
  const CompileConfig plan = config<MmaConfig>(64, 128, 32);
  add(product(), plan, "base");
  const std::vector<std::function<void(ProblemClass&)>> kinds = {
      [](ProblemClass& c) { c.a = c.b = DType::kF16; },
      [](ProblemClass& c) { c.b = DType::kI8; },
      [](ProblemClass& c) { c.c = DType::kBF16; },
      [](ProblemClass& c) { c.c = DType::kF32; },
      [](ProblemClass& c) { c.d = DType::kF32; },
      [](ProblemClass& c) { c.bias = DType::kBF16; },
      [](ProblemClass& c) { c.bias = DType::kF32; },
      [](ProblemClass& c) { c.residual = DType::kBF16; },
      [](ProblemClass& c) { c.trans_a = 1; },
      [](ProblemClass& c) { c.trans_b = 0; },
      [](ProblemClass& c) { c.packed_b = 1; },
      [](ProblemClass& c) { c.packed_b = 2; },
      [](ProblemClass& c) { c.activation = Activation::kGelu; },
      [](ProblemClass& c) { c.activation = Activation::kGeluTanh; },
      [](ProblemClass& c) { c.determinism = Determinism::kRunToRun; },
      [](ProblemClass& c) { c.determinism = Determinism::kBatchInvariant; },
      [](ProblemClass& c) { c.alignment = Alignment::k16; },
      [](ProblemClass& c) { c.alignment = Alignment::kByte; },
      [](ProblemClass& c) { c.math = Math::kTf32; },
      [](ProblemClass& c) { c.math = Math::kInt8; },
      [](ProblemClass& c) { c.math = Math::kBf16; },
      [](ProblemClass& c) { c.generic = 1; },
      [](ProblemClass& c) { c.dependent_launch = DependentLaunch::kOn; },
      [](ProblemClass& c) { c.dependent_launch = DependentLaunch::kConstantB; },
      [](ProblemClass& c) { c.scale_a = Scale::kPerTensor; },
      [](ProblemClass& c) { c.scale_a = Scale::kPerChannel; },
      [](ProblemClass& c) { c.scale_b = Scale::kPerTensor; },
      [](ProblemClass& c) { c.scale_b = Scale::kPerChannel; },
      [](ProblemClass& c) { c.zero_a = 1; },
      [](ProblemClass& c) { c.zero_b = Scale::kPerTensor; },
      [](ProblemClass& c) { c.zero_b = Scale::kPerChannel; },
      [](ProblemClass& c) { c.n = 4097; },
      [](ProblemClass& c) { c.k = 4096; },
      [](ProblemClass& c) { c.m_lo = 1; },
      [](ProblemClass& c) { c.m_hi = Bucket::kOpenEnd; },
      [](ProblemClass& c) { c.op = Op::kMatmulArgmax, c.d = DType::kI32, c.logits = DType::kBF16; },
      [](ProblemClass& c) { c.op = Op::kMatmulArgmax, c.d = DType::kI64, c.logits = DType::kBF16; },
      [](ProblemClass& c) { c.op = Op::kMatmulArgmax, c.d = DType::kI32, c.logits = DType::kF32; },
      [](ProblemClass& c) {
        c.op = Op::kMatmulArgmax, c.d = DType::kI32, c.logits = DType::kF32, c.wants_values = 1;
      },
  };
  for (size_t i = 0; i < kinds.size(); ++i) {
    ProblemClass c = product();
    kinds[i](c);
    add(c, plan, "class " + std::to_string(i));
  }
  const auto change = [&](const std::string& what, const std::function<void(CompileConfig*)>& set) {
    CompileConfig changed = plan;
    set(&changed);
    add(product(), changed, what);
  };
  for (const auto& [field, value] : plan.fields())
    change(field->name, [field = field, value = value](CompileConfig* c) { c->set(field->name, value + 1); });
  change("kernel", [](CompileConfig* c) { *c = config<SimtConfig>(64, 128, 32); });
  change("ukernel", [](CompileConfig* c) { c->ukernel.function = "rows_f32"; });
  change("provider", [](CompileConfig* c) { c->external.provider = "openblas"; });
  change("routine", [](CompileConfig* c) { c->external.routine = "cblas_sgemm"; });
  for (const int32_t split : {kMergeLast, kMergeCluster}) {
    CompileConfig changed = plan;
    changed.set_split(split);
    add(product(), changed, "split " + std::to_string(split));
  }
}

}  // namespace
}  // namespace lathe
