// The matrix instructions that the "mma" family is built from, one row each: how large they are and how their
// operands and sums lie in a wave's registers. Plain data, read by the candidates' table and by the emitter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe {

// Hopper and the data centre's Blackwell have no mma.sync of 8-bit floats: ptxas 13.0 makes two of f16 of
// one, and twelve conversions of a pair, of which those of a warp's other products along M and N need fewer.
inline bool widens_f8(absl::string_view arch) {
  return absl::StartsWith(arch, "sm_9") || absl::StartsWith(arch, "sm_10");
}

// Where a lane's sums lie in D. Lane l has row l / row_divisor % row_lanes; its columns begin at
// l / column_divisor % column_lanes * column_step and come in runs of `run` neighbours, each run_rows rows
// and run_columns columns further than the run before.
struct SumLayout {
  int64_t row_divisor, row_lanes;
  int64_t column_divisor, column_lanes, column_step;
  int64_t run, run_rows, run_columns;
  // Bits of the lane's number in which lanes differ that hold other columns of the same row; 0 on AMD, where
  // lanes of a row do not combine what they have of it.
  int32_t lanes_of_row;
};

struct MatrixInstruction {
  enum Unit {
    kMmaSync,  // CUDA: operands as ldmatrix gives them
    kMfma,     // CDNA, waves of 64
    kWmma,     // RDNA, waves of 32
  };
  // The LLVM type of a lane's operand on AMD.
  enum Operand { kFloat, kHalves, kBfloats, kShorts, kInt, kLong, kInts };

  Unit unit;
  absl::string_view targets;  // prefix of the architectures' names
  DType type;
  // Of D. AMD's instructions are given B's columns as rows and A's rows as columns, so that a lane's sums are
  // neighbours along N; those are square.
  int64_t rows, columns;
  // AMD: what a lane holds of each operand, contiguous along K, and over how many groups of lanes K is
  // spread. A lane's row is its number modulo rows; on gfx11 both halves of a wave hold the same.
  int64_t lane_bytes, groups;
  Operand operand;
  const char* name;  // AMD: LLVM's intrinsic
  // AMD: cycles that it keeps its SIMD's matrix unit busy (CDNA2, CDNA3 and CDNA4 instruction set guides:
  // their "passes" are of 4 cycles; RDNA: AMD Matrix Instruction Calculator).
  int64_t cycles;
  // It multiplies FNUZ numbers, the operands are OCP e4m3: the same bits are half as much there, but for -0
  // and NaN, which are changed on the way to shared memory. A sum is four times what it makes of them,
  // exactly. (e5m2 has infinities, which FNUZ has not.)
  bool fnuz_of_ocp = false;

  constexpr int64_t wave() const { return unit == kMfma ? 64 : 32; }
  constexpr bool amd() const { return unit != kMmaSync; }
  // K that one read of shared memory serves, in bytes. AMD: every lane reads chunks of 16 bytes, which hold
  // its operands of one instruction or of several; K's order within a step is then another one, the same for
  // A and B.
  constexpr int64_t step_bytes() const { return amd() ? groups * read_bytes() : 32; }
  constexpr int64_t read_bytes() const { return std::max<int64_t>(lane_bytes, 16); }
  constexpr int64_t products() const { return amd() ? read_bytes() / lane_bytes : 1; }  // instructions a step
  constexpr int64_t sums() const { return rows * columns / wave(); }                    // registers of a lane
  SumLayout layout() const {
    if (unit == kMmaSync) return {4, 8, 1, 4, 2, 2, 8, 0, 0b00011};
    if (unit == kMfma && rows == 16) return {1, 16, 16, 4, 4, 4, 0, 0, 0};
    if (unit == kMfma) return {1, 32, 32, 2, 4, 4, 0, 8, 0};
    if (groups == 1) return {1, 16, 16, 2, 1, 1, 0, 2, 0};
    return {1, 16, 16, 2, 8, 8, 0, 0, 0};
  }
};

// mma.sync of 16 x 8: 32 bytes of K, whatever the type.
inline constexpr MatrixInstruction kMmaSyncInstruction = {
    MatrixInstruction::kMmaSync, "sm_", DType::kNone, 16, 8, 0, 1, MatrixInstruction::kInt, "", 0};

inline constexpr MatrixInstruction kAmdInstructions[] = {
    // The same on all of CDNA.
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
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E5M2, 16, 16, 8, 4, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", 16},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E4M3, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", 32},
    {MatrixInstruction::kMfma, "gfx950", DType::kF8E5M2, 32, 32, 8, 2, MatrixInstruction::kLong,
     "llvm.amdgcn.mfma.f32.32x32x16.bf8.bf8", 32},
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
};

// AMD's instruction with D of `edge` x `edge`; null if the architecture has none for the type. Generic
// targets
// ("gfx9-4-generic") have none: what their members share is left to FMAs.
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
