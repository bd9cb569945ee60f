// The shape of an "mma" kernel: the warps' parts of the tile, how each operand reaches shared memory, and how
// much shared memory is needed. Pure arithmetic, used by the candidate tables and by the emitter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/problem.h"
#include "kernels/matmul/matrix_instruction.h"

namespace lathe {

// The dtype of A's elements as matrix instructions multiply them. f16 holds the codes of fp8 and fp4.
constexpr DType multiplied_dtype(DType a) { return is_blocks(a) ? DType::kF16 : a; }

// AMD's instruction for A and B, null if there is none: one that applies the scales of both, or one for the codes.
inline const MatrixInstruction* find_mma_instruction(absl::string_view arch, DType a, DType b, int64_t edge) {
  const MatrixInstruction* found = find_amd_instruction(arch, instruction_type(a, b), edge);
  return found || !is_blocks(a) ? found : find_amd_instruction(arch, multiplied_dtype(a), edge);
}

// K of every split but the last is a multiple of this: a chunk of 16 bytes, a quantised block of A or B, or on AMD a
// whole stage if K is whole stages, so that no split needs a K mask.
inline int64_t mma_split_granularity(bool amd, int64_t k, int64_t tile_k, DType a, DType b) {
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(multiplied_dtype(a)));
  return std::max({amd && k % tile_k == 0 ? tile_k : chunk, block_elements(a), block_elements(b)});
}

struct MmaShape {
  static constexpr int64_t kSumBytes = 4;  // f32 or i32

  MatrixInstruction instruction = kMmaSyncInstruction;
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  int64_t warp_m = 0, warp_n = 0;  // one warp's part of the tile
  int64_t stages = 0;
  int64_t element_bytes = 2;
  bool a_k_contiguous = true, b_k_contiguous = true;
  Alignment alignment = Alignment::k16;
  // B's format if it is in quantised blocks. Its codes are multiplied, and their sums are scaled in f32
  // (emit_blocks.cc). Then A may be in blocks, too, of a format without minima. Or the instruction scales.
  DType blocks = DType::kNone, a_blocks = DType::kNone;

  // Call it after `blocks` is set. If 16 elements share a scale, an instruction of 16 x 16 x 16 multiplies those.
  void set_instruction(const MatrixInstruction& t) {
    instruction = t;
    if (t.amd() && has_blocks() && scaled() * element_bytes < t.step_bytes())
      instruction.least_read = t.lane_bytes;
  }

  int64_t row_warps() const { return tile_m / warp_m; }
  int64_t warps() const { return row_warps() * (tile_n / warp_n); }
  int64_t threads() const { return instruction.wave() * warps(); }
  int64_t fragment_rows() const { return warp_m / instruction.rows; }
  int64_t fragment_columns() const { return warp_n / instruction.columns; }
  int64_t depth_bytes() const { return tile_k * element_bytes; }  // bytes of K in a stage
  int64_t stage_bytes() const { return bytes_of_a() + tile_n * row_bytes_of_b() + scale_bytes(); }
  // Bytes of a row of A (a column of B) in a stage, and of all rows of A.
  int64_t row_bytes_of_a() const { return multiplies_codes() ? row_bytes(a_blocks) : depth_bytes(); }
  int64_t row_bytes_of_b() const { return multiplies_codes() ? row_bytes(blocks) : depth_bytes(); }
  int64_t bytes_of_a() const { return tile_m * row_bytes_of_a(); }
  // Steps of a stage, after each of which sums are scaled if they are.
  int64_t steps() const {
    if (applies_scales()) return tile_k / step_blocks() / MatrixInstruction::kCodes;
    return depth_bytes() / instruction.step_bytes() / scaled_steps();
  }

  // A and B in blocks whose codes the instruction multiplies as they are stored (emit_scaled.cc), with their scales or
  // before sums are scaled.
  bool multiplies_codes() const { return instruction.multiplies_codes(); }
  bool applies_scales() const { return instruction.applies_scales(); }
  int64_t step_blocks() const { return instruction.groups; }  // of kCodes in a step

