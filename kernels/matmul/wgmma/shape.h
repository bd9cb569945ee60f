// The shape of a "wgmma" kernel: how warpgroups divide the tile and how shared memory is laid out. Pure
// arithmetic, used by the candidate table and by the emitter.
//
// The instruction multiplies 64 rows of one operand (P) by up to 256 columns of the other (Q). P is A and Q
// is B; with `swap` (WgmmaConfig::transposed) P is B and Q is A. Both lie in shared memory in rows of 128 bytes
// with the 128-byte swizzle: along K if the operand is K-contiguous, else along M or N in columns of 64 elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/block_scaled.h"

namespace lathe {

// The elements that the instruction multiplies: the codes of fp8 in blocks whose scales are apart. kNone: of other
// blocks.
constexpr DType wgmma_element(DType t) {
  if (!is_blocks(t)) return t;
  for (const ScaledFormat& f : kScaledFormats)
    if (f.blocks == t && is_f8(f.element)) return f.element;
  return DType::kNone;
}
// Elements along K that share the scales of A and B; 0 if these are not blocks.
constexpr int64_t wgmma_scaled(DType a, DType b) {
  return is_blocks(a) && is_blocks(b) ? std::min(elements_of_scale(a), elements_of_scale(b)) : 0;
}

struct WgmmaOperand {
  int64_t width = 0;    // of the tile: tile_m of A, tile_n of B
  bool k_major = true;  // contiguous along K
  // Workgroups of the cluster that need the same part. Each multicasts one piece of it to all.
  int64_t share = 1;
  int64_t box_columns = 0, box_rows = 0, boxes = 0;  // this workgroup's TMA boxes per stage
  int64_t bytes = 0;                                 // of one stage
};

struct WgmmaInput {
  int64_t tile_m = 0, tile_n = 0, tile_k = 0, stages = 0, threads = 0;
  int64_t cluster_m = 1, cluster_n = 1, cluster_k = 1;
  bool swap = false, a_k_major = true, b_k_major = true;
  int64_t element_bytes = 2;
  // fp8: each block of K is accumulated separately and added in f32, because its sums have fewer bits.
  bool promotes = false;
  // Operands in blocks: elements along K that share the scales of A and B; else 0.
  int64_t scaled = 0;
  bool plain_store = false;  // WgmmaConfig::plain_store
  bool compares = false;     // matmul_argmax: accumulators are compared, not stored
  bool lists_rows = false;   // a grouped product's rows of A, which threads copy, and of D are listed
};

struct WgmmaShape {
  explicit WgmmaShape(const WgmmaInput& in);

  // Why this shape is not supported, "" if it is.
  std::string defect() const;

  WgmmaInput in;
  WgmmaOperand a, b;
  const WgmmaOperand& p() const { return in.swap ? b : a; }
  const WgmmaOperand& q() const { return in.swap ? a : b; }

  // Rows and columns of D of a consumer.
  int64_t register_m() const { return in.swap ? q().width : kRows * blocks; }
  int64_t register_n() const { return in.swap ? kRows * blocks : q().width; }

  int64_t consumers = 0;     // warpgroups that multiply; one more copies
  int64_t blocks = 0;        // blocks of 64 rows of P for each consumer
  int64_t steps = 0;         // instructions along tile_k
  int64_t sums = 0;          // accumulators of a thread
  int64_t row_elements = 0;  // elements in a row of 128 bytes

  static constexpr int64_t kPatch = 32, kRow = 128, kGroup = 8 * kRow;
  // The epilogue has two forms. A warp rounds 16 rows by 64 columns to D's type in shared memory and TMA
  // stores them; it alternates between two such boxes.
  bool copies_out() const { return in.plain_store && !in.swap && q().width % kBoxColumns == 0; }
  static constexpr int64_t kBoxColumns = 64, kBoxRows = 16, kBoxBytes = kBoxRows * kRow;
  // Or a warp passes a patch of its accumulators, 16 by kPatch, through shared memory as f32 and stores D row
  // by row. The pitch avoids bank conflicts: 40 words if pairs along the row are stored, 20 if elements
  // across rows are.
  int64_t patch_rows() const { return in.swap ? std::min(q().width, kPatch) : 16; }
  int64_t patch_columns() const { return in.swap ? 16 : std::min(q().width, kPatch); }
  int64_t patch_pitch() const { return in.swap ? 20 : 40; }
  int64_t patch_bytes() const {
    if (in.compares) return 0;
    return copies_out() ? 2 * kBoxBytes : 4 * patch_rows() * patch_pitch();
  }
  int64_t patches() const { return blocks * ((q().width + kPatch - 1) / kPatch); }  // of a warp

