// Payload text that argmax and matmul_argmax share: reductions to (value, column) and the step that merges
// such pairs. The text uses #config and the affine maps #pair and #out (kPairMaps).
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe::argmax_text {

inline constexpr char kPairMaps[] =
    "#pair = affine_map<(r, s) -> (s, r)>\n#out = affine_map<(r, c) -> (r)>\n";

// The rows of one workgroup, which is row tile %r_id: how the text names their number and the first of them.
class TileRows {
 public:
  // `all`: the number of rows of the problem if it is static and fits one tile, else 0.
  explicit TileRows(int64_t tile, int64_t all = 0) : tile_(tile), known_(tile == 1 ? 1 : all) {}

  bool known() const { return known_ > 0; }
  std::string size() const;
  std::string first() const { return tile_ > 1 ? "%r0" : "%r_id"; }
  // "tensor<?xf32>" for the element "f32".
  std::string type(absl::string_view element) const;
  std::string extent() const;  // "?" or the number
  // Lines that define %r0 and %rows.
  std::string place() const;
  // A line that defines %tiles, in front of the forall; and the forall's bound.
  std::string count() const;
  std::string bound() const { return tile_ > 1 ? "%tiles" : "%m"; }

 private:
  int64_t tile_, known_;
};

// A forall's shared outputs, a value and an index, and what they are bound to. Without a value if none is wanted.
struct Outputs {
  bool values;
  std::string value_operand, index_operand, value_type, index_type;

  std::string bind() const;
  // Inserts both results at [at] [sizes] with strides of 1.
  std::string insert(const TileRows& rows, absl::string_view at, absl::string_view sizes,
                     absl::string_view ones, absl::string_view index) const;
};
// The outputs of the request: indices of type c.d and, if wanted, values.
Outputs results(const ProblemClass& c);

// "%x: tensor<4xf32> {lathe.operand = "a"}"
std::string operand(absl::string_view name, absl::string_view type, absl::string_view field);
std::string step_attributes(const std::string& symbol, absl::string_view mapping);
// Lines that define %least and %first, with which a reduction over rows starts.
std::string reduction_start(const TileRows& rows, absl::string_view index);

// A reduction of `input` along its columns. Results: %r#0 (values) and %r#1 (columns of type `index`, counted
// from `first_column`).
struct Reduction {
  std::string input, type, element, map;
  std::string index, first_column;
  std::string attributes;  // " attrs = {...}" or ""
};
std::string reduce(const TileRows& rows, const Reduction& r);

// The step that merges the %pairs of each row, `count` of them ("%splits" or "12"), and adds %index_offset.
std::string merge_step(const ProblemClass& c, const TileRows& rows, const std::string& symbol,
                       absl::string_view count);

}  // namespace lathe::argmax_text