  // B in quantised blocks that are decoded, and perhaps A.
  bool has_blocks() const { return blocks != DType::kNone && !multiplies_codes(); }
  bool has_a_blocks() const { return a_blocks != DType::kNone && !multiplies_codes(); }
  // Sums of products of codes are scaled in f32. Elements of K that share the scales of A and B, and the f32 for each
  // of them in a column of B (a scale, perhaps a minimum). A row of A in blocks has one f32.
  bool scales_sums() const { return blocks != DType::kNone && !applies_scales(); }
  int64_t scaled() const {
    if (multiplies_codes() || adds_parts()) return block_elements(blocks);
    return has_sixteens(blocks) || has_sixteens(a_blocks) ? 16 : 32;
  }
  int64_t scale_words() const { return row_of(blocks).scales > 1 ? 2 : 1; }
  int64_t scale_bytes_of_b() const {
    if (applies_scales()) return tile_n * tile_k / MatrixInstruction::kCodes;
    return scale_groups() * tile_n * scale_words() * 4;
  }
  int64_t scale_bytes() const {
    if (applies_scales()) return scale_bytes_of_b() + tile_m * tile_k / MatrixInstruction::kCodes;
    if (!scales_sums()) return 0;
    return scale_bytes_of_b() + (a_blocks != DType::kNone ? scale_groups() * tile_m * 4 : 0);
  }
  // AMD: scales of 128, unless an instruction multiplies a whole block. Registers beside those of the sums hold the
  // sums of a block through its steps, and through as many stages as a block has. Then they are scaled, once.
  bool adds_parts() const {
    return instruction.amd() && !instruction.takes_formats() && blocks == DType::kF8E4M3x128 &&
           (a_blocks == DType::kNone || a_blocks == blocks);
  }
  int64_t part_stages() const { return adds_parts() ? std::max<int64_t>(scaled() / tile_k, 1) : 1; }
  // Steps of the instruction in which sums have the same scale and whose fragments are loaded together.
  int64_t scaled_steps() const {
    return scales_sums() && !adds_parts() ? scaled() * element_bytes / instruction.step_bytes() : 1;
  }

  // Whether an operand is read in chunks of 16 bytes, on CUDA with cp.async. Other operands pass through
  // registers element by element. On CUDA so do bytes that are not K-contiguous, because ldmatrix cannot
  // transpose bytes; on AMD chunks are transposed in registers.
  bool copies_chunks(bool k_contiguous) const {
    if (multiplies_codes()) return true;  // K is whole chunks, which need no alignment
    return alignment == Alignment::k16 && (k_contiguous || instruction.amd() || element_bytes > 1);
  }
  bool copies_chunks_of_a() const { return !has_a_blocks() && copies_chunks(a_k_contiguous); }
  bool copies_chunks_of_b() const { return !has_blocks() && copies_chunks(b_k_contiguous); }
  bool copies_chunks() const { return copies_chunks_of_a() && copies_chunks_of_b(); }
  // Whether stages hide latency. Quantised blocks are loaded a stage before the other operand.
  bool uses_stages() const { return has_blocks() ? copies_chunks_of_a() : copies_chunks(); }

  // Loads per element of an operand that passes through registers.
  int64_t loads_of_element() const { return alignment == Alignment::kByte ? element_bytes : 1; }
  // An operand that passes through registers has one block in flight, however many stages there are, so more
  // than two stages would hide nothing.
  static constexpr int64_t kStagedStages = 2;

  // The epilogue passes accumulators through shared memory, `rows` fragment rows of every warp at a time. A
  // row there is longer than the tile is wide, so that rows that are written together fall into different
  // banks: 8 words longer on CUDA (half a warp writes pairs to four rows), 4 on AMD (lanes write four words
  // each to eight rows).
  int64_t store_pitch() const { return tile_n + (instruction.amd() ? 4 : 8); }
  int64_t store_bytes(int64_t rows) const {
    return row_warps() * rows * instruction.rows * store_pitch() * kSumBytes;
  }
  int64_t shared_bytes() const { return std::max(stages * stage_bytes(), store_bytes(1)); }
  int64_t store_rows() const {
    int64_t rows = fragment_rows();
    while (store_bytes(rows) > shared_bytes()) rows /= 2;
    return rows;
  }