  // Parts of a stage along K that have scales of their own. Each has one f32 for every row of P, then of Q.
  int64_t groups() const { return in.scaled > 0 ? in.tile_k / in.scaled : 0; }
  int64_t group_bytes() const { return 4 * (in.tile_m + in.tile_n); }
  int64_t scale_bytes() const { return groups() * group_bytes(); }  // of a stage

  // Shared memory: the stages (P, then Q), the warps' patches, the stages' scales, then each stage's mbarriers "full"
  // and "empty".
  int64_t stage_bytes = 0, patches_at = 0, scales_at = 0, barriers_at = 0, shared_bytes = 0;
  // Whether warps of the producer's warpgroup bring a part of a stage that TMA does not: scales or rows.
  bool has_loaders() const { return in.scaled > 0 || in.lists_rows; }
  // Bytes of a stage that TMA copies.
  int64_t copied_bytes() const { return stage_bytes - (in.lists_rows ? a.bytes : 0); }

  // Static shared memory: the ticket of the last-arriver merge and, for matmul_argmax, a key for each row, or the lists
  // of rows; rounded up to the alignment of the dynamic part.
  int64_t static_bytes() const {
    constexpr int64_t kLists = 4;
    return up(16 + (in.compares ? 8 * in.tile_m : in.lists_rows ? 8 * kLists * in.tile_m : 0), 1 << 10);
  }
  int64_t resident = 0;  // workgroups on an SM
  // Registers of a producer's and of a consumer's thread; 0: as launched.
  int64_t producer_registers = 0, consumer_registers = 0;
  int64_t spare_registers = 0;                        // of a consumer's thread, beside its accumulators
  static constexpr int64_t kAllRegisters = 64 << 10;  // of an SM of sm_90

 private:
  WgmmaOperand operand(int64_t width, bool k_major, int64_t share) const;
  void assign_registers();

