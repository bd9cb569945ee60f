#include "kernels/matmul/emit_blocks.h"

#include "kernels/matmul/emit_block_reader.h"

// To add a block format: a row in kLayouts, and a case in BlockReader::scales_of() if its scales are stored in a new
// way.
namespace lathe::emit {
namespace {

constexpr int8_t kIq4Values[kHalves] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
// The values of e2m1, doubled.
constexpr int8_t kFp4Values[kHalves] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// clang-format off
constexpr BlockLayout kLayouts[] = {
    {DType::kQ4_0,   BlockScales::kF16,         32,  8},
    {DType::kQ8_0,   BlockScales::kF16,         0},
    {DType::kQ4_1,   BlockScales::kF16AndMin,   32},
    {DType::kQ5_0,   BlockScales::kF16,         32,  16, nullptr, 1, 2},
    {DType::kQ5_1,   BlockScales::kF16AndMin,   32,  0,  nullptr, 1, 4},
    {DType::kQ4_K,   BlockScales::kSixBits,     64},
    {DType::kQ5_K,   BlockScales::kSixBits,     64,  0,  nullptr, 1, 16, 256},
    {DType::kQ6_K,   BlockScales::kBytes,       128, 32, nullptr, 2, 128, 128},
    {DType::kIQ4_NL, BlockScales::kF16,         32,  0,  kIq4Values},
    {DType::kIQ4_XS, BlockScales::kSixBitsOf32, 32,  0,  kIq4Values},
    {DType::kMXFP4,  BlockScales::kPower,       32,  0,  kFp4Values},
    {DType::kU4x128, BlockScales::kF16AndZero,  32},
    {DType::kF8E4M3x128, BlockScales::kApartF32,   0, 0, nullptr,    0, 0, 0, BlockCodes::kE4M3},
    {DType::kMXF8E4M3,   BlockScales::kApartPower, 0, 0, nullptr,    0, 0, 0, BlockCodes::kE4M3},
    {DType::kMXF8E5M2,   BlockScales::kApartPower, 0, 0, nullptr,    0, 0, 0, BlockCodes::kE5M2},
    {DType::kMXF4E2M1,   BlockScales::kApartPower, 0, 0, kFp4Values, 0, 0, 0, BlockCodes::kPairs},
    {DType::kNVF4E2M1,   BlockScales::kApartF8,    0, 0, kFp4Values, 0, 0, 0, BlockCodes::kPairs}};
// clang-format on

}  // namespace

const BlockLayout& block_layout(DType t) {
  for (const BlockLayout& layout : kLayouts)
    if (layout.dtype == t) return layout;
  llvm::report_fatal_error("no layout for this block format");
}

Value CpuBlocks::byte_of(Value at) const { return e_.mul(e_.div(at, e_.idx(elements(v_))), bytes(v_)); }
Value CpuBlocks::along_k(Value at) const {
  const BlockReader reader{e_, lanes_, v_, block_layout(v_.blocks)};
  return reader.elements(byte_of(at), e_.rem(at, e_.idx(elements(v_))));
}
Values CpuBlocks::piece(Value at, int64_t inside) const {
  const BlockReader reader{e_, lanes_, v_, block_layout(v_.blocks)};
  Value byte = byte_of(at);
  Values vectors;
  for (int64_t i = 0; i < kPiece; i += lanes_) vectors.push_back(reader.elements(byte, e_.idx(inside + i)));
  return vectors;
}

Value GpuBlocks::Loads::value(llvm::function_ref<Value()> load) {
  if (done) return values[next++];
  values.push_back(load());
  return values.back();
}
Values GpuBlocks::load(const GpuBlockLine& line, Value k) const {
  Loads loads{alignment_, {}, false, 0};
  const ScalesOfBlock scales{places_, line.scales, e_.sub(k, inside(k))};
  BlockReader{e_, kRun, v_, block_layout(v_.blocks), &loads, &scales}.elements(
      byte_of_block(e_, v_, line.byte, k), inside(k));
  return loads.values;
}
Value GpuBlocks::decode(llvm::ArrayRef<Value> loaded, Value k) const {
  Loads loads{alignment_, Values(loaded), true, 0};
  return BlockReader{e_, kRun, v_, block_layout(v_.blocks), &loads}.elements(e_.idx(0), inside(k));
}

GpuBlockLine gpu_block_line(Emit& e, const View& v, const ScalePlaces& places, Value i) {
  Value first = e.add(v.offset, row_at(e, v, i));
  if (!places.memory) return {byte_of_block(e, v, e.idx(0), first), {}};
  // Rows of A may be any distance apart, so this one may begin within a block.
  const int64_t in_byte = block_elements(v.blocks) / static_cast<int64_t>(size_of(v.blocks));
  return {e.div(first, e.idx(in_byte)), places.of_line(e, i)};
}
Value gpu_scale(Emit& e, const View& v, const ScalePlaces& places, Value line, Value k) {
  GpuBlocks::Loads loads{/*alignment=*/16, {}, false, 0};
  const ScalesOfBlock scales{places, line, k};
  const BlockReader reader{e, 1, v, block_layout(v.blocks), &loads, &scales};
  return vector::ExtractOp::create(e.b, e.loc, reader.scales_of(e.idx(0), e.idx(0)).scale,
                                   ArrayRef<int64_t>{0});
}
Value byte_of_block(Emit& e, const View& v, Value first_byte, Value element) {
  Value block = e.div(element, e.idx(block_elements(v.blocks)));
  return e.add(first_byte, e.mul(block, static_cast<int64_t>(size_of(v.blocks))));
}

}  // namespace lathe::emit
