// The matrix instructions of the "mma" family, one row each: their sizes and how their operands and
// accumulators lie in a wave's registers. Plain data, read by the candidate tables and by the emitter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe {

// Hopper and datacenter Blackwell have no mma.sync for 8-bit floats: ptxas 13.0 expands one into two f16
// instructions and twelve conversions, fewer where products along M or N share a converted fragment.
inline bool widens_f8(absl::string_view arch) {
  return absl::StartsWith(arch, "sm_9") || absl::StartsWith(arch, "sm_10");
}

// Where a lane's accumulators lie in D. Lane l has row l / row_divisor % row_lanes. Its columns begin at
// l / column_divisor % column_lanes * column_step and come in runs of `run` adjacent columns. Each run is
// run_rows rows and run_columns columns after the previous one.
struct SumLayout {
  int64_t row_divisor, row_lanes;
  int64_t column_divisor, column_lanes, column_step;
  int64_t run, run_rows, run_columns;
  // The bits of the lane number that differ among lanes holding other columns of the same row. 0 on AMD,
  // where lanes do not combine their columns of a row.
  int32_t lanes_of_row;
};

struct MatrixInstruction {
  enum Unit {
    kMmaSync,  // CUDA: fragments as ldmatrix loads them
    kMfma,     // CDNA, waves of 64
    kWmma,     // RDNA, waves of 32
  };
  // AMD: the LLVM type of a lane's operand.
  enum Operand { kFloat, kHalves, kBfloats, kShorts, kInt, kLong, kInts };

  Unit unit;
  absl::string_view targets;  // prefix of the architecture's name
  DType type;
  // Size of D. On AMD the instruction gets B's columns as its rows and A's rows as its columns, so that a
  // lane's accumulators are adjacent along N. D is square there, so the sizes are the same either way.
  int64_t rows, columns;
  // AMD: the bytes of each operand that a lane holds (contiguous along K), and the number of lane groups over
  // which K is spread. A lane's row is its number modulo `rows`. On gfx11 both halves of a wave hold the same
  // elements.
  int64_t lane_bytes, groups;
  Operand operand;
  const char* name;  // AMD: LLVM's intrinsic
  // AMD: cycles that the instruction occupies its SIMD's matrix unit (CDNA2, CDNA3 and CDNA4 instruction set
  // guides, whose "passes" are 4 cycles each; RDNA: AMD Matrix Instruction Calculator).
  int64_t cycles;
  // The instruction multiplies FNUZ numbers but the operands are OCP e4m3. The same bits mean half the value
  // in FNUZ, so the accumulators are multiplied by 4, which is exact; -0 and NaN are converted on the way to
  // shared memory. (Not possible for e5m2: OCP has infinities, FNUZ has none.)
  bool fnuz_of_ocp = false;
  // AMD: bytes that a lane reads of each operand at once, at least. 16, but fewer where an instruction must not
  // multiply elements of more than one group of scales.
  int64_t least_read = 16;

  // The instruction takes the formats of its operands, and their scales or none.
  bool takes_formats() const { return absl::EndsWith(name, ".f8f6f4"); }
  // It multiplies fp8 and fp4 in blocks as they are stored. If it takes formats, a lane holds kCodes of each operand.
  static constexpr int64_t kCodes = 32;
  constexpr bool multiplies_codes() const { return has_scales_apart(type); }
  // It also multiplies each block of kCodes along K by its scales of A and B. Group g of the lanes gives the scale of
  // block g of the step, whichever lanes hold the block's elements.
  constexpr bool applies_scales() const { return multiplies_codes() && type != DType::kF8E4M3x128; }

  constexpr int64_t wave() const { return unit == kMfma ? 64 : 32; }
  constexpr bool amd() const { return unit != kMmaSync; }
  // Bytes of K that one read of shared memory serves. AMD: a lane reads chunks of mostly 16 bytes, which hold its
  // operands of one or more instructions. That permutes K within a step, in the same way for A and B.
  constexpr int64_t step_bytes() const { return amd() ? groups * read_bytes() : 32; }
  constexpr int64_t read_bytes() const { return std::max(lane_bytes, least_read); }
  // Instructions per step.
  constexpr int64_t products() const { return amd() ? read_bytes() / lane_bytes : 1; }
  // Accumulators of a lane.
  constexpr int64_t sums() const { return rows * columns / wave(); }
  SumLayout layout() const {
    if (unit == kMmaSync) return {4, 8, 1, 4, 2, 2, 8, 0, 0b00011};
    if (unit == kMfma && rows == 16) return {1, 16, 16, 4, 4, 4, 0, 0, 0};
    if (unit == kMfma) return {1, 32, 32, 2, 4, 4, 0, 8, 0};
    if (groups == 1) return {1, 16, 16, 2, 1, 1, 0, 2, 0};
    return {1, 16, 16, 2, 8, 8, 0, 0, 0};
  }
};