  // Estimate of a thread's registers: what ptxas needs for sm_80 to sm_120 or up to 20 more, checked for
  // every row of the candidate table.
  int64_t registers() const {
    const int64_t sums = warp_m * warp_n / instruction.wave();
    if (multiplies_codes()) return sums + code_registers();
    const int64_t step = instruction.amd() ? instruction.read_bytes() / 4 : 0;
    const int64_t fragments =
        2 * (instruction.amd() ? (fragment_rows() + fragment_columns()) * step : warp_m / 4 + warp_n / 4);
    if (has_blocks()) {
      if (instruction.amd()) return sums + lane_block_registers(fragments) + 40;
      const int64_t of_a = has_a_blocks() ? piece_registers(tile_m, a_blocks) + 4 * fragment_rows() + 20
                                          : copy_registers(tile_m, a_k_contiguous);
      return sums + of_a + 40 + block_registers(fragments);
    }
    return sums + fragments + copy_registers(tile_m, a_k_contiguous) +
           copy_registers(tile_n, b_k_contiguous) + 40;
  }

  // Why this shape is not supported, "" if it is.
  std::string defect() const {
    const auto power_of_two = [](int64_t x) { return x > 0 && (x & (x - 1)) == 0; };
    if (!power_of_two(tile_m) || !power_of_two(tile_n) || !power_of_two(warp_m) || !power_of_two(warp_n))
      return absl::StrCat("tile ", tile_m, " x ", tile_n, " with warps of ", warp_m, " x ", warp_n,
                          ": not all powers of two");
    const int64_t least = std::max<int64_t>(instruction.rows, 16);
    if (warp_m < least || warp_n < least || warp_m > tile_m || warp_n > tile_n)
      return absl::StrCat("warp ", warp_m, " x ", warp_n, " is not in ", least, " x ", least, " to the tile ",
                          tile_m, " x ", tile_n);
    const int64_t step = std::max<int64_t>(instruction.step_bytes(), 32);
    if (depth_bytes() < step || !power_of_two(depth_bytes()) || depth_bytes() / 4 > threads())
      return absl::StrCat("tile_k ", tile_k, " is not a power of two of at least ", step,
                          " bytes and at most 4 bytes per thread");
    if (stages < 2) return absl::StrCat("stages ", stages, " < 2");
    if (adds_parts() && tile_k > scaled())
      return absl::StrCat("tile_k ", tile_k, " has several blocks of ", scaled(), ", whose parts would mix");
    if (multiplies_codes()) return code_defect();
    if (has_blocks() && (element_bytes != 2 || tile_k % 32 != 0))
      return "weights in quantised blocks need 16-bit elements and stages of 32 elements";
    if (has_blocks() && scaled_steps() == 0)
      return absl::StrCat("a step multiplies ", instruction.step_bytes() / element_bytes,
                          " elements of K, but ", scaled(), " of ", name_of(blocks), " share a scale");
    if (instruction.amd() && stages > 2) return absl::StrCat("stages ", stages, " > 2");
    return "";
  }

