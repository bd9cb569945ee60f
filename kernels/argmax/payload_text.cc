#include "kernels/argmax/payload_text.h"

#include "absl/strings/str_cat.h"

namespace lathe::argmax_text {
namespace {

// The reduction's body after the definitions of `%in` (f32) and `%column` (of type `index`): keep the greater
// value, the first of equal values, and the first NaN over everything.
std::string keep_better(absl::string_view index) {
  return absl::StrCat(
      "        %greater = arith.cmpf ugt, %in, %best : f32\n"
      "        %open = arith.cmpf ord, %best, %best : f32\n"
      "        %take = arith.andi %greater, %open : i1\n"
      "        %value = arith.select %take, %in, %best : f32\n"
      "        %index = arith.select %take, %column, %at : ",
      index,
      "\n"
      "        linalg.yield %value, %index : f32, ",
      index, "\n");
}

}  // namespace

std::string TileRows::size() const { return known() ? absl::StrCat(known_) : "%rows"; }
std::string TileRows::extent() const { return known() ? absl::StrCat(known_) : "?"; }
std::string TileRows::type(absl::string_view element) const {
  return absl::StrCat("tensor<", extent(), "x", element, ">");
}

std::string TileRows::place() const {
  if (tile_ == 1) return "";
  return absl::StrCat("      %r0 = affine.apply affine_map<(t) -> (t * ", tile_, ")>(%r_id)\n",
                      known() ? ""
                              : absl::StrCat("      %rows = affine.min affine_map<(first)[m] -> (", tile_,
                                             ", m - first)>(%r0)[%m]\n"));
}

std::string TileRows::count() const {
  if (tile_ == 1) return "";
  return absl::StrCat("    %tiles = affine.apply affine_map<()[m] -> (m ceildiv ", tile_, ")>()[%m]\n");
}

std::string Outputs::bind() const {
  return values ? absl::StrCat("shared_outs(%v = ", value_operand, ", %o = ", index_operand, ") -> (",
                               value_type, ", ", index_type, ")")
                : absl::StrCat("shared_outs(%o = ", index_operand, ") -> (", index_type, ")");
}

std::string Outputs::insert(const TileRows& rows, absl::string_view at, absl::string_view sizes,
                            absl::string_view ones, absl::string_view index) const {
  auto one = [&](absl::string_view result, absl::string_view out, absl::string_view element,
                 const std::string& type) {
    return absl::StrCat("        tensor.parallel_insert_slice ", result, " into ", out, "[", at, "] [", sizes,
                        "] [", ones, "] : ", rows.type(element), " into ", type, "\n");
  };
  return absl::StrCat("      scf.forall.in_parallel {\n", one("%r#1", "%o", index, index_type),
                      values ? one("%r#0", "%v", "f32", value_type) : "", "      }\n");
}

Outputs results(const ProblemClass& c) {
  return {c.wants_values != 0, "%values", "%indices", "tensor<?xf32>",
          absl::StrCat("tensor<?x", name_of(c.d), ">")};
}

std::string operand(absl::string_view name, absl::string_view type, absl::string_view field) {
  return absl::StrCat("%", name, ": ", type, " {lathe.operand = \"", field, "\"}");
}

std::string step_attributes(const std::string& symbol, absl::string_view mapping) {
  return absl::StrCat("    } {lathe.step = \"", symbol, "\", mapping = [", mapping, "]}\n");
}

std::string reduction_start(const TileRows& rows, absl::string_view index) {
  const std::string size = rows.known() ? "" : "%rows", value = rows.type("f32"), at = rows.type(index);
  return absl::StrCat(
      "      %lowest = arith.constant 0xFF800000 : f32\n      %zero = arith.constant 0 : ", index, "\n",
      "      %empty_value = tensor.empty(", size, ") : ", value, "\n      %empty_index = tensor.empty(", size,
      ") : ", at, "\n", "      %least = linalg.fill ins(%lowest : f32) outs(%empty_value : ", value, ") -> ",
      value, "\n      %first = linalg.fill ins(%zero : ", index, ") outs(%empty_index : ", at, ") -> ", at,
      "\n");
}

std::string reduce(const TileRows& rows, const Reduction& r) {
  const bool f32 = r.element == "f32";
  return absl::StrCat(
      "      %r:2 = linalg.generic {indexing_maps = [", r.map,
      ", #out, #out], iterator_types = [\"parallel\", \"reduction\"]}\n          ins(", r.input, " : ",
      r.type, ") outs(%least, %first : ", rows.type("f32"), ", ", rows.type(r.index), ")\n         ",
      r.attributes, " {\n      ^bb0(%", f32 ? "in" : "x_in", ": ", r.element, ", %best: f32, %at: ", r.index,
      "):\n", f32 ? "" : absl::StrCat("        %in = arith.extf %x_in : ", r.element, " to f32\n"),
      "        %i = linalg.index 1 : index\n        %j = arith.addi %i, ", r.first_column,
      " : index\n        %column = arith.index_cast %j : index to ", r.index, "\n", keep_better(r.index),
      "      } -> (", rows.type("f32"), ", ", rows.type(r.index), ")\n");
}

std::string merge_step(const ProblemClass& c, const TileRows& rows, const std::string& symbol,
                       absl::string_view count) {
  const Outputs out = results(c);
  const std::string index(name_of(c.d)), extent = count[0] == '%' ? "?" : std::string(count);
  const auto whole = [&](const char* element) {
    return absl::StrCat("tensor<", extent, "x?x", element, ">");
  };
  const auto slice = [&](const char* element) {
    return absl::StrCat("tensor<", extent, "x", rows.extent(), "x", element, ">");
  };
  const auto take = [&](const char* name, const char* from, const char* element) {
    return absl::StrCat("      %", name, " = tensor.extract_slice ", from, "[0, ", rows.first(), "] [", count,
                        ", ", rows.size(), "] [1, 1] : ", whole(element), " to ", slice(element), "\n");
  };
  return absl::StrCat(
      "    %done", out.values ? ":2" : "", " = scf.forall (%r_id) in (", rows.bound(), ") ", out.bind(),
      " {\n", rows.place(), take("value_slice", "%pairs#0", "f32"), take("index_slice", "%pairs#1", "i32"),
      reduction_start(rows, index),
      "      %r:2 = linalg.generic {indexing_maps = [#pair, #pair, #out, #out], iterator_types = "
      "[\"parallel\", "
      "\"reduction\"]}\n          ins(%value_slice, %index_slice : ",
      slice("f32"), ", ", slice("i32"), ")\n          outs(%least, %first : ", rows.type("f32"), ", ",
      rows.type(index), ") {\n      ^bb0(%in: f32, %part: i32, %best: f32, %at: ", index,
      "):\n        %p = arith.index_cast %part : i32 to index\n        %j = arith.addi %p, %index_offset : "
      "index\n"
      "        %column = arith.index_cast %j : index to ",
      index, "\n", keep_better(index), "      } -> (", rows.type("f32"), ", ", rows.type(index), ")\n",
      out.insert(rows, rows.first(), rows.size(), "1", index), step_attributes(symbol, "#gpu.block<x>"));
}

}  // namespace lathe::argmax_text