// mma.sync m16n8: 32 bytes of K for every type.
inline constexpr MatrixInstruction kMmaSyncInstruction = {
    MatrixInstruction::kMmaSync, "sm_", DType::kNone, 16, 8, 0, 1, MatrixInstruction::kInt, "", 0};

inline constexpr MatrixInstruction kAmdInstructions[] = {
    // f32: the same on all CDNA targets.
    {MatrixInstruction::kMfma, "gfx9", DType::kF32, 16, 16, 4, 4, MatrixInstruction::kFloat,
     "llvm.amdgcn.mfma.f32.16x16x4f32", 32},
    {MatrixInstruction::kMfma, "gfx9", DType::kF32, 32, 32, 4, 2, MatrixInstruction::kFloat,
     "llvm.amdgcn.mfma.f32.32x32x2f32", 64},
    {MatrixInstruction::kMfma, "gfx90a", DType::kF16, 16, 16, 8, 4, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.16x16x16f16", 32},
    {MatrixInstruction::kMfma, "gfx90a", DType::kF16, 32, 32, 8, 2, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.32x32x8f16", 64},
    {MatrixInstruction::kMfma, "gfx90a", DType::kBF16, 16, 16, 8, 4, MatrixInstruction::kShorts,
     "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", 32},
    {MatrixInstruction::kMfma, "gfx90a", DType::kBF16, 32, 32, 8, 2, MatrixInstruction::kShorts,
     "llvm.amdgcn.mfma.f32.32x32x8bf16.1k", 64},
    {MatrixInstruction::kMfma, "gfx90a", DType::kI8, 16, 16, 4, 4, MatrixInstruction::kInt,
     "llvm.amdgcn.mfma.i32.16x16x16i8", 32},
    {MatrixInstruction::kMfma, "gfx90a", DType::kI8, 32, 32, 4, 2, MatrixInstruction::kInt,
     "llvm.amdgcn.mfma.i32.32x32x8i8", 64},
    {MatrixInstruction::kMfma, "gfx942", DType::kF16, 16, 16, 8, 4, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.16x16x16f16", 16},
    {MatrixInstruction::kMfma, "gfx942", DType::kF16, 32, 32, 8, 2, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.32x32x8f16", 32},
    {MatrixInstruction::kMfma, "gfx942", DType::kBF16, 16, 16, 8, 4, MatrixInstruction::kShorts,
     "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", 16},
    {MatrixInstruction::kMfma, "gfx942", DType::kBF16, 32, 32, 8, 2, MatrixInstruction::kShorts,
     "llvm.amdgcn.mfma.f32.32x32x8bf16.1k", 32},
    {MatrixInstruction::kMfma, "gfx942", DType::kI8, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.i32.16x16x32.i8", 16},
    {MatrixInstruction::kMfma, "gfx942", DType::kI8, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.i32.32x32x16.i8", 32},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3Fnuz, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", 16},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3Fnuz, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", 32},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E5M2Fnuz, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", 16},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E5M2Fnuz, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.bf8.bf8", 32},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", 16, /*fnuz_of_ocp=*/true},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", 32, /*fnuz_of_ocp=*/true},
    {MatrixInstruction::kMfma, "gfx950", DType::kF16, 16, 16, 16, 4, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.16x16x32.f16", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kF16, 32, 32, 16, 2, MatrixInstruction::kHalves,
     "llvm.amdgcn.mfma.f32.32x32x16.f16", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kBF16, 16, 16, 16, 4, MatrixInstruction::kBfloats,
     "llvm.amdgcn.mfma.f32.16x16x32.bf16", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kBF16, 32, 32, 16, 2, MatrixInstruction::kBfloats,
     "llvm.amdgcn.mfma.f32.32x32x16.bf16", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kI8, 16, 16, 16, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.i32.16x16x64.i8", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kI8, 32, 32, 16, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.i32.32x32x32.i8", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3, 16, 16, 32, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E5M2, 16, 16, 32, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3, 32, 32, 32, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", 64},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E5M2, 32, 32, 32, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", 64},
    // Two rows stand for every pair of formats: with a format of 8 bits, and with two of 4 bits.
    {MatrixInstruction::kMfma, "gfx950", DType::kMXF8E4M3, 16, 16, 32, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kMXF8E4M3, 32, 32, 32, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", 64},
    {MatrixInstruction::kMfma, "gfx950", DType::kMXF4E2M1, 16, 16, 16, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kMXF4E2M1, 32, 32, 16, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", 32},
    // Without scales, which multiply sums.
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3x128, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", 16, /*fnuz_of_ocp=*/true},
    {MatrixInstruction::kMfma, "gfx942", DType::kF8E4M3x128, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", 32, /*fnuz_of_ocp=*/true},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3x128, 16, 16, 32, 4, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3x128, 32, 32, 32, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", 64},
    {MatrixInstruction::kWmma, "gfx11", DType::kF16, 16, 16, 32, 1, MatrixInstruction::kHalves,
     "llvm.amdgcn.wmma.f32.16x16x16.f16", 32},
    {MatrixInstruction::kWmma, "gfx11", DType::kBF16, 16, 16, 32, 1, MatrixInstruction::kShorts,
     "llvm.amdgcn.wmma.f32.16x16x16.bf16", 32},
    {MatrixInstruction::kWmma, "gfx11", DType::kI8, 16, 16, 16, 1, MatrixInstruction::kInts,
     "llvm.amdgcn.wmma.i32.16x16x16.iu8", 32},
    {MatrixInstruction::kWmma, "gfx12", DType::kF16, 16, 16, 16, 2, MatrixInstruction::kHalves,
     "llvm.amdgcn.wmma.f32.16x16x16.f16", 16},
    {MatrixInstruction::kWmma, "gfx12", DType::kBF16, 16, 16, 16, 2, MatrixInstruction::kShorts,
     "llvm.amdgcn.wmma.f32.16x16x16.bf16", 16},
    {MatrixInstruction::kWmma, "gfx12", DType::kI8, 16, 16, 8, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.wmma.i32.16x16x16.iu8", 8},
    {MatrixInstruction::kWmma, "gfx12", DType::kF8E4M3, 16, 16, 8, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8", 8},
    {MatrixInstruction::kWmma, "gfx12", DType::kF8E5M2, 16, 16, 8, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.wmma.f32.16x16x16.bf8.bf8", 8},
    {MatrixInstruction::kWmma, "gfx12", DType::kF8E4M3x128, 16, 16, 8, 2, MatrixInstruction::kInts,
     "llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8", 8},
};

// The number by which a scaled instruction knows the elements of a format (cbsz and blgp in LLVM's
// IntrinsicsAMDGPU.td); -1 if it does not multiply them.
constexpr int32_t scaled_format_number(DType t) {
  switch (t) {
    case DType::kF8E4M3:
    case DType::kF8E4M3x128:
    case DType::kMXF8E4M3: return 0;
    case DType::kF8E5M2:
    case DType::kMXF8E5M2: return 1;
    case DType::kMXF4E2M1: return 4;
    default: return -1;
  }
}
// The type by which the table has the instruction for A and B; kNone if it has none.
constexpr DType instruction_type(DType a, DType b) {
  if (!has_scales_apart(a)) return a;
  if (scaled_format_number(a) < 0 || scaled_format_number(b) < 0) return DType::kNone;
  if (a == DType::kF8E4M3x128 || b == DType::kF8E4M3x128) return a == b ? a : DType::kNone;
  return a == DType::kMXF4E2M1 && b == DType::kMXF4E2M1 ? DType::kMXF4E2M1 : DType::kMXF8E4M3;
}

// AMD's instruction whose D is `edge` x `edge`; null if the architecture has none for the type. Generic
// targets ("gfx9-4-generic") have none: their kernels use FMAs, which all members have.
inline const MatrixInstruction* find_amd_instruction(absl::string_view arch, DType type, int64_t edge) {
  if (absl::StrContains(arch, "generic")) return nullptr;
  const bool cdna = absl::StartsWith(arch, "gfx90a") || absl::StartsWith(arch, "gfx942") ||
                    absl::StartsWith(arch, "gfx950");
  for (const MatrixInstruction& row : kAmdInstructions)
    if (row.type == type && row.rows == edge && absl::StartsWith(arch, row.targets) &&
        (cdna || row.unit != MatrixInstruction::kMfma))
      return &row;
  return nullptr;
}

}  // namespace lathe