  static constexpr int64_t kWarpgroup = 128, kRows = 64;
  // Limits of an SM of sm_90 (CUDA Programming Guide, technical specifications): shared memory, and what the
  // system reserves of it for each workgroup; threads; registers per thread if a single warpgroup has them
  // all, and the limit of a thread.
  static constexpr int64_t kUnitShared = 228 << 10, kReservedShared = 1 << 10, kUnitThreads = 2048;
  static constexpr int64_t kUnitRegisters = kAllRegisters / kWarpgroup, kThreadRegisters = 248;
  // Registers beside the accumulators: for the loop over K, and for an epilogue other than a plain store,
  // which computes its activation for 8 elements at once.
  static constexpr int64_t kLoopRegisters = 56, kEpilogueRegisters = 96, kProducerRegisters = 40;
  // Of a thread that loads scales or rows.
  static constexpr int64_t kLoaderRegisters = 48;
  // Registers of a producer's thread with two and with three consumers: as few as it needs, because a
  // consumer with gelu and a residual would spill otherwise.
  static constexpr int64_t kProducerOfTwo = 24, kProducerOfThree = 32;
  static int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
};

inline WgmmaShape::WgmmaShape(const WgmmaInput& input) : in(input) {
  row_elements = kRow / in.element_bytes;
  // Workgroups that are adjacent along N need the same part of A, those adjacent along M the same part of B.
  a = operand(in.tile_m, in.a_k_major, in.cluster_n);
  b = operand(in.tile_n, in.b_k_major, in.cluster_m);
  consumers = in.threads / kWarpgroup - 1;
  blocks = consumers > 0 ? p().width / (kRows * consumers) : 0;
  steps = in.tile_k * in.element_bytes / 32;  // an instruction takes 32 bytes of K
  sums = blocks * q().width / 2;
  stage_bytes = a.bytes + b.bytes;
  const int64_t staged = in.stages * stage_bytes, patch = consumers * 4 * patch_bytes();
  // A cluster merges whole tiles, which reuse the memory of the stages.
  patches_at = in.cluster_k > 1 ? 0 : staged;
  scales_at = in.cluster_k > 1 ? std::max(staged, patches() * patch) : staged + patch;
  barriers_at = scales_at + in.stages * scale_bytes();
  shared_bytes = barriers_at + 16 * in.stages;
  if (defect().empty()) assign_registers();
}

inline WgmmaOperand WgmmaShape::operand(int64_t width, bool k_major, int64_t share) const {
  WgmmaOperand x;
  x.width = width, x.k_major = k_major, x.share = share;
  x.box_columns = row_elements;
  x.box_rows = k_major ? width / share : in.tile_k;
  x.boxes = k_major ? in.tile_k / row_elements : width / row_elements / share;
  x.bytes = width * in.tile_k * in.element_bytes;
  return x;
}

inline std::string WgmmaShape::defect() const {
  if (in.threads % kWarpgroup != 0 || consumers < 1 || consumers > 3)
    return absl::StrCat(in.threads, " threads do not make one producer warpgroup and 1 to 3 consumers");
  const int64_t rows = p().width, columns = q().width;
  if (rows < 1 || rows % (kRows * consumers) != 0)
    return absl::StrCat(rows, " rows are not a multiple of 64 for each of ", consumers,
                        " consumer warpgroups");
  if (columns % 8 != 0 || columns < 8 || columns > 256 || (columns > kPatch && columns % kPatch != 0))
    return absl::StrCat("no wgmma instruction has the width ", columns);
  if (in.promotes && sums > 96) return absl::StrCat("accumulators per thread 2 * ", sums, " > 192");
  if (sums > 192) return absl::StrCat("accumulators per thread ", sums, " > 192");
  if (in.tile_k < 1 || in.tile_k % row_elements != 0 || in.tile_k > 256)
    return absl::StrCat("tile_k ", in.tile_k, " is not a multiple of ", row_elements, " up to 256");
  if (in.scaled > 0 && in.tile_k % in.scaled != 0)
    return absl::StrCat("tile_k ", in.tile_k, " is not a multiple of the ", in.scaled,
                        " elements that share a scale");
  if (in.stages < 2) return absl::StrCat("stages ", in.stages, " < 2");
  if (in.lists_rows && (!in.a_k_major || in.cluster_n > 1))
    return "listed rows are copied along K, by the workgroup that multiplies them";
  for (const WgmmaOperand* x : {&a, &b}) {
    if (!x->k_major && in.element_bytes != 2) return "8-bit operands must be contiguous along K";
    // The only form that is documented to work (CUTLASS' layouts of whole atoms).
    if (!x->k_major && x->width % row_elements != 0)
      return absl::StrCat("tile width ", x->width, " along M or N is not a multiple of ", row_elements);
    if ((x->k_major ? x->width / 8 : x->width / row_elements) % x->share != 0)
      return absl::StrCat("tile width ", x->width, " cannot be split among ", x->share, " workgroups");
    if (x->box_rows > 256) return absl::StrCat("tensor map box of ", x->box_rows, " rows > 256");
  }
  return "";
}

inline void WgmmaShape::assign_registers() {
  const int64_t held = sums * (in.promotes ? 2 : 1), needed = up(held + kLoopRegisters, 8);
  const int64_t most = has_loaders() ? kLoaderRegisters : kProducerRegisters;
  resident = std::max<int64_t>(
      1, std::min({kUnitShared / (shared_bytes + static_bytes() + kReservedShared), kUnitThreads / in.threads,
                   kUnitRegisters / (most + consumers * needed), int64_t{4}}));
  const int64_t launched = std::min(kThreadRegisters, kUnitRegisters / resident / (consumers + 1) / 8 * 8);
  spare_registers = launched - held;
  if (launched >= (in.plain_store ? needed : up(held + kEpilogueRegisters, 8))) return;
  const int64_t producer = consumers == 1 || has_loaders() ? most
                           : consumers == 2                ? kProducerOfTwo
                                                           : kProducerOfThree;
  const int64_t consumer =
      std::min(kThreadRegisters - 8, (launched * (consumers + 1) - producer) / consumers / 8 * 8);
  if (consumer <= launched) return;  // setmaxnreg.inc to fewer than a thread has is undefined (PTX ISA)
  producer_registers = producer;
  consumer_registers = consumer;
  spare_registers = consumer - held;
}

}  // namespace lathe
