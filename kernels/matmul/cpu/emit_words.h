// What a lane of a CPU matmul kernel's vectors holds of an operand, and how two of them are multiplied: one
// float, converted to f32 and multiplied by an FMA; a pair of bf16 along K (or of f32 rounded to bf16),
// multiplied and added to an f32 by AVX512-BF16 or AArch64's bfdot; four bytes along K, whose products are
// added to an i32.
#pragma once

#include "kernels/matmul/cpu/emit_lanes.h"

namespace lathe::emit {

class CpuWords : Lanes {
 public:
  using Lanes::add, Lanes::sub, Lanes::mul, Lanes::lanes;

  // `element`: what the operands' elements are multiplied as. `features`: as Target::features.
  CpuWords(Emit& e, Type element, int64_t lanes, llvm::StringRef features);

  int64_t per_lane() const {
    return kind_ == kBytes ? 4 : kind_ == kPairs ? 2 : 1;
  }                                                     // elements of K in a lane
  int64_t width() const { return lanes * per_lane(); }  // elements of K in a vector
  Value count(Value elements) const { return e.div(elements, e.idx(per_lane())); }  // in whole words
  Value zero_words() const;
  Value zero_sums() const;

  // Whether elements are rounded when they are read: f32 to pairs of bf16.
  bool rounds(const View& v) const { return kind_ == kPairs && v.element.isF32(); }
  // Whether the memory of the view holds words as they are multiplied. If so, word_at() loads the word that
  // begins with element `at`.
  bool are_stored(const View& v) const;
  Value word_at(const View& v, Value at) const;
  // A vector of words along K from element `at` on. Elements at and beyond `left`, if given, are 0. Blocks
  // (q4_0) are never cut.
  Value along_k(const View& v, Value at, Value left) const;
  // For pairs of bf16 from element `at` on: the first elements and the second elements, as f32.
  std::pair<Value, Value> halves(const View& v, Value at) const;
  // A vector of words across K: neighbouring columns, each word from per_lane() lines of K, read from
  // element `at` on. Columns at and beyond `left`, if given, are 0.
  Value across_k(const View& v, const Values& lines, Value at, Value left) const;
  // The first `count` elements of each word; the others are 0.
  Value first_elements(Value words, Value count) const;

  // Converts B's words for multiply_add. AVX512-VNNI multiplies unsigned by signed bytes, so 128 is added
  // to every element of B.
  Value shifted(Value b) const;
  Value multiply_add(Value a, Value b, Value sum) const;
  // Whether shifted() adds 128 to B. If so, sums must begin with the negated products of A and 128:
  // unshift() of a sum of add_a(), which adds the elements of A in each lane.
  bool shifts() const { return vnni_; }
  Value add_a(Value a, Value sum) const;
  // -128 times a sum of elements of A; i32, scalar or vector.
  Value unshift(Value of_a) const;
  // Adds each lane's elements of B, as shifted, to a sum of bytes. shift_of: the part of such a sum that
  // the shift adds.
  Value add_b(Value b, Value sum) const;
  Value shift_of(Value elements) const;

  Value reduce(Value sums) const;  // across the lanes
  // Scratch memory holds f32; these convert words and sums from and to it.
  Value to_scratch(Value x) const { return as(f32s(), x); }
  Value words_of(Value scratch) const { return as(word_type(), scratch); }
  Value sums_of(Value scratch) const { return as(sum_type(), scratch); }

 private:
  enum Kind { kFloats, kPairs, kBytes };
  mlir::VectorType word_type() const { return kind_ == kFloats ? f32s() : i32s(); }
  mlir::VectorType sum_type() const { return kind_ == kBytes ? i32s() : f32s(); }
  Value rounded(Value x) const;  // f32 to bf16 if words are pairs
  Value add_words16(Value a, Value b, Value sum) const;

  Kind kind_;
  // Instructions that multiply four bytes per lane: unsigned by signed (AVX512-VNNI), signed by signed
  // (AArch64 sdot).
  bool vnni_ = false, sdot_ = false;
  const char* words16_ = nullptr;  // x86 without VNNI: multiplies two pairs of 16 bits per lane
};

}  // namespace lathe::emit
