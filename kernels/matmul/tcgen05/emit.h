// Blackwell's "tcgen05" family. Warp 4 copies parts of A and B into stages of shared memory with TMA. Warps 0 to 3
// gather what TMA does not copy in turns: scales in the order of the instruction, listed rows of A, and fp4 beside fp8.
// One thread of warp 5 copies scales to tensor memory and issues products, whose sums are in tensor memory. Each stage
// has two mbarriers: "full" waits for TMA's bytes and the gathering warp, "empty" for the products. At the end warps 0
// to 3 store D.
#pragma once

#include "compiler/ptx_blackwell.h"
#include "compiler/ptx_hopper.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/tcgen05/shape.h"

namespace lathe::emit {

class Tcgen05Kernel {
 public:
  Tcgen05Kernel(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& program,
                const Tcgen05Shape& shape);

  // Emits the whole kernel body.
  void emit();

 private:
  // --- emit.cc: roles
  void begin();
  void end();
  // A block of K in its stage: the stage and the phase parity of its mbarriers, both i32.
  struct Slot {
    Value stage, parity;
  };
  Slot slot_of(Value block);  // i32
  void wait_until_empty(Slot s);
  Value full(Value stage), empty(Value stage), done();  // addresses of mbarriers
  void copy();
  void multiply();
  // Calls visit(operand, tile of K, tile of lines, the tile's number in a stage) for each tile of scales.
  void for_each_tile(const std::function<void(unsigned, int64_t, int64_t, int64_t)>& visit) const;
  // The columns of tensor memory of a tile.
  int64_t column_of(unsigned operand, int64_t of_k, int64_t of_lines) const;

  // --- emit_gather.cc: scales, and elements that TMA does not copy, from global to shared memory
  void gather();
  // The scales of the four lines of a tile that belong to this lane: the first of each line, of type index.
  using Lines = std::array<Value, 4>;
  Lines lines_of(unsigned operand, int64_t of_lines);
  Value has_whole_words();  // i1
  Value first_block();
  void gather_words(const std::vector<Lines>& lines, Type stored);
  void gather_bytes(const std::vector<Lines>& lines);
  Value bytes_as_word(unsigned operand, Value line, Value k);
  void gather_elements(Slot s, Value k);
  void publish(Slot s);
  bool copied_by_tma(unsigned operand) const {
    return operand == 0 ? !shape_.lists_rows : !shape_.unpacks_b();
  }
  DType blocks(unsigned operand) const { return operand == 0 ? shape_.a : shape_.b; }

  // --- emit_store.cc: the epilogue
  void store();

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  TileProgram& program_;
  const Tcgen05Shape& shape_;
  ScaledKind kind_;
  ScalePlaces places_[2];
  Value maps_[2];
  Value count_;                          // i32: blocks of K
  Value shared_, thread_, warp_, lane_;  // i32: address of shared memory; thread, warp and lane
  Value memory_;                         // i32: address of tensor memory
};

}  // namespace lathe::emit
