// AMD: loads a wave's fragments from shared memory, at most 16 bytes per lane at a time, and emits the matrix
// instructions.
#include <algorithm>

#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kChunk = 16;  // bytes

class LaneFragments : public MmaFragments {
 public:
  LaneFragments(Emit& e, const MmaOperand& x, Value shared, Value first, Value lane)
      : e_(e), x_(x), shared_(shared) {
    const MatrixInstruction& t = x.instruction;
    const SwizzledRows& layout = x.layout;
    Value row = e.rem(lane, e.i32(t.rows)), group = e.rem(e.div(lane, e.i32(t.rows)), e.i32(t.groups));
    Value start = e.mul(e.add(first, row), layout.row_bytes);
    const int64_t together = kChunk / bytes();  // groups of lanes that read the same chunk
    if (together > 1) {
      start = e.add(start, e.mul(e.rem(group, e.i32(together)), bytes()));
      group = e.div(group, e.i32(together));
    }
    Value chunk = e.mul(exclusive_or(e, group, layout.exchange(e, row)), kChunk);
    // Chunk group + c is group ^ c, because c is a multiple of the groups' chunks, a power of two.
    for (int64_t c = 0; c < layout.chunks(); c += t.groups / together)
      lanes_.push_back(e.add(start, exclusive_or(e, chunk, c * kChunk)));
  }

  Values load(Value stage, int64_t step) override {
    const MatrixInstruction& t = x_.instruction;
    const int64_t reads = t.read_bytes() / bytes();
    Values registers;
    for (int64_t row = 0; row < x_.warp_width; row += t.rows) {
      Value part;
      for (int64_t i = 0; i < reads; ++i) {
        Value at = shared_at(e_, shared_, e_.add(stage, lanes_[step * reads + i]),
                             x_.place + row * x_.layout.row_bytes);
        Value chunk = LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(bytes() / 4, e_.b.getI32Type()), at,
                                           static_cast<unsigned>(bytes()));
        part = part ? joined(part, chunk) : chunk;
      }
      registers.push_back(part);
    }
    return registers;
  }

 private:
  int64_t bytes() const { return std::min(x_.instruction.read_bytes(), kChunk); }  // of one read
  Value joined(Value x, Value y) {
    return LLVM::ShuffleVectorOp::create(e_.b, e_.loc, x, y, ArrayRef<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  Values lanes_;  // i32: byte offsets of the chunks of a row that the lane reads
};

Type operand_type(Emit& e, const MatrixInstruction& t) {
  const int64_t bytes = t.lane_bytes;
  switch (t.operand) {
    case MatrixInstruction::kFloat: return e.f32();
    case MatrixInstruction::kHalves: return e.vec(bytes / 2, e.b.getF16Type());
    case MatrixInstruction::kBfloats: return e.vec(bytes / 2, e.b.getBF16Type());
    case MatrixInstruction::kShorts: return e.vec(bytes / 2, e.b.getI16Type());
    case MatrixInstruction::kInt: return e.b.getI32Type();
    case MatrixInstruction::kLong: return e.b.getI64Type();
    case MatrixInstruction::kInts: return e.vec(bytes / 4, e.b.getI32Type());
  }
  return Type();
}

// The operand of instruction `i`, out of the data of one read.
Value operand(Emit& e, const MatrixInstruction& t, Value read, int64_t i) {
  Type type = operand_type(e, t);
  if (t.products() == 1) return LLVM::BitcastOp::create(e.b, e.loc, type, read);
  Type word = e.b.getIntegerType(8 * t.lane_bytes);
  Value words = LLVM::BitcastOp::create(e.b, e.loc, e.vec(t.products(), word), read);
  Value x = LLVM::ExtractElementOp::create(e.b, e.loc, words, e.i32(i));
  return type == word ? x : LLVM::BitcastOp::create(e.b, e.loc, type, x).getResult();
}

Value call(Emit& e, StringRef name, Type type, const Values& operands) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, type, e.b.getStringAttr(name), operands).getResult(0);
}

}  // namespace

std::unique_ptr<MmaFragments> make_lane_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                                  Value lane) {
  return std::make_unique<LaneFragments>(e, x, shared, first, lane);
}

Value multiply_lanes(Emit& e, const MatrixInstruction& t, Value a, Value b, Value sums) {
  Type bit = e.b.getI1Type();
  for (int64_t i = 0; i < t.products(); ++i) {
    // B's columns are the instruction's rows (MatrixInstruction::rows).
    Value x = operand(e, t, b, i), y = operand(e, t, a, i);
    Values operands = {x, y, sums};
    if (t.takes_formats()) {
      operands.append(2, e.i32(scaled_format_number(t.type)));
      operands.append(4, e.i32(0));  // no scales
    } else if (t.unit == MatrixInstruction::kMfma) {
      operands.append(3, e.i32(0));  // no broadcast, no permutation
    } else if (t.type == DType::kI8) {
      Value is_signed = e.constant(bit, 1), clamps = e.constant(bit, 0);
      operands = {is_signed, x, is_signed, y, sums, clamps};
    }
    sums = call(e, t.name, sums.getType(), operands);
  }
  return sums;
}

void pin_loads(Emit& e) {
  LLVM::InlineAsmOp::create(e.b, e.loc, TypeRange(), ValueRange(), "", "~{memory}", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
                            LLVM::AsmDialectAttr(), ArrayAttr());
}

void pin_schedule(Emit& e) {
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr("llvm.amdgcn.sched.barrier"),
                                ValueRange{e.i32(0)});
}

}  // namespace lathe::emit