 private:
  int64_t scale_groups() const { return std::max<int64_t>(tile_k / scaled(), 1); }  // of a line in a stage
  int64_t elements_of_scale() const { return applies_scales() ? MatrixInstruction::kCodes : scaled(); }
  int64_t row_bytes(DType format) const {
    return tile_k * static_cast<int64_t>(size_of(format)) / block_elements(format);
  }
  std::string code_defect() const {
    if (adds_parts()) return "";
    const int64_t step = applies_scales() ? step_blocks() * MatrixInstruction::kCodes : scaled();
    return tile_k % step == 0 ? "" : absl::StrCat("tile_k ", tile_k, " is not a multiple of ", step);
  }
  // Besides the sums: the fragments and scales of two steps, a thread's chunks and scales in flight with their
  // addresses, those for indices, and where sums are scaled, two sums of products.
  int64_t code_registers() const {
    const auto count = [&](int64_t all) { return std::max<int64_t>(all / threads(), 1); };
    const auto of_operand = [&](int64_t width, int64_t fragments, DType format) {
      const int64_t chunks = count(width * row_bytes(format) / 16),
                    scales = count(width * tile_k / elements_of_scale());
      const int64_t words =
          instruction.takes_formats()
              ? row_bytes(format) * MatrixInstruction::kCodes / tile_k / 4 * scaled_steps() + 1
              : instruction.read_bytes() / 4;
      return 2 * fragments * words + 7 * chunks + 4 * scales;
    };
    const int64_t of_sums = adds_parts()    ? warp_m * warp_n / instruction.wave()
                            : scales_sums() ? 2 * instruction.sums() * (1 + fragment_columns())
                                            : 0;
    return of_operand(tile_m, fragment_rows(), a_blocks) + of_operand(tile_n, fragment_columns(), blocks) +
           of_sums + 40;
  }
  static bool has_sixteens(DType t) { return t == DType::kQ6_K || t == DType::kNVF4E2M1; }
  // A thread's loads of pieces of 32 elements, which wait through a stage. q6_k needs many more than its loads.
  int64_t piece_registers(int64_t width, DType format) const {
    const int64_t pieces = std::max<int64_t>(width * tile_k / 32 / threads(), 1);
    switch (format) {
      case DType::kQ6_K: return pieces * (tile_k > 32 ? 110 : 70);
      case DType::kQ4_K: return pieces * 13;
      case DType::kQ8_0:
      case DType::kF8E4M3x128:
      case DType::kMXF8E4M3:
      case DType::kMXF8E5M2: return pieces * 9;
      default: return pieces * 6;
    }
  }
  // Registers for quantised blocks of B: the fragments of all steps that share a scale (the next ones are loaded early,
  // unless they are in the next stage), a thread's loads, the scales of two groups, the sums of A for minima, and those
  // for decoding.
  int64_t block_registers(int64_t fragments) const {
    const bool next_stage = tile_k == scaled();
    const int64_t scales = 4 * scale_words() * fragment_columns(),
                  minima = (scale_words() - 1) * 4 * fragment_rows();
    return fragments * scaled_steps() * (next_stage ? 3 : 4) / 4 + piece_registers(tile_n, blocks) + scales +
           minima + 40;
  }
  // The same on AMD, and for A: the fragments and scales of two groups, the sums of two fragments, a thread's loads,
  // which wait through a stage, and those for decoding. Parts are in registers of their own, and their scales are
  // loaded last; if only some threads have pieces, LLVM keeps more values through the unrolled stages.
  int64_t lane_block_registers(int64_t fragments) const {
    const auto some = [&](int64_t width) { return threads() > width * tile_k / 32; };
    const int64_t branches = some(tile_n) || (has_a_blocks() && some(tile_m)) ? 64 : 0;
    const int64_t of_a = has_a_blocks() ? lane_loads(tile_m, a_blocks) + 2 * fragment_rows() + 24
                                        : copy_registers(tile_m, a_k_contiguous);
    const int64_t scales = scale_words() * fragment_columns() * instruction.sums();
    const int64_t parts = adds_parts() ? warp_m * warp_n / instruction.wave() + scales + branches
                                       : 2 * (scales + instruction.sums());
    return fragments * scaled_steps() + of_a + parts + lane_loads(tile_n, blocks) + 16;
  }
  int64_t lane_loads(int64_t width, DType format) const {
    const int64_t pieces = std::max<int64_t>(width * tile_k / 32 / threads(), 1);
    switch (format) {
      case DType::kQ6_K: return pieces * 20;
      case DType::kQ4_K: return pieces * 12;
      case DType::kQ8_0:
      case DType::kF8E4M3x128:
      case DType::kMXF8E4M3:
      case DType::kMXF8E5M2: return pieces * 9;
      default: return pieces * 6;
    }
  }
  // Registers for the copies of one operand. Chunks: a pointer each. Words that pass through registers: one
  // register for each load of a word, and the word's offset in shared memory.
  int64_t copy_registers(int64_t width, bool k_contiguous) const {
    const auto count = [&](int64_t bytes) {
      return std::max<int64_t>(width * depth_bytes() / bytes / threads(), 1);
    };
    // AMD: transposed chunks are assembled in extra registers.
    const int64_t transposed = instruction.amd() && !k_contiguous ? (element_bytes == 1 ? 16 : 6) : 0;
    if (copies_chunks(k_contiguous)) return (instruction.amd() ? 6 : 2) * count(16) + transposed;
    // AMD: each word also needs a pointer and an offset.
    if (instruction.amd()) return count(4) * (3 * (4 / element_bytes) + 3);
    const int64_t loads = 4 / element_bytes * loads_of_element();
    // Four loads from four different rows need more registers than their results: with both operands loaded
    // that way, 64x64x128 tiles of bytes exceed the limit of 255.
    return count(4) * (loads == 4 && !k_contiguous ? 10 : loads + 1) + 8;
  }
};

}  // namespace lathe
