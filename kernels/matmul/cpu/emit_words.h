// What a lane of a CPU matmul kernel's vectors holds of an operand, and how two of them are multiplied: one
// float, converted to f32 and multiplied by an FMA; two bf16 along K (of f32 rounded to them), multiplied and
// added to an f32 by AVX512-BF16 or AArch64's bfdot; four bytes along K, whose products are added to an i32.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

class CpuWords {
 public:
  // Of what an operand's elements are multiplied as. `features` of the target, as in Target::features.
  CpuWords(Emit& e, Type element, int64_t lanes, llvm::StringRef features);

  int64_t lanes() const { return lanes_; }
  int64_t per_lane() const { return kind_ == kBytes ? 4 : kind_ == kPairs ? 2 : 1; }  // elements of K
  int64_t width() const { return lanes_ * per_lane(); }                               // of a vector
  Value count(Value elements) const { return e_.div(elements, e_.idx(per_lane())); }  // of whole words
  Value zero_words() const;
  Value zero_sums() const;

  // Whether elements are rounded as they are read: f32 to pairs of bf16.
  bool rounds(const View& v) const { return kind_ == kPairs && v.element.isF32(); }
  // Whether the view's memory holds words as they are; the one that begins with the element `at` then.
  bool are_stored(const View& v) const;
  Value word_at(const View& v, Value at) const;
  // Words along K from an element on; elements at and beyond `left`, if given, are 0. What lies in blocks has
  // no such end.
  Value along_k(const View& v, Value at, Value left) const;
  // Of pairs of bf16 from an element on, the first ones and the second ones, as f32.
  std::pair<Value, Value> halves(const View& v, Value at) const;
  // Words of neighbours, each of per_lane() lines of K, of which the elements from `at` on are read.
  // Neighbours at and beyond `left`, if given, are 0.
  Value across_k(const View& v, const Values& lines, Value at, Value left) const;
  // Of each word the first `count` elements, 0 for the others.
  Value first_elements(Value words, Value count) const;

  // B's words as multiply_add takes them. AVX512-VNNI multiplies unsigned by signed bytes: 128 is added to
  // every element of B.
  Value shifted(Value b) const;
  Value multiply_add(Value a, Value b, Value sum) const;
  // Whether shifted() adds to B. Sums then begin with the negated products of A by what it adds: unshift() of
  // sums of add_a(), which adds each lane's elements of A.
  bool shifts() const { return vnni_; }
  Value add_a(Value a, Value sum) const;
  // Of a sum of A's elements: what the shift adds, negated; i32, scalar or not.
  Value unshift(Value of_a) const;
  // Each lane's elements of B, shifted as they are, added to a sum of bytes; what of them is the shift.
  Value add_b(Value b, Value sum) const;
  Value shift_of(Value elements) const;

  Value add(Value x, Value y) const;  // sums
  Value reduce(Value sums) const;     // across the lanes
  // Scratch is memory of f32.
  Value to_scratch(Value x) const;
  Value words_of(Value scratch) const { return as(word_type(), scratch); }
  Value sums_of(Value scratch) const { return as(sum_type(), scratch); }

 private:
  enum Kind { kFloats, kPairs, kBytes };
  Type i32() const { return e_.b.getI32Type(); }
  mlir::VectorType word_type() const { return e_.vec(lanes_, kind_ == kFloats ? e_.f32() : i32()); }
  mlir::VectorType sum_type() const { return e_.vec(lanes_, kind_ == kBytes ? i32() : e_.f32()); }
  Value as(mlir::VectorType type, Value x) const;
  Value all(int64_t word) const;
  Value rounded(Value x) const;  // of pairs what is f32
  Value elements_of(Value words, Type element) const;
  Value add_words16(Value a, Value b, Value sum) const;

  Emit& e_;
  int64_t lanes_;
  Kind kind_;
  // Four bytes a lane in one instruction: unsigned by signed (AVX512-VNNI), signed by signed (AArch64's
  // sdot).
  bool vnni_ = false, sdot_ = false;
  const char* words16_ = nullptr;  // without them on x86: two products of 16 bits a lane
};

}  // namespace lathe::emit
