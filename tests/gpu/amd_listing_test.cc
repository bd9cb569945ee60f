// Tests the parser of AMD machine code and the model of a compute unit on hand-written code.
#include <gtest/gtest.h>

#include "amd_model.h"

namespace lathe {
namespace {

// Code of 4-byte instructions from address 0; "s_cbranch_x 8" branches to address 8.
AmdCode code_of(const std::vector<std::string>& lines) {
  AmdCode code;
  for (const std::string& line : lines) {
    AmdInstruction i;
    i.text = line;
    i.address = 4 * static_cast<int64_t>(code.size());
    if (i.is("s_cbranch")) i.target = std::stoll(line.substr(line.find(' ')));
    code.push_back(i);
  }
  return code;
}

TEST(AmdListing, FindsTheInnermostLoopWithTheWork) {
  const AmdCode code = code_of({
      "v_mfma_f32_16x16x16_bf16 a",  // 0: before all loops
      "s_add_u32 s0",                // 4: start of the outer loop
      "v_mfma_f32_16x16x16_bf16 b",  // 8: start of the inner loop
      "v_mfma_f32_16x16x16_bf16 c",  // 12
      "s_cbranch_scc1 8",            // 16
      "s_cbranch_scc1 4",            // 20
      "v_add_u32_e32 v0",            // 24: a loop without matrix instructions
      "s_cbranch_vccnz 24",          // 28
  });
  const AmdCode loop = inner_loop(code, is_matrix);
  ASSERT_EQ(loop.size(), 3u);
  EXPECT_EQ(loop.front().address, 8);
  EXPECT_EQ(inner_loop(code_of({"v_mfma_f32_16x16x16_bf16 a", "s_endpgm"}), is_matrix).size(), 2u);
}

TEST(AmdListing, CountsTheInstructionsOfALoop) {
  const LoopCounts c = count(code_of(
      {"s_waitcnt vmcnt(1)", "ds_write_b128 v1, v[2:5]", "global_load_dwordx4 v[2:5], v[6:7], off",
       "global_load_dword v2, v[6:7], off", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b128 v[2:5], v1",
       "ds_read2_b32 v[2:3], v1 offset1:8", "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]",
       "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", "v_mul_lo_u32 v0, v1, v2", "s_cbranch_scc1 0"}));
  EXPECT_EQ(c.all, 12);
  EXPECT_EQ(c.waits, 2);
  EXPECT_EQ(c.barriers, 1);
  EXPECT_EQ(c.matrix, 1);
  EXPECT_EQ(c.loads, 2);
  EXPECT_EQ(c.wide_loads, 1);
  EXPECT_EQ(c.load_bytes, 20);
  EXPECT_EQ(c.shared, 3);
  EXPECT_EQ(c.shared_bytes, 16 + 16 + 8);
  EXPECT_EQ(c.wide_shared_reads, 1);
  EXPECT_EQ(c.vector, 2);
  EXPECT_EQ(c.quarter_rate, 1);
  EXPECT_EQ(c.products, 2 + 1);
  EXPECT_EQ(c.in_flight, 3);  // one is left from the previous pass
  // gfx12 counts loads separately, in hexadecimal. A load that is waited for at once is alone in flight.
  EXPECT_EQ(count(code_of({"global_load_b128 v", "s_wait_loadcnt 0x0", "global_load_b128 v",
                           "s_wait_loadcnt_dscnt 0x0", "s_wait_loadcnt 0x0"}))
                .in_flight,
            1);
}

TEST(AmdListing, KnowsTheTypeOfAMatrixInstruction) {
  const auto is = [](const char* text, const char* type) { return is_matrix_of(code_of({text})[0], type); };
  EXPECT_TRUE(is("v_mfma_f32_16x16x16_bf16 v", "bf16"));
  EXPECT_TRUE(is("v_mfma_f32_32x32x8bf16_1k v", "bf16"));
  EXPECT_FALSE(is("v_mfma_f32_16x16x16_bf16 v", "f16"));
  EXPECT_TRUE(is("v_mfma_f32_16x16x4f32 v", "f32"));
  EXPECT_TRUE(is("v_mfma_i32_16x16x32_i8 v", "i8"));
  EXPECT_TRUE(is("v_wmma_i32_16x16x16_iu8 v", "i8"));
  EXPECT_TRUE(is("v_mfma_f32_16x16x32_fp8_fp8 v", "f8e4m3"));
  EXPECT_FALSE(is("v_mfma_f32_16x16x32_fp8_fp8 v", "f8e5m2"));
  EXPECT_FALSE(is("v_fma_f32 v", "f32"));
}

// Computed by hand from the registers, waves and LDS of a unit.
TEST(AmdModel, CountsResidentWorkgroups) {
  const auto resident = [](const char* target, int64_t threads, int64_t registers, int64_t shared,
                           int64_t scalars = 48) {
    KernelFacts k;
    k.registers = registers, k.shared_bytes = shared, k.scalar_registers = scalars;
    const Target t = parse_target(target).value();
    k.wave = wave_size(t);
    return resident_workgroups(k, threads, t);
  };
  EXPECT_EQ(resident("gfx942", 256, 128, 0), 4);        // 4 waves per SIMD
  EXPECT_EQ(resident("gfx942", 256, 129, 0), 3);        // 136 of 512 registers: 3 waves per SIMD
  EXPECT_EQ(resident("gfx942", 256, 32, 0), 8);         // at most 8 waves
  EXPECT_EQ(resident("gfx942", 256, 32, 0, 102), 7);    // 112 of 800 scalar registers: 7 waves
  EXPECT_EQ(resident("gfx942", 256, 64, 32768), 2);     // 64 KB of LDS
  EXPECT_EQ(resident("gfx950", 256, 64, 32768), 4);     // 160 KB, in steps of 1280: 33280
  EXPECT_EQ(resident("gfx1100", 256, 96, 0), 4);        // 16 waves on each of two SIMDs
  EXPECT_EQ(resident("gfx1100", 256, 97, 0), 3);        // 120 of 1536 registers: 12 waves
  EXPECT_EQ(resident("gfx1201", 256, 128, 0), 2.5);     // 144 registers: 10 waves on each of four SIMDs
  EXPECT_EQ(resident("gfx1201", 256, 48, 40960), 1.5);  // three workgroups of 40 KB in 128 KB
}

TEST(AmdModel, SlowestPartBoundsTheLoop) {
  DeviceFacts facts;
  facts.target = parse_target("gfx942").value();
  facts.facts = {{"compute_units", {304, ""}},
                 {"clock_hz", {2e9, ""}},
                 {"memory_bytes_per_second", {6.08e12, ""}},
                 {"flops_f32", {155.648e12, ""}}};  // per cycle and unit: 10 bytes, 256 operations
  LoopQuestion q;
  q.threads = 256, q.resident = 1, q.matrix_cycles = 16, q.bound = Bound::kMatrix;
  q.loop.all = 100, q.loop.matrix = 50;
  EXPECT_DOUBLE_EQ(predicted_fraction(q, facts), 1);  // 800 cycles; the issue needs 400
  q.loop.barriers = 1;
  EXPECT_DOUBLE_EQ(predicted_fraction(q, facts), 800.0 / 840);
  q.loop.vector = 400, q.loop.all = 500;
  EXPECT_DOUBLE_EQ(predicted_fraction(q, facts), 800.0 / 2040);
  q = LoopQuestion();
  q.threads = 256, q.resident = 1, q.bound = Bound::kMemory;
  q.loop.all = 4, q.loop.loads = 2, q.loop.load_bytes = 32, q.loop.in_flight = 4;
  // 256 lanes load 32 bytes in 1500 cycles: twice the loads of one pass are in flight.
  EXPECT_DOUBLE_EQ(predicted_fraction(q, facts), 256 * 32.0 / 1500 / 10);
  q.bound = Bound::kFma;
  q.loop = LoopCounts();
  q.loop.all = q.loop.vector = q.loop.products = 64;
  EXPECT_DOUBLE_EQ(predicted_fraction(q, facts), 0.5);  // 64 of 128 FMAs per cycle: none is packed
}

}  // namespace
}  // namespace lathe
