// Pieces of payload text that argmax and matmul_argmax share: reductions to (value, column) and the step that
// merges them. The text names #config; affine maps #pair, #out are kPairMaps.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/problem.h"

namespace lathe::argmax_text {

inline constexpr char kPairMaps[] =
    "#pair = affine_map<(r, s) -> (s, r)>\n#out = affine_map<(r, c) -> (r)>\n";

// The rows of one workgroup, the tile %r_id of them: how the text names their number and the first.
class TileRows {
 public:
  // `all`: of the whole problem, where they are known and fit one tile; 0 otherwise.
  explicit TileRows(int64_t tile, int64_t all = 0) : tile_(tile), known_(tile == 1 ? 1 : all) {}

  bool known() const { return known_ > 0; }
  std::string size() const;
  std::string first() const { return tile_ > 1 ? "%r0" : "%r_id"; }
  // "tensor<?xf32>" of the element "f32".
  std::string type(absl::string_view element) const;
  std::string extent() const;  // "?" or the number
  // Lines that make %r0 and %rows.
  std::string place() const;
  // A line that makes %tiles, in front of the forall, and the forall's bound.
  std::string count() const;
  std::string bound() const { return tile_ > 1 ? "%tiles" : "%m"; }

 private:
  int64_t tile_, known_;
};

// A forall's shared outputs and what they are bound to: (value, index), the value left out if nobody wants
// it.
struct Outputs {
  bool values;
  std::string value_operand, index_operand, value_type, index_type;

  std::string bind() const;
  // Both results at [at] [sizes] with strides of 1.
  std::string insert(const TileRows& rows, absl::string_view at, absl::string_view sizes,
                     absl::string_view ones, absl::string_view index) const;
};
// What the op is asked for: indices of type c.d, and values.
Outputs results(const ProblemClass& c);

// "%x: tensor<4xf32> {lathe.operand = "a"}"
std::string operand(absl::string_view name, absl::string_view type, absl::string_view field);
std::string step_attributes(const std::string& symbol, absl::string_view mapping);
// Lines that make %least and %first, what a reduction over rows starts from.
std::string reduction_start(const TileRows& rows, absl::string_view index);

// The reduction of `input` along its columns: results %r#0 (values) and %r#1 (columns, `first_column` more
// than counted in the input, of the type `index`).
struct Reduction {
  std::string input, type, element, map;
  std::string index, first_column;
  std::string attributes;  // " attrs = {...}" or ""
};
std::string reduce(const TileRows& rows, const Reduction& r);

// The step that merges %pairs, `count` ("%splits", "12") a row, to `out` with %index_offset.
std::string merge_step(const ProblemClass& c, const TileRows& rows, const std::string& symbol,
                       absl::string_view count);

}  // namespace lathe::argmax_text
